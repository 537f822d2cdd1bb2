"""The circuits of all destinations, by the topics that go there. Pure."""

from __future__ import annotations

from collections.abc import Callable

from windrow.relay.competing.circuit import Circuit, CircuitState
from windrow.relay.competing.contract import Topics


class Circuits:
    """Which topics may be claimed, and which rows sent."""

    def __init__(
        self, destination_of: Callable[[str], str], failures: int, open_for: float
    ) -> None:
        self._destination_of = destination_of
        self._failures, self._open_for = failures, open_for
        self._by_destination: dict[str, Circuit] = {}
        self._by_topic: dict[str, Circuit] = {}
        self._not_closed: set[str] = set()

    def admit(self, topic: str, row: int, now: float) -> bool:
        """Whether that row may be sent now."""
        return self._of(topic).admit(row, now)

    def on_answer(self, topic: str) -> str | None:
        """Somebody answered; returns the destination if that closed its circuit."""
        if not self._of(topic).on_answer():
            return None
        destination = self._destination_of(topic)
        self._not_closed.discard(destination)
        return destination

    def on_outage(self, topic: str, row: int, now: float) -> str | None:
        """Nobody answered that row; returns the destination if that opened its circuit."""
        if not self._of(topic).on_outage(row, now):
            return None
        destination = self._destination_of(topic)
        self._not_closed.add(destination)
        return destination

    def on_forgotten(self, topic: str, row: int) -> None:
        """That row will get no answer any more."""
        self._of(topic).on_forgotten(row)

    @property
    def open_count(self) -> int:
        """How many destinations are left alone."""
        return len(self._not_closed)

    def claimable(self) -> Topics:
        """Which rows an ordinary claim may take: those of no silent destination."""
        if not self._not_closed:
            return Topics()
        silent = [self._by_destination[name] for name in self._not_closed]
        return Topics(self._topics_of(silent), are_wanted=False)

    def to_probe(self, now: float) -> tuple[int, Topics]:
        """How many silent destinations are to be tried now, and the topics that go there."""
        silent = (self._by_destination[name] for name in self._not_closed)
        wanting = [circuit for circuit in silent if circuit.wants_probe(now)]
        return len(wanting), Topics(self._topics_of(wanting), are_wanted=True)

    def next_probe(self) -> float | None:
        """When the next silent destination is to be tried."""
        silent = (self._by_destination[name] for name in self._not_closed)
        open_ones = (c.open_until for c in silent if c.state is CircuitState.OPEN)
        return min(open_ones, default=None)

    def _of(self, topic: str) -> Circuit:
        circuit = self._by_topic.get(topic)
        if circuit is None:
            destination = self._destination_of(topic)
            circuit = self._by_destination.get(destination)
            if circuit is None:
                circuit = Circuit(self._failures, self._open_for)
                self._by_destination[destination] = circuit
            self._by_topic[topic] = circuit
        return circuit

    def _topics_of(self, circuits: list[Circuit]) -> tuple[str, ...]:
        return tuple(sorted(t for t, circuit in self._by_topic.items() if circuit in circuits))
