from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.config import HIDDEN, Secret
from windrow.telemetry.scrubbing import scrub


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.proves("logs-without-payloads")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"\0" * 1024, "<1024 bytes>"),
        ("grün", "<5 bytes>"),
        ({"a": 1, "b": 2}, "<2 items>"),
        ([("a", b"1")], "<1 items>"),
        (12, "<int>"),
        (None, None),
    ],
)
@pytest.mark.parametrize(
    "name", ["value", "record_value", "payload", "headers", "body", "newValue"]
)
def test_a_payload_is_shown_by_its_size(name: str, value: object, shown: object) -> None:
    assert scrub({name: value}) == {name: shown}


@pytest.mark.proves("logs-without-payloads")
@pytest.mark.parametrize("data", [b"12345", bytearray(b"12345"), memoryview(b"12345")])
def test_bytes_are_shown_by_their_size_whatever_their_field(data: object) -> None:
    assert scrub({"x": data, "y": [data], "z": {"a": data}}) == {
        "x": "<5 bytes>",
        "y": ["<5 bytes>"],
        "z": {"a": "<5 bytes>"},
    }


@pytest.mark.parametrize(
    "name",
    [
        *("password", "passwd", "db_password", "dbPassword", "PGPASSWORD", "ssl.key.passphrase"),
        *("secret", "client_secret", "token", "access-token", "apiKey", "api_key", "access_key"),
        *("dsn", "outbox_dsn", "authorization", "auth", "Cookie", "sasl_plain", "sasl.username"),
        *("credentials", "private_key", "pwd"),
    ],
)
def test_a_field_named_after_a_secret_is_hidden(name: str) -> None:
    assert scrub({name: "hunter2"}) == {name: HIDDEN}
    assert scrub({"config": {name: ["hunter2"]}}) == {"config": {name: HIDDEN}}
    assert scrub({"pairs": [(name, "hunter2")]}) == {"pairs": [[name, HIDDEN]]}


def test_other_fields_are_left_as_they_are() -> None:
    fields = {
        "event": "leader acquired",
        "epoch": 7,
        "lag": 0.5,
        "key": "order-1",
        "is_leader": True,
        "target": None,
        "hosts": ["a", "b", "c"],
        "author": "me",
        "data_dir": "/var/lib",
        "values_read": 3,
    }
    assert scrub(fields) == fields


def test_text_is_redacted_wherever_it_stands() -> None:
    uri = "postgresql://me:hunter2@db/orders"
    scrubbed = scrub({"a": uri, "b": [uri], "c": {uri: uri}, "d": {uri}, "e": ValueError(uri)})
    assert "hunter2" not in str(scrubbed)
    assert str(scrubbed).count("@db/orders") == 6
    assert scrubbed["e"].startswith("ValueError: postgresql://")


def test_a_word_too_long_for_reading_is_shown_by_its_size() -> None:
    text = f"cannot parse {'YWJj' * 1000} as JSON"
    assert scrub({"reason": text}) == {"reason": "cannot parse <4000 bytes> as JSON"}


def test_objects_are_shown_as_text() -> None:
    shown = scrub({"path": Path("/tmp/spool"), "password_holder": None, "held": Secret("hunter2")})
    assert shown == {"path": "/tmp/spool", "password_holder": None, "held": "***"}


def test_what_cannot_be_shown_does_not_raise() -> None:
    endless: list[Any] = []
    endless.append(endless)
    shown = scrub(
        {"a": Unprintable(), "b": endless, "c": float("nan"), "d": "\ud800", "e": {b"k": 1}}
    )
    assert shown["a"] == "<unprintable Unprintable>"
    assert "<1 items>" in str(shown["b"])
    assert (shown["c"], shown["d"], shown["e"]) == ("nan", "\\ud800", {"<1 bytes>": 1})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), ANYTHING))
def test_only_plain_types_are_left(fields: dict[str, object]) -> None:
    def is_plain(value: object) -> bool:
        match value:
            case None | bool() | int() | float() | str():
                return True
            case list():
                return all(map(is_plain, value))
            case dict():
                return all(map(is_plain, value.values()))
        return False

    assert is_plain(scrub(fields))
