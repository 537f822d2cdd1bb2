"""When does a fragment end and the next one begin? Pure."""

from __future__ import annotations

from windrow.journal.fragment import Fragment
from windrow.journal.spec import FragmentSpec


def rolled(
    current: Fragment,
    spec: FragmentSpec,
    *,
    roll_to: int = 0,
    now: float = 0.0,
    first_append_time: float = 0.0,
) -> Fragment:
    """The fragment to go on with: ``current`` itself, or an empty one behind it.

    A fragment ends once it is longer than the specification's length, when an offset to roll to is
    given, and when another flush interval has begun since its first append. An empty one is only
    changed in its codec: a new codec takes effect with the next fragment.
    """
    end = max(current.end, roll_to)
    ends = (
        current.is_empty
        or current.length > spec.length
        or (roll_to != 0 and roll_to != current.begin)
        or _is_flush_due(spec.flush_interval, first_append_time, now)
    )
    return empty_at(current.journal, end, spec) if ends else current


def empty_at(journal: str, end: int, spec: FragmentSpec) -> Fragment:
    """A fragment that begins at ``end``."""
    return Fragment(journal, end, end, codec=spec.codec)


def _is_flush_due(interval: float, first_append_time: float, now: float) -> bool:
    if interval <= 0 or first_append_time <= 0:
        return False
    return int(first_append_time // interval) != int(now // interval)
