"""Who serves a journal: every row of the protocol's table, without a keyspace."""

from __future__ import annotations

import pytest

from windrow.coordination.store import KeyValue
from windrow.journal.broker.resolution import (
    Assigned,
    Decision,
    JournalView,
    WrongCluster,
    WrongProcess,
    check_header,
    decide,
    implied_route,
)
from windrow.journal.spec import (
    EtcdHeader,
    FragmentSpec,
    JournalSpec,
    ProcessId,
    Route,
    Suspend,
    SuspendLevel,
)
from windrow.journal.status import Status

US, PEER, OTHER = ProcessId("a", "us-1"), ProcessId("b", "peer"), ProcessId("c", "other")
ETCD = EtcdHeader(cluster_id=7, member_id=1, revision=10, raft_term=1)


def kv(key: str, value: bytes = b"", created: int = 1, modified: int = 1) -> KeyValue:
    return KeyValue(key, value, created, modified, 1)


def assigned(
    *members: ProcessId, primary: ProcessId | None = None, created: int = 1
) -> tuple[Assigned, ...]:
    slots = [0 if member == primary else at + 1 for at, member in enumerate(members)]
    return tuple(
        Assigned(member, slot, kv(f"assign/{member}#{slot}", created=created))
        for member, slot in zip(members, slots, strict=True)
    )


def view(
    *members: ProcessId,
    primary: ProcessId | None = None,
    spec: JournalSpec | None = JournalSpec("a/journal"),  # noqa: B008 - frozen
    item: KeyValue | None = None,
    created: int = 1,
) -> JournalView:
    those = assigned(*members, primary=primary, created=created)
    return JournalView("a/journal", spec, item, those, None, implied_route(those))


@pytest.mark.parametrize(
    ("members", "primary", "require_primary", "may_proxy", "expected"),
    [
        ((), None, True, True, Decision(Status.NO_JOURNAL_PRIMARY_BROKER, US)),
        ((), None, False, True, Decision(Status.INSUFFICIENT_JOURNAL_BROKERS, US)),
        ((US,), None, True, True, Decision(Status.NO_JOURNAL_PRIMARY_BROKER, US)),
        ((US,), None, False, False, Decision(Status.OK, US)),
        ((US, PEER), US, True, False, Decision(Status.OK, US)),
        ((US, PEER), PEER, True, True, Decision(Status.OK, PEER)),
        ((US, PEER), PEER, True, False, Decision(Status.NOT_JOURNAL_PRIMARY_BROKER, US)),
        ((US, PEER), PEER, False, False, Decision(Status.OK, US)),
        ((PEER, OTHER), PEER, False, True, Decision(Status.OK, None)),
        ((PEER, OTHER), PEER, False, False, Decision(Status.NOT_JOURNAL_BROKER, US)),
        ((PEER, OTHER), PEER, True, True, Decision(Status.OK, PEER)),
    ],
)
def test_members_and_primary_decide_who_serves(
    members: tuple[ProcessId, ...],
    primary: ProcessId | None,
    require_primary: bool,
    may_proxy: bool,
    expected: Decision,
) -> None:
    asked = view(*members, primary=primary)
    assert decide(asked, US, require_primary=require_primary, may_proxy=may_proxy) == expected


def test_a_journal_without_a_spec_is_not_found_although_it_is_assigned() -> None:
    asked = view(US, primary=US, spec=None)
    found = decide(asked, US, require_primary=True, may_proxy=False)
    assert found == Decision(Status.JOURNAL_NOT_FOUND, US)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (SuspendLevel.NONE, Status.OK),
        (SuspendLevel.PARTIAL, Status.OK),
        (SuspendLevel.FULL, Status.SUSPENDED),
    ],
)
def test_only_a_full_suspension_refuses_requests(level: SuspendLevel, expected: Status) -> None:
    asked = view(US, primary=US, spec=JournalSpec("a/journal", suspend=Suspend(level)))
    assert decide(asked, US, require_primary=True, may_proxy=True).status is expected


def test_the_route_is_sorted_by_member_and_its_primary_is_slot_zero() -> None:
    route = implied_route(assigned(OTHER, US, PEER, primary=PEER))
    assert route == Route((US, PEER, OTHER), 1)


def test_a_route_without_slot_zero_has_no_primary() -> None:
    assert implied_route(assigned(US, PEER)).primary == -1
    assert implied_route(()) == Route.NONE


def test_a_member_whose_key_is_gone_stays_in_the_route_without_an_endpoint() -> None:
    route = implied_route(assigned(US, PEER, primary=US), {US: "http://a:1"})
    assert route.endpoints == ("http://a:1", "")


def test_a_rewritten_assignment_value_invalidates_nothing() -> None:
    before = view(US, PEER, primary=US)
    rewritten = tuple(
        Assigned(one.id, one.slot, kv(one.kv.key, b"route", modified=9))
        for one in before.assignments
    )
    after = JournalView("a/journal", before.spec, None, rewritten, None, before.route)
    assert after.is_same_service(before)


def test_an_assignment_made_anew_invalidates_although_it_reads_the_same() -> None:
    assert not view(US, PEER, primary=US, created=9).is_same_service(view(US, PEER, primary=US))


@pytest.mark.parametrize(
    "other",
    [
        view(US, PEER, primary=PEER),
        view(US, primary=US),
        view(US, PEER, OTHER, primary=US),
        view(
            US,
            PEER,
            primary=US,
            spec=JournalSpec("a/journal", fragment=FragmentSpec(stores=("file:///x/",))),
        ),
        view(US, PEER, primary=US, item=kv("items/a/journal", created=12)),
    ],
    ids=["primary", "fewer", "more", "stores", "recreated"],
)
def test_another_route_other_stores_or_another_journal_invalidate(other: JournalView) -> None:
    assert not other.is_same_service(view(US, PEER, primary=US))


def test_a_request_meant_for_this_broker_of_this_cluster_passes() -> None:
    check_header(ETCD, US, US, cluster_id=7)
    check_header(ETCD, None, US, cluster_id=7)
    check_header(None, None, US, cluster_id=7)


def test_a_request_of_another_cluster_is_refused_with_both_ids() -> None:
    with pytest.raises(WrongCluster, match=r"cluster id is 7, and this broker's 8"):
        check_header(ETCD, US, US, cluster_id=8)


def test_a_request_for_another_broker_is_refused_with_both_names() -> None:
    with pytest.raises(WrongProcess, match=r"for broker b#peer, and this is a#us-1"):
        check_header(ETCD, PEER, US, cluster_id=7)
