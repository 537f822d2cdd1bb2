"""What travels from the producer to the receiver, and the three forms it may come in. Pure.

- CloudEvents, binary: the attributes as headers that begin with ``ce-``, the payload as the body;
- CloudEvents, structured: all of it as one JSON document;
- plain: ``{"id": …, "msg": "HERO_CREATED", "payload": {…}, "correlation": …}``.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from windrow.playpen.errors import BadMessage, BadRequest

HERO_CREATED = "HERO_CREATED"
SOURCE = "windrow-playpen"
CORRELATION_HEADERS = ("correlation-id", "x-correlation-id")
MESSAGE_ID_HEADER = "message-id"
SPEC_VERSION = "1.0"
STRUCTURED = "application/cloudevents+json"

Form = Literal["binary", "structured", "plain"]

_CORRELATION = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_MAX_ID = 255
_MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Message:
    """One message, whatever form it came in.

    Attributes:
        id: What duplicates are known by: the same on each try.
        msg: What happened, as ``HERO_CREATED``.
        payload: What it happened to; any JSON.
        correlation: The request that caused it, if it is known.
    """

    id: str
    msg: str
    payload: Any
    correlation: str | None = None
    form: Form = "plain"


@dataclass(frozen=True, slots=True)
class NewHero:
    """What a client wants to be created."""

    name: str
    team: str | None = None


def correlation_of(headers: Mapping[str, str]) -> str | None:
    """The correlation id of a request, if it carries one.

    Raises:
        BadRequest: It is not fit for logs and headers.
    """
    for header in CORRELATION_HEADERS:
        given = headers.get(header)
        if given is not None:
            if not _CORRELATION.fullmatch(given):
                raise BadRequest(
                    f"{header} must be 1 to 128 of letters, digits and . _ : / + = @ -"
                )
            return given
    return None


def parse_hero(body: bytes) -> NewHero:
    """What the body of a request to create a hero asks for.

    Raises:
        BadRequest: It is no JSON object (400), or its fields are not what they should be (422).
    """
    given = _json(body, BadRequest)
    if not isinstance(given, dict):
        raise BadRequest('the body must be a JSON object such as {"name": "Batman"}')
    unknown = sorted(set(given) - {"name", "team"})
    if unknown:
        raise BadRequest(f"unknown field {unknown[0]!r}; there are name and team", 422)
    name, team = given.get("name"), given.get("team")
    if not _is_name(name):
        raise BadRequest(f"name must be a text of 1 to {_MAX_NAME} characters", 422)
    if team is not None and not _is_name(team):
        raise BadRequest(f"team must be a text of 1 to {_MAX_NAME} characters, or left out", 422)
    return NewHero(name, team)


def _is_name(value: object) -> TypeGuard[str]:
    return (
        isinstance(value, str)
        and 0 < len(value) <= _MAX_NAME
        and bool(value.strip())
        and value.isprintable()  # no NUL, which PostgreSQL cannot hold, and no lone surrogate
    )


def parse_message(headers: Mapping[str, str], body: bytes) -> Message:
    """The message of a request to the receiver.

    Args:
        headers: Of the request, their names in lower case.
        body: Of the request.

    Raises:
        BadMessage: It is in none of the three forms.
    """
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == STRUCTURED:
        return _structured(body, headers)
    if "ce-specversion" in headers:
        return _binary(headers, body)
    return _plain(body, headers)


def binary_form(message: Message, time: str, subject: str) -> tuple[dict[str, str], bytes]:
    """The headers and the body of the message as a CloudEvent in binary mode."""
    headers = {
        "content-type": "application/json",
        "ce-specversion": SPEC_VERSION,
        "ce-id": message.id,
        "ce-source": SOURCE,
        "ce-type": message.msg,
        "ce-subject": subject,
        "ce-time": time,
        "idempotency-key": message.id,
    }
    if message.correlation is not None:
        headers["correlation-id"] = message.correlation
    return headers, json.dumps(message.payload).encode()


def _binary(headers: Mapping[str, str], body: bytes) -> Message:
    _check_version(headers["ce-specversion"])
    correlation = _known_correlation(headers, headers.get("ce-correlationid"))
    payload = _json(body, BadMessage) if body else None
    return _message(headers.get("ce-id"), headers.get("ce-type"), payload, correlation, "binary")


def _structured(body: bytes, headers: Mapping[str, str]) -> Message:
    event = _json(body, BadMessage)
    if not isinstance(event, dict):
        raise BadMessage("a structured CloudEvent is a JSON object")
    _check_version(event.get("specversion"))
    correlation = _known_correlation(headers, event.get("correlationid"))
    return _message(event.get("id"), event.get("type"), _data(event), correlation, "structured")


def _data(event: Mapping[str, Any]) -> Any:
    if "data_base64" not in event:
        return event.get("data")
    try:
        content = base64.b64decode(event["data_base64"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadMessage("data_base64 of the CloudEvent is not base64") from None
    return _json(content, BadMessage)


def _plain(body: bytes, headers: Mapping[str, str]) -> Message:
    given = _json(body, BadMessage)
    if not isinstance(given, dict) or not {"id", "msg"} <= set(given):
        raise BadMessage("neither a CloudEvent nor a JSON object with id, msg and payload")
    correlation = _known_correlation(headers, given.get("correlation"))
    return _message(given["id"], given["msg"], given.get("payload"), correlation, "plain")


def _message(id: Any, msg: Any, payload: Any, correlation: str | None, form: Form) -> Message:
    if not isinstance(id, str) or not 0 < len(id) <= _MAX_ID or not id.isprintable():
        raise BadMessage(f"its id must be a text of 1 to {_MAX_ID} characters")
    if not isinstance(msg, str) or not 0 < len(msg) <= _MAX_ID or not msg.isprintable():
        raise BadMessage(f"its type must be a text of 1 to {_MAX_ID} characters")
    return Message(id, msg, payload, correlation, form)


def _known_correlation(headers: Mapping[str, str], in_event: object) -> str | None:
    found = next((headers[name] for name in CORRELATION_HEADERS if name in headers), in_event)
    return found if isinstance(found, str) and found.isprintable() else None


def _check_version(version: object) -> None:
    if version != SPEC_VERSION:
        raise BadMessage(f"a CloudEvent of version {version!r}; this is for {SPEC_VERSION}")


def _json(body: bytes, problem: type[BadRequest]) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise problem("the body is not JSON") from None
