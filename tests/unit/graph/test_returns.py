from __future__ import annotations

from typing import Any

import pytest

from tests.unit.graph.shapes import made
from windrow.graph import Message
from windrow.graph.errors import InvalidReturn
from windrow.graph.returns import outputs_of, with_provenance

M, N = Message(1), Message(2)
PIPE = made("pipe", reads="a", writes={"out": "b"})
MANY = made("many", reads="a", writes={"out": "b"}, many=True)
FORK = made("fork", reads="a", writes={"left": "b", "right": "c"})
SINK = made("sink", reads="a")


@pytest.mark.parametrize(
    ("processor", "returned", "outputs"),
    [
        (PIPE, None, {}),
        (PIPE, M, {"b": (M,)}),
        (PIPE, {"out": M}, {"b": (M,)}),
        (PIPE, {"out": None}, {}),
        (PIPE, {}, {}),
        (MANY, [M, N], {"b": (M, N)}),
        (MANY, [], {}),
        (MANY, M, {"b": (M,)}),
        (FORK, {"left": M}, {"b": (M,)}),
        (FORK, {"left": M, "right": N}, {"b": (M,), "c": (N,)}),
        (SINK, "whatever the effect gave back", {}),
    ],
)
def test_what_a_function_returns_is_sorted_by_queue(
    processor: Any, returned: Any, outputs: Any
) -> None:
    assert outputs_of(processor, returned) == outputs


@pytest.mark.parametrize(
    ("processor", "returned", "sentence"),
    [
        (PIPE, {"b": M}, "something for 'b': it writes \"out\""),
        (PIPE, 5, "a int: return a Message, or None"),
        (PIPE, [M], "a list: declare the processor with many=True"),
        (PIPE, {"out": {"n": 1}}, "a dict: return a Message, or None"),
        (MANY, [M, 5], "a list with a int: list Messages"),
        (FORK, M, "a Message: it writes several queues; return a mapping"),
        (SINK, {"out": M}, "something for 'out': it writes nothing"),
    ],
)
def test_what_cannot_be_written_is_refused(processor: Any, returned: Any, sentence: str) -> None:
    with pytest.raises(InvalidReturn) as raised:
        outputs_of(processor, returned)
    assert str(raised.value).startswith(f'processor "{processor.id}" returned {sentence}')


def test_every_output_carries_the_provenance_of_all_inputs() -> None:
    inputs = {"x": Message(0, meta={"tx": 4}), "y": Message(0, meta={"queue": {"y": {"t": 1}}})}
    outputs = with_provenance(outputs_of(FORK, {"left": M, "right": N}), inputs)
    assert {queue: message.meta for queue, (message,) in outputs.items()} == {
        "b": {"tx": 4, "queue": {"y": {"t": 1}}},
        "c": {"tx": 4, "queue": {"y": {"t": 1}}},
    }
