"""Which health checks to run now, how long to wait for them, and what they add up to.

Pure: no thread and no clock. Readings of a monotonic clock come in as ``now``; ``health_runner``
runs what ``due`` names and tells the answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Literal

from windrow.telemetry.errors import DuplicateCheck

Probe = Callable[[], str | None]
"""Looks once and returns None, or what is wrong in a few words for the operator."""


class CheckKind(Enum):
    """What a failing check asks of whoever runs the process."""

    LIVE = "live"  # restart it
    READY = "ready"  # send it no work for now


@dataclass(frozen=True, slots=True)
class Check:
    """A named question about this process.

    An answer is given out again until it is ``max_age`` old. A probe that has not answered
    ``timeout`` after it began counts as failed until it does answer.
    """

    name: str
    kind: CheckKind
    probe: Probe
    timeout: float
    max_age: float


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What is known of one check; ``age`` is the seconds since then."""

    name: str
    kind: Literal["live", "ready"]
    ok: bool
    problem: str | None
    age: float


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What all the checks add up to."""

    checks: tuple[CheckResult, ...]

    @property
    def is_ok(self) -> bool:
        """True if no check failed."""
        return all(check.ok for check in self.checks)

    def to_json(self) -> str:
        """The report as a JSON object with ``status`` (``ok`` or ``failing``) and ``checks``."""
        checks = [asdict(check) | {"age": round(check.age, 3)} for check in self.checks]
        return json.dumps({"status": "ok" if self.is_ok else "failing", "checks": checks})


@dataclass(frozen=True, slots=True)
class _Answer:
    problem: str | None
    at: float


@dataclass(slots=True)
class _Progress:
    """Where one check stands: the run under way, if any, and the latest answer."""

    check: Check
    began: float | None = None
    answer: _Answer | None = None

    def is_due(self, now: float) -> bool:
        # Never a second run beside a hanging one: each would hold a thread for ever.
        return self.began is None and not self._is_fresh(now)

    def deadline(self, now: float) -> float | None:
        """Until when waiting for the run under way is worth it; None if it is not."""
        if self.began is None or self.is_overdue(now):
            return None
        return self.began + self.check.timeout

    def is_overdue(self, now: float) -> bool:
        return self.began is not None and now - self.began >= self.check.timeout

    def result(self, now: float) -> CheckResult:
        problem, age = self._problem_and_age(now)
        return CheckResult(self.check.name, self.check.kind.value, problem is None, problem, age)

    def _is_fresh(self, now: float) -> bool:
        return self.answer is not None and now - self.answer.at < self.check.max_age

    def _problem_and_age(self, now: float) -> tuple[str | None, float]:
        if self.began is not None and self.is_overdue(now):
            waited, allowed = now - self.began, self.check.timeout
            return f"no answer for {waited:.1f}s; {allowed:g}s are allowed", 0.0
        if self.answer is None:
            return "not checked yet", 0.0
        return self.answer.problem, now - self.answer.at


class Health:
    """The checks of one process.

    Checks may be added at any time; every other call belongs to one runner, which holds a lock.
    """

    def __init__(self) -> None:
        self._progress: dict[str, _Progress] = {}

    def add(
        self,
        name: str,
        probe: Probe,
        *,
        kind: CheckKind = CheckKind.READY,
        timeout: float = 2.0,
        max_age: float = 1.0,
    ) -> None:
        """Add a check. The name is shown to operators and labels a metric: few and stable.

        Raises:
            DuplicateCheck: There is one of that name.
        """
        if name in self._progress:
            raise DuplicateCheck(name)
        # A new dict: the checks may be walked through at this moment.
        added = _Progress(Check(name, kind, probe, timeout, max_age))
        self._progress = {**self._progress, name: added}

    def due(self, now: float, kind: CheckKind | None = None) -> list[Check]:
        """The checks to run now; they count as begun."""
        due = [progress for progress in self._of(kind) if progress.is_due(now)]
        for progress in due:
            progress.began = now
        return [progress.check for progress in due]

    def on_answered(self, name: str, problem: str | None, now: float) -> None:
        """Take what the probe of that check found."""
        progress = self._progress[name]
        progress.began, progress.answer = None, _Answer(problem, now)

    def wait_until(self, now: float, kind: CheckKind | None = None) -> float | None:
        """Until when an answer may still come in time; None if there is none to wait for."""
        deadlines = (progress.deadline(now) for progress in self._of(kind))
        return max((deadline for deadline in deadlines if deadline is not None), default=None)

    def report(self, now: float, kind: CheckKind | None = None) -> HealthReport:
        """What is known now, of the checks of one kind or of all."""
        return HealthReport(tuple(progress.result(now) for progress in self._of(kind)))

    def _of(self, kind: CheckKind | None) -> list[_Progress]:
        return [p for p in self._progress.values() if kind is None or p.check.kind is kind]
