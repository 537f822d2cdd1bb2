from __future__ import annotations

import pytest

from tests.unit.graph.shapes import is_large, made
from windrow.graph import Message

SMALL = Message({"count": 1}, type="order", topic="eu")
LARGE = Message({"count": 99}, type="order", topic="us")
OTHER = Message({"count": 99})


@pytest.mark.parametrize(
    ("settings", "passing"),
    [
        ({}, [SMALL, LARGE, OTHER]),
        ({"types": "order"}, [SMALL, LARGE]),
        ({"types": ["order", "x"], "topics": "eu"}, [SMALL]),
        ({"topics": ["eu", "us"]}, [SMALL, LARGE]),
        ({"where": is_large}, [LARGE, OTHER]),
        ({"types": "order", "where": is_large}, [LARGE]),
        ({"types": []}, []),
    ],
)
def test_a_message_passes_if_all_that_is_asked_holds(
    settings: dict[str, object], passing: list[Message]
) -> None:
    wanted = made("p", reads="a", **settings).filter
    assert [message for message in (SMALL, LARGE, OTHER) if wanted.passes(message)] == passing
    assert wanted.passes_all == (not settings)


def test_each_input_of_a_join_is_filtered_by_itself() -> None:
    wanted = made("p", reads=["a", "b"], types="order").filter
    assert wanted.select({"a": SMALL, "b": OTHER}) == {"a": SMALL}
    assert wanted.select({"a": OTHER, "b": OTHER}) == {}
