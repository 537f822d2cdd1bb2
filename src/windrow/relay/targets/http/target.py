"""Post messages to URLs: one try at a time, each ending in an outcome and never in an error."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from windrow.config.http import HttpDelivery, signing_keys
from windrow.config.secrets import Secret
from windrow.errors import MissingExtra
from windrow.extras import require
from windrow.relay.competing.contract import Claim, Later, Outcome
from windrow.relay.targets.http import signing
from windrow.relay.targets.http.addresses import AddressRules, literal
from windrow.relay.targets.http.answers import judge
from windrow.relay.targets.http.cloud_events import EventForm, Request
from windrow.relay.targets.http.errors import AddressForbidden, NowhereToSend
from windrow.relay.targets.http.resolving import CheckedResolver, LookUp, look_up
from windrow.telemetry import traces
from windrow.version import __version__

if TYPE_CHECKING:
    import aiohttp
    import yarl

SEND_TIMEOUT = 10.0
LONGEST_ANSWER = 64 * 1024
"""Bytes of an answer's body that are read to keep the connection; nobody looks at them."""
NOWHERE = "nowhere"
DEFAULT_PORTS = {"http": 80, "https": 443}


class HttpTarget:
    """Receivers that take messages as CloudEvents over HTTP.

    The same message is sent with the same ``Idempotency-Key`` on each try. Redirects are not
    followed, proxies of the environment are not used, cookies are not kept.

    Args:
        settings: Where to, and how.
        send_timeout: Seconds for one try, waiting for a connection included.
        find: How addresses of hosts are found.

    Raises:
        NowhereToSend: There is no URL.
        AddressForbidden: A URL has an address in it that must not be sent to.
    """

    def __init__(
        self,
        settings: HttpDelivery,
        send_timeout: float = SEND_TIMEOUT,
        *,
        find: LookUp = look_up,
    ) -> None:
        if not settings.url and not settings.routes:
            raise NowhereToSend
        self._settings, self._send_timeout, self._find = settings, send_timeout, find
        self._rules = AddressRules(settings.allow_private, settings.allowed_hosts)
        self._form = EventForm(settings.mode, settings.source, settings.content_type)
        self._keys = signing_keys(settings.secret) if settings.secret is not None else []
        self._origins = {url: self._checked_origin(url) for url in self._urls()}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._session: aiohttp.ClientSession | None = None
        self._places: dict[str, yarl.URL] = {}
        self._http: Any = None
        self._is_traced = False

    async def open(self) -> None:
        """Get ready to send; connections are made when there is something for them."""
        self._http = http = require("aiohttp")
        self._is_traced = _are_traces_kept()
        settings = self._settings
        connector = http.TCPConnector(
            limit=0,  # by the slots of each host
            keepalive_timeout=settings.keep_alive,
            resolver=CheckedResolver(self._rules, self._find),
            ssl=self._tls(),
        )
        url_class: type[yarl.URL] = require("yarl").URL
        self._places = {url: url_class(url, encoded=True) for url in self._origins}
        self._slots = {
            origin: asyncio.Semaphore(settings.per_host) for origin in self._origins.values()
        }
        self._session = http.ClientSession(
            connector=connector,
            headers={"user-agent": f"windrow/{__version__}", **self._fixed_headers()},
            cookie_jar=http.DummyCookieJar(),
            auto_decompress=False,  # a small answer could grow without end
            timeout=self._timeout(self._send_timeout),
        )

    def destination(self, topic: str) -> str:
        """The scheme, host and port that messages of the topic go to."""
        url = self._url(topic)
        return self._origins[url] if url else NOWHERE

    async def send(self, claim: Claim) -> Outcome:
        """Post it once, within the send time-out; never raises for what the receiver does."""
        url = self._url(claim.topic)
        if not url:
            reason = f"topic {claim.topic!r} has no URL: set relay.http.url or relay.http.routes"
            return Later(reason, is_outage=True)
        began = time.monotonic()
        slots = self._slots[self._origins[url]]
        try:
            # For no longer: what is left of the time has to be enough for a fair try.
            async with asyncio.timeout(self._send_timeout / 2) if slots.locked() else nullcontext():
                await slots.acquire()
        except TimeoutError:
            reason = f"no connection was free within {self._send_timeout / 2:g} s"
            return Later(reason, is_outage=True)
        try:
            return await self._post(url, claim, began)
        finally:
            slots.release()

    async def close(self) -> None:
        """Let go of connections; nothing is being sent any more."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # -- one try ---------------------------------------------------------------------------------

    async def _post(self, url: str, claim: Claim, began: float) -> Outcome:
        left = self._send_timeout - (time.monotonic() - began)
        if not self._is_traced:
            return await self._try(url, self._request(claim, {}), left)
        with _traced(claim) as trace_headers:
            return await self._try(url, self._request(claim, trace_headers), left)

    async def _try(self, url: str, request: Request, left: float) -> Outcome:
        http = self._http
        try:
            return await self._exchange(url, request, left)
        except AddressForbidden as error:
            return Later(str(error), is_outage=True)
        except http.ConnectionTimeoutError:
            reason = f"no connection within {self._connect_timeout:g} s"
            return Later(reason, is_outage=True)
        except http.ClientConnectorError as error:
            return Later(f"cannot connect: {_line(error)}", is_outage=True)
        except TimeoutError:
            return Later(f"no answer within {self._send_timeout:g} s")
        except (http.ClientError, OSError, ValueError) as error:
            return Later(f"no answer: {_line(error)}")

    async def _exchange(self, url: str, request: Request, left: float) -> Outcome:
        assert self._session is not None, "open() comes first"
        # The session's own time-out serves whoever had not to wait.
        own = {} if left > self._send_timeout - 0.01 else {"timeout": self._timeout(left)}
        async with self._session.post(
            self._places[url],
            data=request.body,
            headers=request.headers,
            allow_redirects=False,
            **own,
        ) as answer:
            outcome = judge(answer.status, answer.headers.get("Retry-After"), time.time())
            await self._read_to_end(answer)
            return outcome

    async def _read_to_end(self, answer: aiohttp.ClientResponse) -> None:
        """Leave the connection ready for the next; what was answered is known already."""
        try:
            rest = LONGEST_ANSWER
            while rest > 0:
                chunk = await answer.content.read(rest)
                if not chunk:
                    return
                rest -= len(chunk)
        except (self._http.ClientError, TimeoutError, OSError):
            pass
        answer.close()

    def _request(self, claim: Claim, trace_headers: dict[str, str]) -> Request:
        request = self._form.request(claim)
        headers = request.headers
        for name, value in trace_headers.items():
            headers.setdefault(name, value)
        if self._keys:
            message_id, now = headers["idempotency-key"], int(time.time())
            headers[signing.ID] = message_id
            headers[signing.TIMESTAMP] = str(now)
            headers[signing.SIGNATURE] = signing.sign(self._keys, message_id, now, request.body)
        return request

    # -- settings --------------------------------------------------------------------------------

    def _url(self, topic: str) -> str:
        return self._settings.routes.get(topic) or self._settings.url

    def _urls(self) -> list[str]:
        return [url for url in (self._settings.url, *self._settings.routes.values()) if url]

    def _checked_origin(self, url: str) -> str:
        parts = urlsplit(url)
        host = parts.hostname or ""
        address = literal(host)
        if address is not None:
            sort = self._rules.objection(host, address)
            if sort is not None:
                raise AddressForbidden(host, address, sort)
        return _origin(parts)

    @property
    def _connect_timeout(self) -> float:
        return min(self._settings.connect_timeout, self._send_timeout)

    def _timeout(self, seconds: float) -> Any:
        timeout_class: Any = self._http.ClientTimeout
        return timeout_class(
            total=max(seconds, 0.001),
            connect=min(self._connect_timeout, max(seconds, 0.001)),
            # To the moment: by default long ones are rounded up to a whole second.
            ceil_threshold=float("inf"),
        )

    def _fixed_headers(self) -> dict[str, str]:
        given = self._settings.headers.items()
        return {name: v.reveal() if isinstance(v, Secret) else v for name, v in given}

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._settings.ca_file or None)


def _are_traces_kept() -> bool:
    """Whether somebody set up a place for traces: without one a span costs, and tells nobody."""
    try:
        api = require("opentelemetry.trace")
    except MissingExtra:
        return False
    return not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider)


@contextmanager
def _traced(claim: Claim) -> Iterator[dict[str, str]]:
    """A span around the try where traces are kept; gives the headers of one that begins here."""
    origin = traces.extract(claim.headers)
    attributes: dict[str, traces.Attribute] = {
        "messaging.operation.type": "send",
        "messaging.destination.name": claim.topic,
        "messaging.message.id": claim.message_id,
    }
    links = None if origin is None else [origin]
    with traces.span("send", attributes, links, kind="producer"):
        # A trace that came with the record goes on as it is; otherwise it begins at the span.
        given = () if origin is not None else traces.inject(())
        yield {name: str(value) for name, value in given}


def _origin(parts: SplitResult) -> str:
    host = parts.hostname or ""
    written = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{written}:{parts.port or DEFAULT_PORTS[parts.scheme]}"


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__
