"""Where does a broker wait, and who holds its tokens? Written to a file whenever SIGUSR1 comes.

A journal that takes no appends says nothing by itself: what holds it up is a task that waits, or
one that is no more. In a broker there are always tasks enough, so equal ones are counted.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections import Counter
from collections.abc import Iterator
from inspect import isasyncgen
from pathlib import Path
from types import FrameType
from typing import Any

from windrow.journal.broker.ownership import Token
from windrow.journal.broker.pipeline import Pipeline
from windrow.journal.broker.replica import Replica

FILE = "waits"
_INNER = ("cr_await", "gi_yieldfrom", "ag_await")
_FRAME = ("cr_frame", "gi_frame", "ag_frame")


def tell_on_signal(directory: Path) -> None:
    """From now on write the file ``waits`` into a directory when asked to."""

    def tell(*_: object) -> None:
        draft = directory / f"{FILE}.draft"
        draft.write_text("\n".join([*_replicas(), *_tasks()]))
        draft.rename(directory / FILE)

    signal.signal(signal.SIGUSR1, tell)


def ask(pid: int, directory: Path) -> Path:
    """Have a broker write the file, which is there in a moment if it lives and is not paused."""
    (directory / FILE).unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    return directory / FILE


def _replicas() -> Iterator[str]:
    alive = gc.get_objects()
    for replica in (one for one in alive if isinstance(one, Replica)):
        yield (
            f"replica of {replica.journal}: pipeline {_holding(replica.pipeline)},"
            f" spool {_holding(replica.spool)}, ended {replica.ended.is_set()},"
            f" {len(replica.waiting)} in the group, acknowledged {replica.acknowledged_end}"
        )
    for pipeline in (one for one in alive if isinstance(one, Pipeline)):
        failures = [str(e) for p in pipeline.peers for e in (p.send_error, p.receive_error) if e]
        yield (
            f"pipeline of {pipeline.replica.journal}: synced {pipeline.is_synced},"
            f" reads {pipeline.has_readers}, broken {pipeline.is_broken},"
            f" closing {pipeline._closing}, {failures}"
        )


def _holding(token: Token[Any]) -> str:
    held = "is here" if token.is_here else "is held"
    return f"{held}, {sum(not waiter.done() for waiter in token._waiters)} wait"


def _tasks() -> Iterator[str]:
    """All tasks, each with the places where it waits, from the outermost to the innermost."""
    waits = (f"{_name(task)}: {' > '.join(_places(task.get_coro()))}" for task in _all_tasks())
    for wait, times in sorted(Counter(waits).items()):
        yield f"{times} x {wait}"


def _all_tasks() -> set[asyncio.Task[Any]]:
    try:
        return asyncio.all_tasks()
    except RuntimeError:  # before the loop runs, and after
        return set()


def _name(task: asyncio.Task[Any]) -> str:
    name = task.get_name()
    return "task" if name.startswith("Task-") else name


def _places(awaited: Any) -> Iterator[str]:
    while awaited is not None:
        frame: FrameType | None = _first(awaited, _FRAME)
        if frame is None:
            yield type(awaited).__name__
        else:
            code = frame.f_code
            yield f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_qualname}"
        awaited = _inner(awaited)


def _inner(awaited: Any) -> Any:
    """What it awaits; a step of an asynchronous generator does not tell whose it is."""
    if type(awaited).__name__.startswith("async_generator_"):
        return next((one for one in gc.get_referents(awaited) if isasyncgen(one)), None)
    return _first(awaited, _INNER)


def _first(awaited: Any, names: tuple[str, ...]) -> Any:
    return next((getattr(awaited, name) for name in names if hasattr(awaited, name)), None)
