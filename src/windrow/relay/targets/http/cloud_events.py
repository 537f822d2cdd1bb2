"""A claim as a request that carries a CloudEvent 1.0. Pure.

``id`` is the message's, ``type`` its topic, ``subject`` its key, ``time`` when it was stashed. A
header of the record becomes an extension attribute, whose name may hold nothing but small letters
and digits: ``tenant-id`` travels as ``tenantid``. Of two that become one the later stays; one that
would be an attribute of the standard's own, such as ``id``, stays behind. A header ``ce-type``,
``ce-source``, ``ce-subject``, ``ce-time`` or ``ce-dataschema`` (or with ``ce_``, as on Kafka)
replaces what would stand there otherwise.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, NoReturn
from urllib.parse import quote

from windrow.relay.competing.contract import Claim

STRUCTURED_TYPE = "application/cloudevents+json; charset=utf-8"
OVERRIDABLE = frozenset({"type", "source", "subject", "time", "dataschema"})
RESERVED = OVERRIDABLE | {"id", "specversion", "datacontenttype", "data", "database64"}
"""Names of the standard; ``data_base64`` without what an attribute's name cannot hold."""

PASSED_ON = frozenset({"traceparent", "tracestate", "correlation-id"})
"""Headers of a record that are headers of the request as well, by their own names."""

_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_UNTOUCHED = re.compile(r"[!#$&-~]*")
_JSON_TYPE = re.compile(r"[^/;]+/(?:[^;]+\+)?json\s*(?:;.*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent: headers, and a body that may be empty."""

    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class _Event:
    attributes: dict[str, str]
    content_type: str
    passed_on: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventForm:
    """How messages become requests.

    Attributes:
        mode: Attributes as headers, or one JSON document.
        source: The events' ``source``.
        content_type: Of values whose record does not name theirs.
    """

    mode: Literal["binary", "structured"] = "binary"
    source: str = "windrow"
    content_type: str = "application/json"

    def request(self, claim: Claim) -> Request:
        """The request that carries it."""
        event = self._event(claim)
        key = encoded(claim.message_id)
        if self.mode == "structured":
            headers = {"content-type": STRUCTURED_TYPE}
            body = _document(event, claim.value)
        else:
            headers = {f"ce-{name}": encoded(text) for name, text in event.attributes.items()}
            if claim.value is not None:
                headers["content-type"] = event.content_type
            body = claim.value or b""
        headers["idempotency-key"] = key
        headers.update(event.passed_on)
        return Request(headers, body)

    def _event(self, claim: Claim) -> _Event:
        attributes = {
            "specversion": "1.0",
            "id": claim.message_id,
            "source": self.source,
            "type": claim.topic,
            "time": moment(claim.created),
        }
        if claim.key:
            attributes["subject"] = claim.key
        event = _Event(attributes, self.content_type)
        for name, value in claim.headers:
            if value:  # an attribute is never empty
                _add(event, name, value)
        return event


def _add(event: _Event, name: str, value: str) -> None:
    kind, place = _place(name)
    match kind:
        case "type":
            # Not to be escaped, so nothing may be in it that would end the header.
            event.content_type = value if _is_plain(value) else event.content_type
        case "attribute":
            event.attributes[place] = value
            if name.lower() in PASSED_ON:
                event.passed_on[name.lower()] = encoded(value, keep=" ")


@lru_cache(maxsize=4096)
def _place(name: str) -> tuple[Literal["type", "attribute", "none"], str]:
    """Where a header of a record goes."""
    lower = name.lower()
    if lower in ("content-type", "ce-datacontenttype", "ce_datacontenttype"):
        return "type", ""
    if lower.startswith(("ce-", "ce_")):
        bare = lower[3:]
        if bare in OVERRIDABLE:
            return "attribute", bare
        lower = bare
    plain = re.sub(r"[^a-z0-9]", "", lower)
    if not plain or plain in RESERVED:
        return "none", ""
    return "attribute", plain


def encoded(text: str, keep: str = "") -> str:
    """The text as a header can hold it: what is not printable ASCII, spaces, " and % in %XX."""
    if _UNTOUCHED.fullmatch(text):
        return text
    return quote(text, safe=_PRINTABLE + keep)


def moment(time: datetime) -> str:
    """The time as RFC 3339 writes it, in UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _document(event: _Event, value: bytes | None) -> bytes:
    described: Mapping[str, str] = event.attributes
    if value is None:
        return _dumped(described)
    opened = _dumped({**described, "datacontenttype": event.content_type})[:-1]
    return opened + b"," + _data(event.content_type, value) + b"}"


def _data(content_type: str, value: bytes) -> bytes:
    """The member that holds the value: as JSON, as a string, or in base64."""
    try:
        text = value.decode()
        if not _JSON_TYPE.fullmatch(content_type):
            return b'"data":' + _dumped(text)
        # Only to see that it is: what was stashed is sent as it was written, digit by digit.
        json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return b'"data_base64":"' + base64.b64encode(value) + b'"'
    return b'"data":' + value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()
