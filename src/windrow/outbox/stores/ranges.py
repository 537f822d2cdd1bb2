"""A set of ids as PostgreSQL's multirange: how the diff reader says what it has taken."""

from __future__ import annotations

from collections.abc import Iterable


def as_multirange(ids: Iterable[int]) -> str:
    """``{[1,4),[7,8)}`` for 1, 2, 3 and 7: neighbours joined, so that a dense set is short."""
    spans: list[str] = []
    start = end = None
    for number in sorted(ids):
        if number == end:
            end += 1
            continue
        if start is not None:
            spans.append(f"[{start},{end})")
        start, end = number, number + 1
    if start is not None:
        spans.append(f"[{start},{end})")
    return "{" + ",".join(spans) + "}"
