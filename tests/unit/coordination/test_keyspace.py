from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.coordination.key_values import batch, delete, kv, progress, put, snapshot
from windrow.coordination.errors import ClusterChanged, EventsInconsistent, RevisionWentBack
from windrow.coordination.keyspace import KeySpace
from windrow.coordination.local_state import KeyTable
from windrow.coordination.store import Delete, Event, KeyValue, Put, Snapshot, WatchBatch


def loaded(*kvs: KeyValue, revision: int = 10) -> KeySpace:
    space = KeySpace("p/")
    space.load(snapshot(revision, *kvs))
    space.begin_watch()
    return space


def test_load_shows_keys_in_order() -> None:
    space = loaded(kv("p/b"), kv("p/a"), kv("p/a/1"), kv("p/a#"))
    assert [kv.key for kv in space.prefixed("p/")] == ["p/a", "p/a#", "p/a/1", "p/b"]
    assert [kv.key for kv in space.prefixed("p/a/")] == ["p/a/1"]
    assert space.prefixed("p/c") == []
    assert space.get("p/b") == kv("p/b")
    assert space.get("p/c") is None
    assert len(space) == 4


def test_revision_is_the_largest_under_the_prefix_not_the_stores() -> None:
    space = loaded(kv("p/a", at=3), kv("p/b", at=7), revision=1_000)
    assert (space.revision, space.complete_through) == (7, 1_000)
    space.apply([batch(put("p/c", at=1_005))])
    assert (space.revision, space.complete_through) == (1_005, 1_005)


def test_first_load_is_a_change_even_of_nothing() -> None:
    """Whoever acts on changes gets to act once."""
    space = KeySpace("p/")
    assert space.load(snapshot(10)).is_change
    assert not space.load(snapshot(11)).is_change


def test_deletion_moves_the_revision_too() -> None:
    space = loaded(kv("p/a"))
    space.apply([batch(delete("p/a", at=12))])
    assert (space.revision, len(space)) == (12, 0)


def test_changes_of_one_batch_are_taken_over_at_once_in_the_order_of_each_key() -> None:
    space = loaded(kv("p/a", at=2))
    change = space.apply(
        [
            batch(put("p/b", b"1", at=11), delete("p/a", at=11)),
            batch(put("p/b", b"2", at=12, created=11, version=2), put("p/a", b"new", at=12)),
            batch(delete("p/b", at=13), put("p/c", at=13)),
        ]
    )
    assert change.is_change
    assert [(kv.key, kv.value, kv.create_revision) for kv in space.prefixed("p/")] == [
        ("p/a", b"new", 12),
        ("p/c", b"v", 13),
    ]


@pytest.mark.parametrize(
    "event",
    [
        put("p/a", at=11),
        put("p/a", at=11, created=2, version=3),
        put("p/a", at=11, created=5, version=2),
        put("p/new", at=11, created=5, version=2),
        put("p/new", at=11, created=11, version=2),
        put("other/a", at=11),
        delete("p/new", at=11),
    ],
    ids=lambda event: f"{event.kind.value}-{event.kv.key}-{event.kv.version}",
)
def test_change_that_does_not_follow_is_refused(event: Event) -> None:
    """A missed change shows: otherwise the copy would differ for ever, and nobody would know."""
    space = loaded(kv("p/a", at=2))
    with pytest.raises(EventsInconsistent):
        space.apply([batch(event)])


def test_revisions_of_a_watch_never_go_back() -> None:
    space = loaded(kv("p/a", at=2))
    space.apply([batch(put("p/b", at=15))])
    with pytest.raises(EventsInconsistent, match="at 14 follows one at 15"):
        space.apply([batch(put("p/c", at=14))])
    with pytest.raises(EventsInconsistent):
        loaded(revision=20).apply([batch(put("p/c", at=20))])


def test_inconsistency_leaves_the_copy_as_it_was_and_a_reload_mends_it() -> None:
    space = loaded(kv("p/a", at=2))
    before = space.prefixed(""), space.revision, space.complete_through
    with pytest.raises(EventsInconsistent):
        space.apply([batch(put("p/0", at=11), put("p/a", at=11, created=2, version=9))])
    assert (space.prefixed(""), space.revision, space.complete_through) == before
    space.load(snapshot(20, kv("p/z", at=14)))
    assert [kv.key for kv in space.prefixed("")] == ["p/z"]
    assert space.begin_watch() == 20


def test_another_cluster_is_refused() -> None:
    space = loaded(kv("p/a"))
    with pytest.raises(ClusterChanged):
        space.load(snapshot(20, cluster_id=78))
    with pytest.raises(ClusterChanged):
        space.apply([batch(put("p/b", at=11), cluster_id=78)])


def test_store_that_went_back_is_refused() -> None:
    space = loaded(kv("p/a"), revision=10)
    with pytest.raises(RevisionWentBack):
        space.load(snapshot(9))
    space.load(snapshot(10))


def test_reload_never_lets_the_revision_go_back() -> None:
    """Its latest change was a deletion, which a load does not show."""
    space = loaded(kv("p/a", at=2))
    space.apply([batch(delete("p/a", at=12))])
    change = space.load(snapshot(20))
    assert space.revision == 12
    assert not change.is_change


