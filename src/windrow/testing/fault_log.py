"""The one way in which fault tests count.

A fault counts only if it hit a living process in the middle of work. What it did is counted from
two things that the system under test does not write: the ledger of the writer, and the ids that a
consumer read. No number can be passed in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from random import Random

from windrow.embedded.errors import NotRunning
from windrow.embedded.groups import Process
from windrow.testing.errors import FaultNotCounted, NotDelivered, NothingToSettle, NotSettled
from windrow.testing.moments import Moment, moments
from windrow.testing.processes import STOPPED, HasPid, find_living, is_dead, is_paused, pid_of
from windrow.verify.ledger import LedgerFile
from windrow.verify.tally import Arrival, Entry, Tally, tally

PATIENCE = 30.0
"""Seconds to wait for a sign of work, and for a fault to show."""


@dataclass(frozen=True)
class Totals:
    """The account of one part, over any number of tests."""

    injected: int = 0
    at_named_points: int = 0
    written: int = 0
    delivered: int = 0
    lost: int = 0
    misordered: int = 0
    doubled: int = 0
    allowed: int = 0
    unexpected: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __str__(self) -> str:
        line = (
            f"injected {self.injected}, lost {self.lost}, misordered {self.misordered},"
            f" doubled {self.doubled} (allowed {self.allowed})"
        )
        return f"{line}, unexpected {self.unexpected}" if self.unexpected else line


class FaultLog:
    """The faults of one test, by part of the system."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._parts: dict[str, FaultPart] = {}

    def part(self, name: str) -> FaultPart:
        """The account of one part: ``relay``, ``journal``, …; the same one for the same name."""
        if name not in self._parts:
            self._parts[name] = FaultPart(name, self._random)
        return self._parts[name]

    def totals(self) -> dict[str, dict[str, int]]:
        """What was counted, by part, as plain numbers."""
        return {name: asdict(part.totals) for name, part in self._parts.items()}

    def check_settled(self) -> None:
        """Refuse faults whose effect was never counted.

        Raises:
            NotSettled: A part had a fault injected after its last ``settle``, or had no ``settle``.
        """
        for part in self._parts.values():
            if part.unsettled:
                raise NotSettled(part.name, part.unsettled)


class FaultPart:
    """Injects faults into one part of the system, and counts what they did."""

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.totals = Totals()
        self.unsettled = 0
        self._random = random

    def kill_times(
        self, count: int, points: Sequence[str], *, within: tuple[float, float] = (0.0, 0.5)
    ) -> list[Moment]:
        """When to strike: half at the named points, half after a random number of seconds.

        The random half repeats with ``--fault-seed``.
        """
        return moments(count, points, self._random, within)

    def inject(
        self,
        kind: str,
        process: HasPid | int,
        act: Callable[[], object],
        *,
        work: Callable[[], object],
        at: Moment | None = None,
        reach: Callable[[], object] | None = None,
        stopped: bool = False,
        patience: float = PATIENCE,
    ) -> None:
        """Do harm, and count it if it could have hurt.

        Args:
            kind: What is done: ``kill`` and ``pause`` are also seen to have happened.
            process: Who is hit. It must be alive, and running unless ``stopped``.
            act: Does it.
            work: Reads how far the writer (``LedgerFile(path).progress``) or the consumer has
                come. It must be seen to move in the last instant before a random moment, or
                before the process is made to wait at a named point.
            at: When; at once if not given.
            reach: Makes the process wait at the named point; returns when it has come there.
            stopped: The process is meant to be stopped already.
            patience: How long to wait for work to move, and for the harm to show.

        Raises:
            FaultNotCounted: It proves nothing: the process was not alive, nothing was under way,
                or the act had no effect.
        """
        victim = self._living(kind, process, stopped)
        self._await_moment(kind, work, at or Moment(), reach, patience)
        if self._living(kind, process, stopped).start_time != victim.start_time:
            raise self._refusal(kind, f"process {victim.pid} ended, and another has its pid")
        act()
        has_happened = _EFFECTS.get(kind)
        if has_happened and not _becomes_true(lambda: has_happened(victim), patience):
            raise self._refusal(kind, f"process {victim.pid} is as it was")
        self.totals += Totals(injected=1, at_named_points=int(bool(at and at.point)))
        self.unsettled += 1

    def settle(
        self,
        ledgers: Path | Sequence[Path],
        arrived: Iterable[Arrival],
        may_repeat: Iterable[Arrival] = (),
    ) -> Tally:
        """Count what arrived against what was written, and fail the test unless it is clean.

        Args:
            ledgers: The files kept by the writers; each key is in one of them.
            arrived: The ids that a consumer read, in order of arrival per key.
            may_repeat: The records sent and not acknowledged at a kill, once for each kill: only
                these may come twice.

        Raises:
            NotDelivered: Something was lost, misordered, unexpected, or doubled without leave.
            NothingToSettle: The ledgers are empty.
        """
        files = _Ledgers([ledgers] if isinstance(ledgers, Path) else ledgers)
        if next(iter(files), None) is None:
            raise NothingToSettle(self.name, str(files))
        allowed = list(may_repeat)
        verdict = tally(files, arrived, allowed)
        self.unsettled = 0
        self.totals += Totals(
            written=verdict.written,
            delivered=verdict.delivered,
            lost=verdict.lost,
            misordered=verdict.misordered,
            doubled=verdict.doubled,
            allowed=len(allowed),
            unexpected=verdict.unexpected,
        )
        if not verdict.is_clean:
            raise NotDelivered(self.name, verdict)
        return verdict

    def _await_moment(
        self,
        kind: str,
        work: Callable[[], object],
        at: Moment,
        reach: Callable[[], object] | None,
        patience: float,
    ) -> None:
        """Return at the moment, having seen work move just before; refuse if it does not."""
        if at.point is not None and reach is None:
            raise self._refusal(kind, f"no way given to reach the point {at.point!r}")
        time.sleep(at.delay)
        reading = work()
        if not _becomes_true(lambda: work() != reading, patience):
            raise self._refusal(kind, f"no work was under way: progress stood at {reading!r}")
        if at.point is not None and reach is not None:
            # Only now: waiting at its point, the process would not be seen to move any more.
            reach()

    def _living(self, kind: str, process: HasPid | int, stopped: bool) -> Process:
        try:
            pid = pid_of(process)
        except NotRunning as error:
            raise self._refusal(kind, str(error)) from error
        found = find_living(pid)
        if found is None:
            raise self._refusal(kind, f"process {pid} is not alive")
        if found.state in STOPPED and not stopped:
            raise self._refusal(kind, f"process {pid} is stopped")
        return found

    def _refusal(self, kind: str, reason: str) -> FaultNotCounted:
        return FaultNotCounted(self.name, kind, reason)


class _Ledgers:
    """Several ledgers, one after the other, as often as needed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = [LedgerFile(path) for path in paths]

    def __iter__(self) -> Iterator[Entry]:
        for file in self._files:
            yield from file

    def __str__(self) -> str:
        return ", ".join(str(file.path) for file in self._files)


_EFFECTS: dict[str, Callable[[Process], bool]] = {"kill": is_dead, "pause": is_paused}


def _becomes_true(condition: Callable[[], bool], patience: float) -> bool:
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.0005)
    return True
