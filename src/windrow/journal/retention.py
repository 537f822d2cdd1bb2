"""Which fragments of a journal may be deleted from their stores. Pure.

A journal loses its beginning and nothing else: what is deleted lies before everything that is
kept, so that a reader finds a later begin and never a hole. Kept are

- all, if the retention is zero or less: it means for ever;
- what is not in a store yet;
- what was stored within the retention, or at a time that is not known;
- the stored fragment that reaches furthest, however old: brokers that have lost everything else
  learn from it which offsets were written before, and may not be written again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windrow.journal.fragment import Fragment


@dataclass(frozen=True, slots=True)
class Pruning:
    """What may go and what stays, each by its begin."""

    prunable: tuple[Fragment, ...] = ()
    kept: tuple[Fragment, ...] = ()

    @property
    def prunable_bytes(self) -> int:
        """How many bytes of the journal go, before compression."""
        return sum(fragment.length for fragment in self.prunable)


def plan_pruning(fragments: Iterable[Fragment], retention: float, now: float) -> Pruning:
    """Divide the fragments of one journal.

    Args:
        fragments: All that are known, stored or not.
        retention: Seconds for which content is kept; zero or less is for ever.
        now: Unix seconds.
    """
    known = sorted(fragments, key=lambda fragment: (fragment.begin, fragment.end))
    stored = [fragment for fragment in known if fragment.is_persisted]
    if retention <= 0 or not stored:
        return Pruning(kept=tuple(known))
    furthest = max(fragment.end for fragment in stored)
    first_kept = min(
        fragment.begin
        for fragment in known
        if fragment.end == furthest or not _is_aged(fragment, retention, now)
    )
    # One that reaches over the line stays, and with it all that it overlaps.
    for fragment in reversed(known):
        if fragment.end > first_kept:
            first_kept = min(first_kept, fragment.begin)
    return Pruning(
        tuple(fragment for fragment in known if _goes(fragment, first_kept)),
        tuple(fragment for fragment in known if not _goes(fragment, first_kept)),
    )


def _goes(fragment: Fragment, first_kept: int) -> bool:
    return fragment.is_persisted and fragment.end <= first_kept


def _is_aged(fragment: Fragment, retention: float, now: float) -> bool:
    is_dated = fragment.is_persisted and fragment.mod_time > 0
    return is_dated and now - fragment.mod_time >= retention
