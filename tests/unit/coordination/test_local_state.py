from __future__ import annotations

import pytest

from windrow.coordination.errors import KeyNotFound, LeaseNotFound
from windrow.coordination.local_state import KeyTable
from windrow.coordination.store import Compare, Delete, KeyValue, Put


def test_planned_change_is_not_there_until_it_is_made() -> None:
    table = KeyTable(5)
    events = table.plan([Put("a", b"1")], ())
    assert (table.revision, table.prefixed("")) == (5, ())
    table.make(events)
    assert (table.revision, table.prefixed("")) == (6, (KeyValue("a", b"1", 6, 6, 1),))


def test_plan_that_fails_changes_nothing() -> None:
    table = KeyTable(5, [KeyValue("a", b"", 2, 2, 1)])
    with pytest.raises(LeaseNotFound):
        table.plan([Delete("a"), Put("b", b"", lease=9)], {8})
    with pytest.raises(KeyNotFound):
        table.plan([Delete("a"), Put("b", b"", ignore_lease=True)], {8})
    assert table.prefixed("") == (KeyValue("a", b"", 2, 2, 1),)


def test_latest_change_is_that_of_the_keys_that_exist() -> None:
    table = KeyTable(9, [KeyValue("a", b"", 2, 4, 2), KeyValue("b", b"", 3, 3, 1)])
    assert table.latest_change(["a", "b", "c"]) == 4
    assert table.latest_change(["c"]) == 0


def test_conditions_are_a_conjunction() -> None:
    table = KeyTable(9, [KeyValue("a", b"", 2, 4, 2, lease=7)])
    holding = [Compare.lease("a", 7), Compare.version("a", 2), Compare.mod_revision("b", 0)]
    assert table.holds(holding)
    assert table.holds([])
    assert not table.holds([*holding, Compare.create_revision("a", 4)])
