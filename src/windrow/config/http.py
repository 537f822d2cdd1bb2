"""The section of a relay that sends over HTTP: where to, in which form, and what it may reach."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, field_validator

from windrow.config.secrets import Secret
from windrow.config.section import Section
from windrow.types import Duration

SECRET_HEADER = re.compile(r"authori[sz]ation|token|key|secret|cookie|password", re.IGNORECASE)
"""Headers whose values are secrets, though they are written like any other."""

SECRET_PREFIX = "whsec_"
_SECRET_BYTES = range(24, 65)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_TEXT = re.compile(r"[\x20-\x7e\t]*")
_OURS = re.compile(
    r"(ce-.*|webhook-.*|content-type|content-length|host|idempotency-key|transfer-encoding"
    r"|connection|traceparent|tracestate)",
    re.IGNORECASE,
)

HeaderValue = str | Secret
Positive = Annotated[Duration, Field(gt=0)]


class HttpDelivery(Section):
    """Where a competing relay posts its messages, as CloudEvents."""

    url: str = ""
    """Where messages are posted to, whatever their topic."""
    routes: dict[str, str] = Field(default_factory=dict)
    """Topics that go elsewhere, each with its URL."""
    mode: Literal["binary", "structured"] = "binary"
    """Attributes as headers with the value as the body, or all of it as one JSON document."""
    source: Annotated[str, Field(min_length=1)] = "windrow"
    """The ``source`` of every event, a URI reference: together with its id it names the event."""
    content_type: Annotated[str, Field(min_length=1)] = "application/json"
    """Of values whose record has no header ``content-type``."""
    headers: dict[str, HeaderValue] = Field(default_factory=dict)
    """Further headers of every request; secrets as for any other key."""
    secret: Secret | None = None
    """Signs every request: ``whsec_`` and 24 to 64 bytes in base64; several, with spaces between
    them, all sign, so that receivers can be moved from one to the next."""
    per_host: Annotated[int, Field(ge=1)] = 32
    """How many requests to one host may be on their way, each on its own connection."""
    connect_timeout: Positive = 3.0
    """How long to wait for a connection, its name looked up and its TLS agreed on."""
    keep_alive: Positive = 4.0
    """How long an idle connection is kept; less than receivers keep theirs,
    of which many close after 5 seconds."""
    allow_private: bool = False
    """Whether private and loopback addresses may be sent to."""
    allowed_hosts: list[str] = Field(default_factory=list)
    """Host names, addresses or networks that may be sent to whatever their addresses are; the only
    way to a link-local or metadata address."""
    ca_file: str = ""
    """Certificates to trust instead of the system's."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        return checked_url(url) if url else url

    @field_validator("routes")
    @classmethod
    def _check_routes(cls, routes: dict[str, str]) -> dict[str, str]:
        return {topic: checked_url(url) for topic, url in routes.items()}

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, HeaderValue]) -> dict[str, HeaderValue]:
        return {name: _checked_header(name, value) for name, value in headers.items()}

    @field_validator("secret")
    @classmethod
    def _check_secret(cls, secret: Secret | None) -> Secret | None:
        if secret is not None:
            signing_keys(secret)
        return secret

    @field_validator("allowed_hosts")
    @classmethod
    def _check_hosts(cls, hosts: list[str]) -> list[str]:
        for host in hosts:
            _check_host(host)
        return hosts


def checked_url(url: str) -> str:
    """The URL, if messages can be posted to it.

    Raises:
        ValueError: It is none of http or https, has no host, or carries a password or a fragment.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("not a URL of http or https; write it as https://shop.example/events")
    _check_parts(parts, url)
    return url


def _check_parts(parts: SplitResult, url: str) -> None:
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a user or a password; set an Authorization in headers instead")
    if parts.fragment:
        raise ValueError("has a fragment, which is never sent")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("holds a character that has to be percent-encoded")


def signing_keys(secret: Secret) -> list[bytes]:
    """The keys in it, in order.

    Raises:
        ValueError: One is not ``whsec_`` and 24 to 64 bytes in base64.
    """
    keys = [_signing_key(text) for text in secret.reveal().split()]
    if not keys:
        raise ValueError("is empty")
    return keys


def _signing_key(text: str) -> bytes:
    form = f"a signing secret is {SECRET_PREFIX} and 24 to 64 bytes in base64"
    if not text.startswith(SECRET_PREFIX):
        raise ValueError(form)
    try:
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(form) from None
    if len(key) not in _SECRET_BYTES:
        raise ValueError(f"{form}, not {len(key)}")
    return key


def _checked_header(name: str, value: HeaderValue) -> HeaderValue:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a header")
    if _OURS.fullmatch(name):
        raise ValueError(f"the header {name!r} is set for each message")
    text = value.reveal() if isinstance(value, Secret) else value
    if not _FIELD_TEXT.fullmatch(text):
        raise ValueError(f"the header {name!r} holds more than printable ASCII")
    return Secret(text) if SECRET_HEADER.search(name) else value


def _check_host(host: str) -> None:
    if "/" in host:
        try:
            ipaddress.ip_network(host)
        except ValueError as error:
            raise ValueError(f"not a network: {error}") from None
    elif not host or "*" in host or (":" in host.strip("[]") and not _is_address(host.strip("[]"))):
        raise ValueError(f"{host!r} is neither a host name, an address nor a network")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
