"""How a message looks on the wire."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.relay.competing.contract import Claim
from windrow.relay.targets.http.cloud_events import EventForm, encoded

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BINARY, STRUCTURED = EventForm(source="/shop"), EventForm("structured", "/shop")


def claim(
    value: bytes | None = b'{"total":1.10}',
    headers: tuple[tuple[str, str], ...] = (),
    key: str | None = "order-7",
    message_id: str = "6f9a",
) -> Claim:
    created = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    return Claim(7, message_id, "orders", key, value, headers, created, 0)


def test_binary_mode_has_attributes_as_headers_and_the_value_as_the_body() -> None:
    request = BINARY.request(claim())
    assert request.body == b'{"total":1.10}'
    assert request.headers == {
        "ce-specversion": "1.0",
        "ce-id": "6f9a",
        "ce-source": "/shop",
        "ce-type": "orders",
        "ce-time": "2026-01-01T12:00:00.250000Z",
        "ce-subject": "order-7",
        "content-type": "application/json",
        "idempotency-key": "6f9a",
    }


def test_structured_mode_is_one_json_document() -> None:
    request = STRUCTURED.request(claim(headers=(("tenant-id", "a b"),)))
    assert request.headers == {
        "content-type": "application/cloudevents+json; charset=utf-8",
        "idempotency-key": "6f9a",
    }
    assert json.loads(request.body) == {
        "specversion": "1.0",
        "id": "6f9a",
        "source": "/shop",
        "type": "orders",
        "time": "2026-01-01T12:00:00.250000Z",
        "subject": "order-7",
        "datacontenttype": "application/json",
        "tenantid": "a b",
        "data": {"total": 1.1},
    }


def test_json_in_a_document_keeps_every_digit() -> None:
    request = STRUCTURED.request(claim(b'{"n": 1.10000000000000000000001, "n2": 1E400}'))
    assert b'"data":{"n": 1.10000000000000000000001, "n2": 1E400}' in request.body


@pytest.mark.parametrize("value", [b"\xff\x00", b"{broken", b"NaN", b"", b'{"a": Infinity}'])
def test_what_is_not_json_travels_in_base64(value: bytes) -> None:
    event = json.loads(STRUCTURED.request(claim(value)).body)
    assert "data" not in event
    assert base64.b64decode(event["data_base64"]) == value


def test_text_of_another_type_travels_as_a_string_and_bytes_in_base64() -> None:
    headers = (("Content-Type", "text/plain"),)
    event = json.loads(STRUCTURED.request(claim("grüße".encode(), headers)).body)
    assert (event["data"], event["datacontenttype"]) == ("grüße", "text/plain")
    event = json.loads(STRUCTURED.request(claim(b"\xff", headers)).body)
    assert event["data_base64"] == "/w=="


def test_a_tombstone_has_no_data_and_no_content_type() -> None:
    request = BINARY.request(claim(None))
    assert (request.body, "content-type" in request.headers) == (b"", False)
    event = json.loads(STRUCTURED.request(claim(None)).body)
    assert not {"data", "data_base64", "datacontenttype"} & set(event)


def test_trace_and_correlation_pass_on_as_headers_and_attributes() -> None:
    headers = (("traceparent", TRACE), ("tracestate", "a=1, b=2"), ("Correlation-ID", "c-1"))
    for form in (BINARY, STRUCTURED):
        sent = form.request(claim(headers=headers)).headers
        assert sent["traceparent"] == TRACE
        assert sent["tracestate"] == "a=1, b=2"
        assert sent["correlation-id"] == "c-1"
    assert BINARY.request(claim(headers=headers)).headers["ce-correlationid"] == "c-1"


def test_no_trace_is_invented() -> None:
    assert not [name for name in BINARY.request(claim()).headers if name.startswith("trace")]


def test_headers_of_the_record_replace_attributes_by_their_names() -> None:
    headers = (("ce-type", "shop.order.placed"), ("ce_source", "/eu"), ("ce-subject", "x"))
    sent = BINARY.request(claim(headers=headers)).headers
    assert (sent["ce-type"], sent["ce-source"], sent["ce-subject"]) == (
        "shop.order.placed",
        "/eu",
        "x",
    )


@pytest.mark.parametrize("name", ["id", "ce-id", "specversion", "ce_specversion", "data", "--", ""])
def test_a_header_that_would_replace_what_names_the_message_stays_behind(name: str) -> None:
    assert BINARY.request(claim(headers=((name, "9"),))) == BINARY.request(claim())


def test_an_empty_header_and_an_absent_key_make_no_attribute() -> None:
    sent = BINARY.request(claim(headers=(("tenant", ""),), key=None)).headers
    assert not {"ce-tenant", "ce-subject"} & set(sent)


def test_time_is_told_in_utc() -> None:
    east = datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    record = Claim(1, "1", "orders", None, b"", (), east, 0)
    assert BINARY.request(record).headers["ce-time"] == "2026-01-01T12:00:00Z"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_whatever_a_header_holds_it_cannot_end_the_line(text: str) -> None:
    headers = (("note", text), ("content-type", text), ("correlation-id", text))
    sent = BINARY.request(claim(headers=headers, key=text, message_id=text)).headers
    for name, value in sent.items():
        assert value.isascii(), name
        assert value.isprintable(), name


def test_a_header_is_escaped_as_the_standard_says() -> None:
    assert encoded('Euro € "50%" ok') == "Euro%20%E2%82%AC%20%2250%25%22%20ok"
