"""Run the health checks that are due, and wait for them no longer than they are allowed."""

from __future__ import annotations

import threading
import time
import traceback
from typing import TYPE_CHECKING

from windrow.telemetry.health import Check, CheckKind, Health, HealthReport
from windrow.telemetry.scrubbing import scrub_text

if TYPE_CHECKING:
    from windrow.telemetry.metrics import Metrics


class HealthRunner:
    """Answers the question of health for any number of callers at once.

    Each probe runs on a daemon thread of its own, one at a time, so a probe that hangs delays
    neither other probes nor the end of the process.
    """

    def __init__(self, health: Health, metrics: Metrics | None = None) -> None:
        self._health = health
        self._metrics = metrics
        self._answered = threading.Condition()

    def report(self, kind: CheckKind | None = None) -> HealthReport:
        """Bring the checks of one kind, or of all, up to date and say what they add up to.

        Takes at most the longest time-out among them.
        """
        with self._answered:
            for check in self._health.due(time.monotonic(), kind):
                name = f"windrow-health-{check.name}"
                threading.Thread(target=self._run, args=(check,), name=name, daemon=True).start()
            while (until := self._health.wait_until(time.monotonic(), kind)) is not None:
                self._answered.wait(until - time.monotonic())
            report = self._health.report(time.monotonic(), kind)
        self._measure(report)
        return report

    def _run(self, check: Check) -> None:
        try:
            problem = check.probe()
        except BaseException as error:  # even SystemExit is an answer: this thread is the probe's
            problem = "".join(traceback.format_exception_only(error)).strip()
        shown = None if problem is None else scrub_text(problem)
        with self._answered:
            self._health.on_answered(check.name, shown, time.monotonic())
            self._answered.notify_all()

    def _measure(self, report: HealthReport) -> None:
        if self._metrics is None:
            return
        for check in report.checks:
            self._metrics.gauge("health_check_up", check=check.name).set(check.ok)
