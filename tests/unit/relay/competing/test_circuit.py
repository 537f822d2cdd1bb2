from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from windrow.relay.competing.circuit import Circuit, CircuitState
from windrow.relay.competing.circuits import Circuits
from windrow.relay.competing.contract import Topics


def opened(at: float = 0.0) -> Circuit:
    circuit = Circuit(failures=3, open_for=5.0)
    assert [circuit.on_outage(row, at) for row in (1, 2, 3)] == [False, False, True]
    return circuit


def test_closed_circuit_lets_everything_through() -> None:
    circuit = Circuit(3, 5.0)
    assert all(circuit.admit(row, 0.0) for row in range(10))


def test_circuit_opens_after_so_many_outages_in_a_row() -> None:
    assert opened().state is CircuitState.OPEN


def test_an_answer_in_between_begins_the_count_anew() -> None:
    circuit = Circuit(3, 5.0)
    circuit.on_outage(1, 0.0)
    circuit.on_outage(2, 0.0)
    assert not circuit.on_answer()
    circuit.on_outage(3, 0.0)
    assert not circuit.on_outage(4, 0.0)
    assert circuit.state is CircuitState.CLOSED


def test_open_circuit_lets_nothing_through_before_its_time() -> None:
    assert not opened(at=10.0).admit(7, 14.9)


def test_half_open_circuit_lets_one_through_at_a_time() -> None:
    circuit = opened()
    assert circuit.wants_probe(5.0)
    assert circuit.admit(7, 5.0)
    assert circuit.admit(7, 5.0)  # asked again about the same one
    assert not circuit.admit(8, 5.0)
    assert not circuit.wants_probe(5.0)


def test_probe_that_is_answered_closes_the_circuit() -> None:
    circuit = opened()
    circuit.admit(7, 5.0)
    assert circuit.on_answer()
    assert circuit.admit(8, 5.0)


def test_probe_that_is_not_answered_opens_it_again_for_as_long() -> None:
    circuit = opened()
    circuit.admit(7, 5.0)
    assert not circuit.on_outage(7, 6.0)  # it is no news
    assert not circuit.admit(8, 10.9)
    assert circuit.admit(8, 11.0)


def test_late_outage_of_what_was_sent_before_leaves_an_open_circuit_as_it_is() -> None:
    circuit = opened()
    circuit.on_outage(9, 4.0)
    assert circuit.admit(7, 5.0)
    circuit.on_outage(9, 5.0)
    assert circuit.state is CircuitState.HALF_OPEN


def test_late_answer_of_what_was_sent_before_closes_it() -> None:
    circuit = opened()
    assert circuit.on_answer()
    assert circuit.state is CircuitState.CLOSED


def test_probe_that_gets_no_answer_any_more_makes_room_for_the_next() -> None:
    circuit = opened()
    circuit.admit(7, 5.0)
    circuit.on_forgotten(8)
    assert not circuit.admit(8, 5.0)
    circuit.on_forgotten(7)
    assert circuit.admit(8, 5.0)


class CircuitWalk(RuleBasedStateMachine):
    """Whatever happens: while it is not closed, one message is on its way at most."""

    def __init__(self) -> None:
        super().__init__()
        self.circuit = Circuit(3, 5.0)
        self.now = 0.0
        self.row = 0
        self.admitted_since_open: set[int] = set()
        self.outages = 0

    @rule(seconds=st.floats(0, 10))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def send(self) -> None:
        self.row += 1
        was_closed = self.circuit.state is CircuitState.CLOSED
        if self.circuit.admit(self.row, self.now) and not was_closed:
            self.admitted_since_open.add(self.row)

    @rule()
    def answer(self) -> None:
        self.circuit.on_answer()
        self.admitted_since_open.clear()
        self.outages = 0

    @rule(of_probe=st.booleans())
    def outage(self, of_probe: bool) -> None:
        row = next(iter(self.admitted_since_open), 0) if of_probe else 0
        was_closed = self.circuit.state is CircuitState.CLOSED
        self.outages += was_closed
        assert self.circuit.on_outage(row, self.now) == (was_closed and self.outages == 3)
        self.admitted_since_open.discard(row)
        if self.outages == 3:
            self.outages = 0

    @invariant()
    def one_probe_at_a_time(self) -> None:
        assert len(self.admitted_since_open) <= 1


TestCircuitWalk = CircuitWalk.TestCase


def circuits() -> Circuits:
    return Circuits(lambda topic: topic.partition("/")[0], failures=1, open_for=5.0)


def test_topics_of_a_silent_destination_are_not_claimed() -> None:
    several = circuits()
    for topic in ("a/1", "a/2", "b/1"):
        assert several.admit(topic, 1, 0.0)
    assert several.claimable() == Topics()
    assert several.on_outage("a/1", 1, 0.0) == "a"
    assert several.claimable() == Topics(("a/1", "a/2"), are_wanted=False)
    assert several.open_count == 1


def test_topics_of_a_silent_destination_are_probed_when_its_time_is_over() -> None:
    several = circuits()
    several.on_outage("a/1", 1, 0.0)
    several.on_outage("b/1", 2, 1.0)
    assert several.to_probe(4.0)[0] == 0
    assert several.next_probe() == 5.0
    assert several.to_probe(5.0) == (1, Topics(("a/1",), are_wanted=True))
    assert several.to_probe(6.0) == (2, Topics(("a/1", "b/1"), are_wanted=True))


def test_new_topic_of_a_silent_destination_is_known_from_its_first_row_on() -> None:
    several = circuits()
    several.on_outage("a/1", 1, 0.0)
    assert not several.admit("a/2", 2, 0.0)
    assert several.claimable() == Topics(("a/1", "a/2"), are_wanted=False)


def test_destination_that_answers_is_claimed_again() -> None:
    several = circuits()
    several.on_outage("a/1", 1, 0.0)
    assert several.on_answer("a/1") == "a"
    assert several.on_answer("a/1") is None
    assert several.claimable() == Topics()
