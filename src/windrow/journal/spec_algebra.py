"""Union, intersection and difference of journal specs, field by field.

A field that has its default value is unset. Names and suspensions belong to one journal: the
left spec keeps its own, and an intersection has neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from windrow.journal.labels import LabelSet
from windrow.journal.spec import FragmentSpec, JournalSpec, Suspend

_SHARED_FIELDS = ("replication", "flags", "max_append_rate")
_FRAGMENT_FIELDS = tuple(each.name for each in fields(FragmentSpec))
_UNSET_JOURNAL = JournalSpec("")
_UNSET_FRAGMENT = FragmentSpec()

Pick = Callable[[Any, Any, Any], Any]
"""Of a field's left, right and unset value, the one to keep."""


def union_specs(left: JournalSpec, right: JournalSpec) -> JournalSpec:
    """``left``, with whatever it leaves unset taken from ``right``."""
    return _combined(left, right, _left_or_right, LabelSet.union)


def intersect_specs(left: JournalSpec, right: JournalSpec) -> JournalSpec:
    """What both have alike."""
    common = _combined(left, right, _if_equal, LabelSet.intersect)
    return replace(common, name="", suspend=Suspend())


def subtract_specs(left: JournalSpec, right: JournalSpec) -> JournalSpec:
    """``left`` without what ``right`` has alike."""
    return _combined(left, right, _unless_equal, LabelSet.subtract)


def _combined(
    left: JournalSpec,
    right: JournalSpec,
    pick: Pick,
    pick_labels: Callable[[LabelSet, LabelSet], LabelSet],
) -> JournalSpec:
    own = _picked(left, right, _UNSET_JOURNAL, _SHARED_FIELDS, pick)
    fragment = _picked(left.fragment, right.fragment, _UNSET_FRAGMENT, _FRAGMENT_FIELDS, pick)
    return replace(
        left,
        labels=pick_labels(left.labels, right.labels),
        fragment=FragmentSpec(**fragment),
        **own,
    )


def _picked(
    left: object, right: object, unset: object, names: tuple[str, ...], pick: Pick
) -> dict[str, Any]:
    return {
        name: pick(getattr(left, name), getattr(right, name), getattr(unset, name))
        for name in names
    }


def _left_or_right(left: object, right: object, unset: object) -> object:
    return right if left == unset else left


def _if_equal(left: object, right: object, unset: object) -> object:
    return left if left == right else unset


def _unless_equal(left: object, right: object, unset: object) -> object:
    return unset if left == right else left
