"""How long after a journal has a primary again does a client find it? Tries and routes together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.client.retrying import backoff
from windrow.journal.client.routes import Dispatcher
from windrow.journal.process import ProcessId, Route

DEAD, LIVING, NEXT = "http://dead:1", "http://living:1", "http://next:1"
MEMBERS = (ProcessId("a", "dead"), ProcessId("b", "living"), ProcessId("c", "next"))
ENDPOINTS = (DEAD, LIVING, NEXT)
JOURNAL = "x/one"
SOON = 2.1
"""A pause that has just begun, a try that meets the dead one, and another pause."""


@given(
    outage=st.floats(0.0, 120.0),
    takes=st.floats(0.001, 0.05),
    addresses=st.permutations(ENDPOINTS),
)
def test_a_new_primary_is_found_soon_however_long_there_was_none(
    outage: float, takes: float, addresses: list[str]
) -> None:
    found = _found_after(Dispatcher(addresses), outage, takes)
    assert found - outage <= SOON


def _found_after(dispatcher: Dispatcher, outage: float, takes: float) -> float:
    """When an append succeeds that begins as its primary dies; brokers name the dead one till then.

    ``takes`` is how long a try takes that does not succeed.
    """
    dispatcher.on_answer(JOURNAL, DEAD, Route(MEMBERS, 0, ENDPOINTS), 0.0)
    now, attempt = 0.0, 0
    while True:
        endpoint = dispatcher.for_primary(JOURNAL, now)
        if endpoint != DEAD and now >= outage:
            return now
        now += takes
        if endpoint == DEAD:
            dispatcher.on_unreachable(JOURNAL, DEAD, now)
        else:
            dispatcher.on_answer(JOURNAL, endpoint, Route(MEMBERS, 0, ENDPOINTS), now)
        now += backoff(attempt)
        attempt += 1
