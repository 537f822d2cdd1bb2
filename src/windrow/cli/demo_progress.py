"""How a demonstration is shown while it goes on: bars to a person, a line now and then to a log."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from windrow.cli.output import print_line
from windrow.demo.gauge import Sample
from windrow.demo.road import Kill

LINE_INTERVAL = 5.0
PLACES = ("written", "relayed", "arrived", "audited")


class Quiet:
    """Says nothing: JSON tells the outcome alone."""

    def say(self, step: str) -> None:
        """Nothing."""

    def killed(self, kill: Kill, at: float) -> None:
        """Nothing."""

    def show(self, sample: Sample) -> None:
        """Nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nothing is held."""


class Shown(Quiet):
    """Tells each step and each kill as a line, and shows how many heroes are at each place."""

    def __init__(self, console: Console | None = None) -> None:
        # Bars go to standard error, and only where somebody sees them move.
        console = console or Console(stderr=True)
        self._is_live = console.is_terminal
        self._bars = Progress(
            TextColumn("{task.description:>8}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=console,
            transient=True,
            disable=not self._is_live,
        )
        self._tasks: dict[str, TaskID] = {}
        self._last_line = time.monotonic()

    def say(self, step: str) -> None:
        """A line."""
        print_line(step)

    def killed(self, kill: Kill, at: float) -> None:
        """A line that is not overlooked."""
        print_line(f"✗ {kill}")

    def show(self, sample: Sample) -> None:
        """Bars that are full when everything has come so far."""
        if not self._is_live:
            self._show_line(sample)
            return
        for place in PLACES:
            if place not in self._tasks:
                self._tasks[place] = self._bars.add_task(place, total=None)
            done = getattr(sample, place)
            if done is not None:
                total = max(sample.written, done) or None
                self._bars.update(self._tasks[place], completed=done, total=total)

    def _show_line(self, sample: Sample) -> None:
        now = time.monotonic()
        if now - self._last_line < LINE_INTERVAL:
            return
        self._last_line = now
        found = {place: getattr(sample, place) for place in PLACES}
        print_line(", ".join(f"{place} {n}" for place, n in found.items() if n is not None))

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bars.stop()
