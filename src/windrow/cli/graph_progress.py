"""How fast a graph runs: a bar for each query to a person, a line now and then to a log."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as ProgressBar

from windrow.telemetry import EventBus, get_logger

if TYPE_CHECKING:
    from windrow.spark.runner.events import BatchDelivered

_log = get_logger("windrow.graph")

LOG_INTERVAL = 5.0


@contextlib.contextmanager
def shown(bus: EventBus) -> Iterator[None]:
    """Show how every query comes along while the block runs."""
    from windrow.spark.runner.events import BatchDelivered

    console = Console(stderr=True)
    if not console.is_terminal:
        end = bus.subscribe(logged(), BatchDelivered)
        try:
            yield
        finally:
            end()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    with ProgressBar(*columns, console=console, transient=True) as bar:
        end = bus.subscribe(_bars(bar), BatchDelivered)
        try:
            yield
        finally:
            end()


def _bars(bar: ProgressBar) -> Callable[[BatchDelivered], None]:
    """A bar for each query; full is when nothing waits."""
    tasks: dict[str, TaskID] = {}
    done: Counter[str] = Counter()

    def show(event: BatchDelivered) -> None:
        done[event.leg] += event.rows
        if event.leg not in tasks:
            tasks[event.leg] = bar.add_task(event.leg, total=None, rate="")
        rate = round(event.rows / max(event.seconds, 1e-9))
        bar.update(
            tasks[event.leg],
            completed=done[event.leg],
            total=done[event.leg] + event.lag,
            rate=f"{rate}/s",
        )

    return show


def logged(clock: Callable[[], float] = time.monotonic) -> Callable[[BatchDelivered], None]:
    """A line with the rates since the last one."""
    last = clock()
    rows: Counter[str] = Counter()

    def log(event: BatchDelivered) -> None:
        nonlocal last
        rows[event.processor] += event.rows
        now = clock()
        if now - last >= LOG_INTERVAL:
            rates = {name: round(count / (now - last)) for name, count in rows.items()}
            _log.info("delivering", rates=rates, lag=event.lag)
            last = now
            rows.clear()

    return log
