"""How far long work has come, told on standard error and only to a person."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, ProgressColumn, TextColumn
from rich.progress import Progress as ProgressBar

Advance = Callable[[int], None]


@contextlib.contextmanager
def shown(what: str, total: int | None = None, *, in_bytes: bool = False) -> Iterator[Advance]:
    """A bar while the block runs; what it gives is called with how much more is done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done: None
        return
    count: ProgressColumn = DownloadColumn() if in_bytes else MofNCompleteColumn()
    with ProgressBar(
        TextColumn(what), BarColumn(), count, console=console, transient=True
    ) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)
