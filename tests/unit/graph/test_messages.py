from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.graph import Message
from windrow.graph.errors import InvalidMessage
from windrow.graph.messages import (
    decode_value,
    encode_meta,
    encode_value,
    error_message,
    inherit_meta,
    merge_meta,
    meta_as_read,
    meta_to_write,
)
from windrow.graph.queues import QueueMeta, Values

SECONDS = 1_700_000_000.25
NOW = 1_700_000_000_250_000
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
stamps = st.fixed_dictionaries({}, optional={"t": st.integers(), "time": st.integers()})
metas = st.fixed_dictionaries(
    {},
    optional={"queue": st.dictionaries(st.sampled_from("abc"), stamps), "tx": st.integers()},
)


def test_the_text_of_a_message_tells_nothing_of_its_content() -> None:
    """It ends up in logs, and the content is the customers'."""
    message = Message({"card": "4111"}, key="7", headers=(("auth", b"4111"),), meta={"x": "4111"})
    assert "4111" not in repr(message)


def test_provenance_of_several_inputs_is_merged_to_the_depth() -> None:
    left = {"queue": {"a": {"t": 1}}, "tx": 1}
    right = {"queue": {"b": {"t": 2}, "a": {"time": 5}}, "tx": 2}
    assert merge_meta([left, right]) == {
        "queue": {"a": {"t": 1, "time": 5}, "b": {"t": 2}},
        "tx": 2,
    }
    assert left == {"queue": {"a": {"t": 1}}, "tx": 1}


@given(metas, metas, metas)
def test_merging_provenance_is_associative(a: Any, b: Any, c: Any) -> None:
    """So a graph may be cut anywhere, and its last queue holds the same."""
    assert merge_meta([merge_meta([a, b]), c]) == merge_meta([a, merge_meta([b, c])])


def test_outputs_inherit_in_the_order_of_names_and_their_own_wins() -> None:
    inputs = {"b": Message(1, meta={"tx": 2, "x": 1}), "a": Message(1, meta={"tx": 1, "y": 1})}
    outputs = [Message(0), Message(0, meta={"x": 9})]
    same = dict(reversed(inputs.items()))
    assert inherit_meta(outputs, inputs) == inherit_meta(outputs, same)
    assert [output.meta for output in inherit_meta(outputs, inputs)] == [
        {"y": 1, "tx": 2, "x": 1},
        {"y": 1, "tx": 2, "x": 9},
    ]


@pytest.mark.parametrize(
    ("option", "written"),
    [
        (None, {"tx": 7, "queue": {"a": {"t": 7}}}),
        ("strip", {}),
        (("t",), {"tx": 7, "queue": {"a": {"t": 7}, "b": {"t": True}}}),
        (("time", "tx"), {"tx": True, "queue": {"a": {"t": 7}, "b": {"time": NOW}}}),
    ],
)
def test_a_queue_adds_leaves_or_strips_provenance(
    option: QueueMeta, written: dict[str, Any]
) -> None:
    before = {"tx": 7, "queue": {"a": {"t": 7}}}
    assert meta_to_write(before, option, "b", SECONDS) == written


def test_an_index_is_put_in_when_it_is_read_and_the_hash_is_kept_from_functions() -> None:
    written = meta_to_write({"hash": "9f"}, ("t", "time", "tx"), "b", SECONDS)
    assert json.loads(encode_meta(written)) == written
    assert meta_as_read(written, "b", 41) == {"queue": {"b": {"t": 41, "time": NOW}}, "tx": 41}
    assert meta_as_read({}, "b", 41) == {}


@pytest.mark.parametrize(
    ("value", "values", "stored"),
    [
        ({"b": 1, "a": "ü"}, "json", '{"a":"ü","b":1}'.encode()),
        ("ü", "text", "ü".encode()),
        (b"\xff", "bytes", b"\xff"),
        (None, "json", None),
        (None, "bytes", None),
    ],
)
def test_a_value_is_written_in_the_form_of_its_queue(
    value: Any, values: Values, stored: bytes | None
) -> None:
    assert encode_value(value, values) == stored
    assert decode_value(stored, values) == value


@given(plain)
def test_any_plain_value_comes_back_as_it_was(value: Any) -> None:
    assert decode_value(encode_value(value, "json"), "json") == value


@pytest.mark.parametrize(
    ("value", "values"),
    [
        ({1, 2}, "json"),
        (float("nan"), "json"),
        (5, "text"),
        ("x", "bytes"),
        ("\ud800", "json"),
        ("\ud800", "text"),
    ],
)
def test_a_value_that_its_queue_cannot_hold_is_refused(value: Any, values: Values) -> None:
    with pytest.raises(InvalidMessage, match=f'not a value of the form "{values}"'):
        encode_value(value, values)


@pytest.mark.parametrize(
    ("stored", "values"), [(b"{", "json"), (b"\xff", "json"), (b"\xff", "text")]
)
def test_bytes_of_another_form_are_refused(stored: bytes, values: Values) -> None:
    with pytest.raises(InvalidMessage, match=f'not a value of the form "{values}"'):
        decode_value(stored, values)


def test_an_error_holds_the_inputs_by_queue_and_inherits_their_provenance() -> None:
    inputs = {
        "orders": Message({"n": 1}, key="7", type="order", meta={"tx": 1}),
        "blobs": Message(b"\xff", key="7"),
    }
    error = error_message("enrich", {"strategy": "exactly-once"}, inputs, {"message": "boom"})
    assert error == Message(
        {
            "processor": "enrich",
            "config": {"strategy": "exactly-once"},
            "messages": {
                "blobs": {"value": {"base64": "/w=="}, "key": "7"},
                "orders": {"value": {"n": 1}, "key": "7", "type": "order"},
            },
            "cause": {"message": "boom"},
        },
        key="7",
        type="windrow.error.processor",
        meta={"tx": 1},
    )
    assert encode_value(error.value, "json") is not None
