from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from windrow.outbox import InvalidRecord, Record


@pytest.mark.parametrize(
    "given",
    [
        {"topic": ""},
        {"topic": ".."},
        {"topic": "with space"},
        {"topic": "ü"},
        {"topic": "t" * 250},
        {"topic": None},
        {"key": b"bytes"},
        {"key": "NUL \x00"},
        {"key": "lone \ud800"},
        {"value": 7},
        {"value": "lone \ud800"},
        {"headers": {"name": b"\xff"}},
        {"headers": {"name": 7}},
        {"headers": {"NUL \x00": "v"}},
        {"headers": [("a", "b", "c")]},
        {"headers": [7]},
        {"partition": -1},
        {"partition": 2**31},
        {"partition": True},
        {"partition": "1"},
        {"timestamp": datetime(2026, 1, 1)},  # noqa: DTZ001 - that is the mistake
    ],
)
def test_what_kafka_or_the_table_could_never_take_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecord, match="record refused: "):
        Record(**{"topic": "orders", **given})


def test_headers_are_taken_as_pairs_or_as_a_mapping() -> None:
    pairs = Record("orders", headers=[("a", "1"), ("a", b"2"), ("b", None)])
    assert pairs.headers == (("a", "1"), ("a", "2"), ("b", None))
    assert Record("orders", headers={"a": "1"}).headers == (("a", "1"),)


def test_text_with_a_nul_becomes_bytes_which_can_hold_it() -> None:
    assert Record("orders", value="a\x00b").value == b"a\x00b"


@pytest.mark.proves("logs-without-payloads")
def test_the_text_form_shows_no_payload() -> None:
    record = Record("orders", "k", "secret", {"h": "secret"}, timestamp=datetime.now(UTC))
    assert "secret" not in repr(record)
