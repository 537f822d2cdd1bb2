"""Outcomes on their way to the outbox, gathered so that one statement ends many claims. Pure."""

from __future__ import annotations

from windrow.relay.competing.contract import Burial, Retry
from windrow.relay.competing.steps import FinishRows


class Gathering:
    """What is to be finished, and since when the first of it waits."""

    def __init__(self) -> None:
        self._delivered: list[int] = []
        self._retries: list[Retry] = []
        self._burials: list[Burial] = []
        self.since: float | None = None

    def __len__(self) -> int:
        return len(self._delivered) + len(self._retries) + len(self._burials)

    def add_delivered(self, row: int, now: float) -> None:
        """The receiver has it."""
        self._delivered.append(row)
        if self.since is None:
            self.since = now

    def add(self, outcome: Retry | Burial, now: float) -> None:
        """It is to be tried again, or never."""
        if isinstance(outcome, Retry):
            self._retries.append(outcome)
        else:
            self._burials.append(outcome)
        if self.since is None:
            self.since = now

    def take(self) -> FinishRows:
        """All of it, which is then no longer waiting."""
        step = FinishRows(tuple(self._delivered), tuple(self._retries), tuple(self._burials))
        self._delivered, self._retries, self._burials = [], [], []
        self.since = None
        return step
