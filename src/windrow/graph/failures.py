"""What is told of a function that failed, and how does its author add to it?"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_CONTEXT = "__windrow_context__"
_LONGEST_TRACE = 20


@contextmanager
def error_context(**facts: Any) -> Iterator[None]:
    """Add facts to whatever is raised inside; they come with it to the error queue.

    ::

        with error_context(customer=order.value["customer"], type="pricing"):
            ...

    Of nested ones the inner facts win, as they were nearer to what happened. The error itself goes
    on unchanged.
    """
    try:
        yield
    except Exception as error:
        setattr(error, _CONTEXT, facts | getattr(error, _CONTEXT, {}))
        raise


def cause_of(error: BaseException) -> dict[str, Any]:
    """An error as plain data: its chain, outermost first, the last calls, and added facts."""
    chain = []
    seen: set[int] = set()
    facts: dict[str, Any] = {}
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        kind = type(current)
        chain.append({"type": f"{kind.__module__}.{kind.__qualname__}", "message": str(current)})
        facts |= getattr(current, _CONTEXT, {})
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
    frames = traceback.extract_tb(error.__traceback__)[-_LONGEST_TRACE:]
    trace = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return {
        "chain": chain,
        "trace": trace,
        "context": {name: _plain(fact) for name, fact in facts.items()},
    }


def _plain(fact: Any) -> Any:
    """What the error queue can hold; a fact of any other kind is given as text."""
    if fact is None or isinstance(fact, str | int | bool):
        return fact
    if isinstance(fact, dict):
        return {str(name): _plain(inner) for name, inner in fact.items()}
    if isinstance(fact, list | tuple):
        return [_plain(inner) for inner in fact]
    return str(fact)
