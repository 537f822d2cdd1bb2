"""Keys are built one way, and only that way is parsed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.errors import InvalidField
from windrow.journal.keys import AssignmentKey, Keys
from windrow.journal.process import ProcessId

KEYS = Keys()
ZONE_A = ProcessId("zone-a", "broker-1")


def test_keys_are_where_every_broker_of_a_cluster_looks_for_them() -> None:
    assert KEYS.item("acme/orders") == "/gazette/cluster/items/acme/orders"
    assert KEYS.member(ZONE_A) == "/gazette/cluster/members/zone-a#broker-1"
    assert (
        KEYS.assignment("acme/orders", ZONE_A, 2)
        == "/gazette/cluster/assign/acme/orders#zone-a#broker-1#2"
    )
    assert KEYS.head("acme/orders") == "/gazette/cluster/heads/acme/orders"
    assert Keys("/other").item("acme/orders") == "/other/items/acme/orders"


def test_what_is_built_is_parsed() -> None:
    assert KEYS.parse_item(KEYS.item("acme/orders")) == "acme/orders"
    assert KEYS.parse_member(KEYS.member(ZONE_A)) == ZONE_A
    assert KEYS.parse_head(KEYS.head("acme/orders")) == "acme/orders"
    parsed = KEYS.parse_assignment(KEYS.assignment("acme/orders", ZONE_A, 10))
    assert parsed == AssignmentKey("acme/orders", ZONE_A, 10)


@pytest.mark.parametrize(
    "key",
    [
        "/gazette/cluster/assign/acme/orders#zone-a#broker-1",
        "/gazette/cluster/assign/acme/orders#zone-a#broker-1#0#0",
        "/gazette/cluster/assign/acme/orders#zone-a#broker-1#",
        "/gazette/cluster/assign/acme/orders#zone-a#broker-1#01",
        "/gazette/cluster/assign/acme/orders#zone-a#broker-1#+1",
        "/gazette/cluster/assign/acme/orders#zone-a#broker-1#-1",
        "/gazette/cluster/assign/acme/orders#zone-a#broker-1#1 ",
        "/gazette/cluster/assign/acme/orders#zone-a#broker-1#1\n",
        "/gazette/cluster/assign/acme/orders#zone-a#broker-1#٣",
        "/gazette/cluster/assign/acme//orders#zone-a#broker-1#0",
        "/gazette/cluster/assign/acme/orders##broker-1#0",
        "/gazette/cluster/assign/#zone-a#broker-1#0",
        "/gazette/clusters/assign/acme/orders#zone-a#broker-1#0",
        "/gazette/cluster/items/acme/orders",
    ],
)
def test_a_key_that_is_not_quite_an_assignment_is_refused(key: str) -> None:
    with pytest.raises(InvalidField):
        KEYS.parse_assignment(key)


@pytest.mark.parametrize("text", ["zone-a", "#broker-1", "zone-a#", "zone-a#abc", "a#b#cdef", ""])
def test_a_key_that_is_not_quite_a_member_is_refused(text: str) -> None:
    with pytest.raises(InvalidField):
        KEYS.parse_member(KEYS.members + text)


@pytest.mark.parametrize("name", ["", "abc", "/acme/orders", "acme/../orders", "acme#x", "acme;x"])
def test_a_name_that_is_no_journal_has_no_key(name: str) -> None:
    for build in (KEYS.item, KEYS.head, KEYS.assignments_of):
        with pytest.raises(InvalidField):
            build(name)
    for beginning, parse in ((KEYS.items, KEYS.parse_item), (KEYS.heads, KEYS.parse_head)):
        with pytest.raises(InvalidField):
            parse(beginning + name)


def test_a_slot_is_never_negative() -> None:
    with pytest.raises(InvalidField, match="0 or more"):
        KEYS.assignment("acme/orders", ZONE_A, -1)


@pytest.mark.parametrize("prefix", ["", "/", "cluster", "/cluster/", "/clus#ter"])
def test_a_prefix_is_an_absolute_path(prefix: str) -> None:
    with pytest.raises(InvalidField, match="Prefix"):
        Keys(prefix)


def test_assignments_of_a_journal_do_not_include_those_of_a_longer_name() -> None:
    longer = KEYS.assignment("acme/orders/late", ZONE_A, 0)
    assert not longer.startswith(KEYS.assignments_of("acme/orders"))


JOURNALS = st.sampled_from(["acme/orders", "acme/orders/late", "acme/orders-2", "acme/orders%"])
MEMBERS = st.builds(
    ProcessId, st.sampled_from(["a", "a-b", "b"]), st.sampled_from(["node", "node-1", "node.1"])
)
ASSIGNMENTS = st.builds(AssignmentKey, JOURNALS, MEMBERS, st.integers(0, 9))


@given(st.lists(ASSIGNMENTS))
def test_keys_sort_as_their_parts_do(assignments: list[AssignmentKey]) -> None:
    """A route is the members in the order of the keys, so this order has to be theirs."""
    keys = sorted(KEYS.assignment(*assignment) for assignment in assignments)
    assert [KEYS.parse_assignment(key) for key in keys] == sorted(assignments)
