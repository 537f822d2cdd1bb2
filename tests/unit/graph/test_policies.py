from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.graph import ErrorPolicy, OnError, Retry
from windrow.graph.policies import error_policy


@pytest.mark.parametrize(
    ("own_queue", "own", "graph_queue", "graph", "policy"),
    [
        (None, None, None, None, ErrorPolicy("stop")),
        (None, None, None, "drop", ErrorPolicy("drop")),
        (None, None, "g", None, ErrorPolicy("deadletter", "g")),
        ("p", None, None, "drop", ErrorPolicy("deadletter", "p")),
        ("p", None, "g", None, ErrorPolicy("deadletter", "p")),
        (None, "stop", "g", None, ErrorPolicy("stop")),
        (None, "drop", "g", "deadletter", ErrorPolicy("drop")),
        (None, "deadletter", "g", None, ErrorPolicy("deadletter", "g")),
        ("p", "deadletter", "g", None, ErrorPolicy("deadletter", "p")),
    ],
)
def test_a_processor_decides_then_its_graph_and_else_it_stops(
    own_queue: str | None,
    own: OnError | None,
    graph_queue: str | None,
    graph: OnError | None,
    policy: ErrorPolicy,
) -> None:
    assert error_policy(own_queue, own, graph_queue, graph) == policy


def test_the_wait_doubles_up_to_its_limit() -> None:
    retry = Retry(attempts=5, backoff=0.5, max_backoff=3.0)
    assert [retry.delay_after(attempt) for attempt in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]


@given(st.integers(1, 10**9))
def test_the_wait_never_exceeds_its_limit(attempt: int) -> None:
    assert 0 < Retry(None).delay_after(attempt) <= 60.0


def test_the_first_try_counts_and_none_is_for_ever() -> None:
    assert [Retry(2).is_exhausted(attempt) for attempt in (1, 2, 3)] == [False, True, True]
    assert not Retry(None).is_exhausted(10**9)
