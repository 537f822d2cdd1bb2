from __future__ import annotations

import base64
import json

import pytest

from windrow.playpen.errors import BadMessage, BadRequest
from windrow.playpen.messages import (
    Message,
    NewHero,
    binary_form,
    correlation_of,
    parse_hero,
    parse_message,
)

HERO = {"id": 1, "name": "Batman", "team": None, "createdAt": "2026-01-01T00:00:00+00:00"}
MESSAGE = Message("m-1", "HERO_CREATED", HERO, "request-7")
EVENT = {
    "specversion": "1.0",
    "id": "m-1",
    "source": "here",
    "type": "HERO_CREATED",
    "data": HERO,
    "correlationid": "request-7",
}
STRUCTURED = {"content-type": "application/cloudevents+json; charset=utf-8"}


def test_binary_cloud_event_is_read_as_it_was_written() -> None:
    headers, body = binary_form(MESSAGE, "2026-01-01T00:00:00Z", "1")
    read = parse_message(headers, body)
    assert read == Message("m-1", "HERO_CREATED", HERO, "request-7", "binary")
    assert headers["idempotency-key"] == "m-1"


def test_structured_cloud_event_is_read() -> None:
    read = parse_message(STRUCTURED, json.dumps(EVENT).encode())
    assert read == Message("m-1", "HERO_CREATED", HERO, "request-7", "structured")


def test_structured_data_in_base64_are_read() -> None:
    event = {key: value for key, value in EVENT.items() if key != "data"}
    event["data_base64"] = base64.b64encode(json.dumps(HERO).encode()).decode()
    assert parse_message(STRUCTURED, json.dumps(event).encode()).payload == HERO


def test_plain_message_of_the_play_pen_is_read() -> None:
    plain = {"id": "m-1", "msg": "HERO_CREATED", "payload": HERO, "correlation": "request-7"}
    assert parse_message({}, json.dumps(plain).encode()) == MESSAGE


def test_header_tells_the_correlation_of_an_event_that_does_not() -> None:
    event = {key: value for key, value in EVENT.items() if key != "correlationid"}
    headers = STRUCTURED | {"correlation-id": "by-header"}
    assert parse_message(headers, json.dumps(event).encode()).correlation == "by-header"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, b"not JSON"),
        ({}, b"[]"),
        ({}, b'{"id": "m-1"}'),
        ({}, b'{"id": 7, "msg": "HERO_CREATED"}'),
        ({}, b'{"id": "", "msg": "HERO_CREATED"}'),
        ({}, b"[" * 100_000),
        (STRUCTURED, b"[]"),
        (STRUCTURED, json.dumps(EVENT | {"specversion": "0.3"}).encode()),
        (STRUCTURED, json.dumps(EVENT | {"data_base64": "%"}).encode()),
        ({"ce-specversion": "1.0", "ce-type": "HERO_CREATED"}, b"{}"),
        ({"ce-specversion": "1.0", "ce-id": "m-1", "ce-type": "HERO_CREATED"}, b"not JSON"),
    ],
)
def test_what_is_no_message_is_refused(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(BadMessage):
        parse_message(headers, body)


def test_hero_may_have_a_team() -> None:
    assert parse_hero(b'{"name": "Batman"}') == NewHero("Batman")
    assert parse_hero(b'{"name": "Batman", "team": "X"}') == NewHero("Batman", "X")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b'"Batman"', 400),
        (b"{}", 422),
        (b'{"name": 7}', 422),
        (b'{"name": "  "}', 422),
        (b'{"name": "a\\u0000b"}', 422),
        (b'{"name": "\\ud800"}', 422),
        (json.dumps({"name": "x" * 201}).encode(), 422),
        (b'{"name": "Batman", "team": ""}', 422),
        (b'{"name": "Batman", "cape": true}', 422),
    ],
)
def test_what_is_no_hero_is_refused_with_the_kind_of_mistake(body: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as refusal:
        parse_hero(body)
    assert refusal.value.status == status


def test_correlation_is_taken_from_either_header_and_never_made_up_here() -> None:
    assert correlation_of({"correlation-id": "a"}) == "a"
    assert correlation_of({"x-correlation-id": "b"}) == "b"
    assert correlation_of({}) is None


@pytest.mark.parametrize("bad", ["", "a b", "a\nb", "x" * 129, "é"])
def test_correlation_that_does_not_fit_into_a_log_line_is_refused(bad: str) -> None:
    with pytest.raises(BadRequest, match="correlation-id must be"):
        correlation_of({"correlation-id": bad})
