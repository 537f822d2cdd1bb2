"""A URL as a destination: each message is posted, with its delivery hash as idempotency key.

Nothing can be kept there, so this is an effect and no target: at least once, and the same key on
each try. The marks lie in a journal beside it, moved by the sink task after the effect, or before
it where a message is to arrive at most once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from windrow.errors import Unreachable
from windrow.extras import require
from windrow.graph.sink_rows import SinkRow
from windrow.relay.targets.http.answers import asked_delay, is_temporary
from windrow.spark.places import Place
from windrow.spark.targets.errors import RowRefused, TargetUnusable
from windrow.spark.targets.rows import content_of, idempotency_key, position_text

if TYPE_CHECKING:
    import httpx

OPTIONS = ("attempts", "content_type", "secret_headers", "headers", "max_delay", "timeout")
FIRST_DELAY = 0.2


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How messages are posted.

    Attributes:
        timeout: Seconds for one try.
        attempts: Tries of one message before the task fails, and is tried again as a whole.
        max_delay: The longest wait between two tries, also where a server asks for a longer one.
        content_type: Of the bodies.
        headers: Further headers of every request, such as an authorisation.
    """

    timeout: float = 30.0
    attempts: int = 6
    max_delay: float = 30.0
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, url: str, options: Mapping[str, Any]) -> HttpOptions:
        """From what was declared; ``secret_headers`` are headers that are shown nowhere.

        Raises:
            TargetUnusable: An option is unknown, or no number where it has to be one.
        """
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            reason = f"it has no option {unknown[0]!r}; there are {', '.join(OPTIONS)}"
            raise TargetUnusable("URL", url, reason)
        default = cls()
        try:
            return cls(
                timeout=float(options.get("timeout", default.timeout)),
                attempts=int(options.get("attempts", default.attempts)),
                max_delay=float(options.get("max_delay", default.max_delay)),
                content_type=str(options.get("content_type", default.content_type)),
                headers={**options.get("headers", {}), **options.get("secret_headers", {})},
            )
        except (TypeError, ValueError) as error:
            raise TargetUnusable("URL", url, str(error)) from error


def delay_before(attempt: int, retry_after: str | None, max_delay: float, now: float) -> float:
    """How long to wait before another try. Pure.

    Args:
        attempt: How many there were.
        retry_after: What the server asked for, in seconds or as a date.
        max_delay: The longest wait.
        now: Seconds since 1970.
    """
    asked = asked_delay(retry_after, now) if retry_after else None
    doubled: float = FIRST_DELAY * 2 ** (attempt - 1)
    return min(max_delay, doubled if asked is None else asked)


class HttpEffect:
    """Posts rows one after the other; the ``act`` of a sink task.

    Args:
        url: Where to.
        options: How.
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        url: str,
        options: HttpOptions | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url, self._options, self._sleep = url, options or HttpOptions(), sleep
        self._client: httpx.Client | None = None

    @classmethod
    def of(cls, place: Place) -> Self:
        """The effect of a place."""
        return cls(place.address, HttpOptions.read(place.address, place.options))

    def __call__(self, rows: Sequence[SinkRow]) -> None:
        """Post every row, in order; returns when all were accepted.

        Raises:
            RowRefused: The server will not take one; those before it were accepted.
            Unreachable: The server gave no answer, or no other than that it cannot, too often.
        """
        for row in rows:
            self._post(row)

    def close(self) -> None:
        """End the connections; does nothing the second time."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _post(self, row: SinkRow) -> None:
        for attempt in range(1, self._options.attempts + 1):
            reason, retry_after = self._try(row)
            if reason is None:
                return
            if attempt < self._options.attempts:
                longest = self._options.max_delay
                self._sleep(delay_before(attempt, retry_after, longest, time.time()))
        raise Unreachable("HTTP", self.url, f"{reason}, {attempt} times")

    def _try(self, row: SinkRow) -> tuple[str | None, str | None]:
        """Why it has to be tried again, and when the server wants that; nothing if it need not."""
        http = require("httpx")
        headers = {"Idempotency-Key": idempotency_key(row)}
        try:
            answer = self._open().post(
                self.url, content=content_of(row).value or b"", headers=headers
            )
        except http.TransportError as error:
            return str(error) or type(error).__name__, None
        if answer.is_success:
            return None, None
        reason = f"it answered {answer.status_code} {answer.reason_phrase}".rstrip()
        if is_temporary(answer.status_code):
            return reason, answer.headers.get("Retry-After")
        raise RowRefused(f"URL {self.url}", position_text(row), reason)

    def _open(self) -> httpx.Client:
        if self._client is None:
            headers = {"Content-Type": self._options.content_type, **self._options.headers}
            client_class = require("httpx").Client
            self._client = client_class(timeout=self._options.timeout, headers=headers)
        return self._client
