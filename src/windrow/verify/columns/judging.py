"""Is each arrival later than the latest of its key before it? Pure, on arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    Numbers = NDArray[np.int64]

KEY_1, KEY_2, ARRIVED, WRITTEN = range(4)
"""The columns of rows: both digests of the key, the place of arrival, the place of writing."""

BEFORE = -1
"""The place of arrival of what is known from rows that were judged before."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Places of arrival in trouble, and the latest of each key as rows for the next judgement."""

    doubled: Numbers
    misordered: Numbers
    latest: Rows


def judge(rows: Rows, before: Rows | None = None) -> Judgement:
    """Judge arrivals that are all later than those judged before.

    Args:
        rows: In any order.
        before: ``latest`` of the judgement before this one.
    """
    if before is not None and len(before):
        rows = np.concatenate([before, rows])
    rows = rows[np.lexsort((rows[:, ARRIVED], rows[:, KEY_2], rows[:, KEY_1]))]
    if not len(rows):
        return Judgement(rows[:, ARRIVED], rows[:, ARRIVED], rows)
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = (rows[1:, KEY_1] != rows[:-1, KEY_1]) | (rows[1:, KEY_2] != rows[:-1, KEY_2])
    written, span = rows[:, WRITTEN], int(rows[:, WRITTEN].max()) + 1
    # Each key on a level of its own above the last: so one running maximum serves them all.
    level = (np.cumsum(begins) - 1) * span
    running = np.maximum.accumulate(written + level)
    latest_before = np.full(len(rows), -1, np.int64)
    latest_before[1:] = running[:-1] - level[1:]
    latest_before[begins] = -1
    ends = np.append(begins[1:], True)
    latest = rows[ends]
    latest[:, ARRIVED] = BEFORE
    latest[:, WRITTEN] = (running - level)[ends]
    places = rows[:, ARRIVED]
    return Judgement(places[written == latest_before], places[written < latest_before], latest)