def test_progress_moves_where_a_watch_goes_on_one_report_late_and_nothing_else() -> None:
    """A member can report a revision just before it tells the changes of that very revision."""
    space = loaded(kv("p/a", at=2), revision=10)
    assert not space.apply([progress(50)]).is_change
    assert space.begin_watch() == 10
    space.apply([batch(put("p/b", at=50))])
    assert space.get("p/b") is not None
    space.apply([progress(90)])
    assert space.begin_watch() == 50
    space.apply([progress(120)])
    assert space.begin_watch() == 90
    assert space.revision == 50


def test_event_after_a_report_of_its_own_revision_is_taken_over() -> None:
    space = loaded(revision=10)
    space.apply([progress(50), progress(50), batch(put("p/a", at=51))])
    assert space.get("p/a") is not None


# -- decoders ------------------------------------------------------------------------------------


def number_of(kv: KeyValue) -> int:
    return int(kv.value)


def decoding(*kvs: KeyValue) -> KeySpace:
    space = KeySpace("p/", {"p/n/": number_of})
    space.load(snapshot(10, *kvs))
    space.begin_watch()
    return space


def test_good_value_is_decoded_and_others_have_no_decoder() -> None:
    space = decoding(kv("p/n/a", b"5"), kv("p/x", b"5"))
    assert space.decoded("p/n/a") == 5
    assert space.decoded("p/x") is None
    assert space.get("p/x") is not None
    assert space.decoded("p/absent") is None


def test_bad_value_is_told_and_its_key_ignored_until_it_is_mended() -> None:
    space = decoding(kv("p/n/a", b"1", at=2))
    change = space.apply([batch(put("p/n/b", b"bad", at=11))])
    assert [(bad.kv.key, type(bad.error)) for bad in change.rejected] == [("p/n/b", ValueError)]
    assert [kv.key for kv in space.prefixed("p/")] == ["p/n/a"]
    space.apply([batch(put("p/n/b", b"2", at=12, created=11, version=2))])
    assert [kv.key for kv in space.prefixed("p/")] == ["p/n/a", "p/n/b"]
    assert space.decoded("p/n/b") == 2


def test_bad_value_of_a_known_key_leaves_the_last_good_one() -> None:
    space = decoding(kv("p/n/a", b"1", at=2))
    space.apply([batch(put("p/n/a", b"bad", at=11, created=2, version=2))])
    assert space.decoded("p/n/a") == 1
    assert space.get("p/n/a") == kv("p/n/a", b"1", at=2)
    space.load(snapshot(20, kv("p/n/a", b"bad", at=11, created=2, version=2)))
    assert space.decoded("p/n/a") == 1
    space.begin_watch()
    space.apply([batch(put("p/n/a", b"3", at=21, created=2, version=3))])
    assert space.decoded("p/n/a") == 3


def test_key_with_a_bad_value_can_be_deleted_and_made_again() -> None:
    space = decoding(kv("p/n/a", b"bad", at=2), kv("p/n/b", b"7", at=2))
    assert [kv.key for kv in space.prefixed("p/")] == ["p/n/b"]
    space.apply([batch(delete("p/n/a", at=11)), batch(delete("p/n/b", at=12))])
    assert len(space) == 0
    space.apply([batch(put("p/n/b", b"bad", at=13))])
    assert space.get("p/n/b") is None
    space.apply([batch(put("p/n/a", b"8", at=14))])
    assert space.decoded("p/n/a") == 8


def test_recreated_key_with_a_bad_value_does_not_keep_the_old_ones_value_over_a_load() -> None:
    space = decoding(kv("p/n/a", b"1", at=2))
    space.load(snapshot(20, kv("p/n/a", b"bad", at=15)))
    assert space.get("p/n/a") is None


def test_unchanged_key_keeps_its_decoded_object() -> None:
    made: list[object] = []

    def decode(kv: KeyValue) -> Any:
        made.append(object())
        return made[-1]

    space = KeySpace("p/", {"p/": decode})
    space.load(snapshot(10, kv("p/a", at=2)))
    first = space.decoded("p/a")
    space.load(snapshot(20, kv("p/a", at=2)))
    space.begin_watch()
    space.apply([batch(put("p/b", at=21))])
    assert space.decoded("p/a") is first
    assert len(made) == 2


# -- any history ---------------------------------------------------------------------------------

KEYS = st.sampled_from(["p/a", "p/b", "p/c", "q/a"])
OPS = st.lists(
    st.one_of(
        st.builds(Put, KEYS, st.binary(max_size=2)),
        st.builds(Delete, KEYS),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda op: op.key,
)


@given(history=st.lists(OPS, max_size=25), data=st.data())
def test_mirror_that_follows_any_history_equals_a_fresh_load(
    history: list[list[Put | Delete]], data: st.DataObject
) -> None:
    """However changes are batched, and wherever the watch breaks and goes on."""
    table = KeyTable(1)
    told: list[WatchBatch] = []
    space = KeySpace("p/")
    space.load(Snapshot(1, (), 1))
    for ops in history:
        events = table.plan(ops, ())
        table.make(events)
        under = tuple(event for event in events if event.kv.key.startswith("p/"))
        if events:
            told.append(WatchBatch(table.revision, under, 1))
    remaining = told
    while remaining:
        count = data.draw(st.integers(1, len(remaining)))
        space.begin_watch()
        space.apply(remaining[:count])
        # A new watch tells everything after where the copy is complete.
        remaining = [one for one in told if one.revision > space.complete_through]
        if all(not one.events for one in remaining):
            break
    assert tuple(space.prefixed("")) == table.prefixed("p/")
    assert space.revision == max((e.kv.mod_revision for b in told for e in b.events), default=0)
