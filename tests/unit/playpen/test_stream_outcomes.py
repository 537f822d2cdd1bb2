from __future__ import annotations

import pytest

from windrow.playpen.stream import Kind, Outcome, outcome_of


@pytest.mark.parametrize(
    ("kind", "status", "outcome"),
    [
        ("outbox", 201, "written"),
        ("sync", 201, "written"),
        ("sync", 502, "written"),
        ("outbox", 502, "maybe"),
        ("outbox", 422, "undone"),
        ("outbox", 503, "undone"),
        ("outbox", 500, "maybe"),
        ("outbox", None, "maybe"),
    ],
)
def test_an_answer_tells_what_is_known_of_the_hero(
    kind: Kind, status: int | None, outcome: Outcome
) -> None:
    assert outcome_of(kind, status) == outcome


def test_what_was_never_sent_was_never_written() -> None:
    assert outcome_of("outbox", None, was_sent=False) == "undone"
