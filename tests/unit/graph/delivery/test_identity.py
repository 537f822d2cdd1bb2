"""Positions, snapshots, hashes and routing: what must be the same on every attempt."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.graph.delivery.scenes import UID, at, offsets, span
from windrow.graph.context import ContextMaker
from windrow.graph.delivery_errors import (
    IncarnationChanged,
    InvalidBacking,
    InvalidOffsets,
    UnknownRouting,
)
from windrow.graph.positions import Position, SourceOffsets, SourcePartition, Span
from windrow.graph.routing import RoutingPin, murmur2
from windrow.graph.snapshot import ProcessorUid, Snapshot, batch_hash, delivery_hash
from windrow.journal.client.mapping import modulo

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
INDICES = st.integers(0, 2**62)


@given(NAMES, NAMES, st.integers(0, 999), INDICES, st.integers(0, 9))
def test_a_position_survives_json(
    source: str, incarnation: str, partition: int, index: int, ordinal: int
) -> None:
    position = Position(source, incarnation, partition, index, ordinal)
    assert Position.from_json(json.loads(json.dumps(position.to_json()))) == position


def test_positions_are_ordered_by_source_partition_index_and_ordinal() -> None:
    ordered = [at("a", 1), at("a", 2), at("a", 2, 1), at("a", 10), at("a", 0, partition=1)]
    assert all(one < other for one, other in pairwise(ordered))
    assert at("a", 99) < at("b", 0)


@pytest.mark.parametrize("value", [None, [], ["s"], ["s", "i", "0", 1], {"a": 1}])
def test_what_is_no_position_or_span_is_refused(value: object) -> None:
    with pytest.raises(InvalidOffsets):
        Position.from_json(value)
    with pytest.raises(InvalidOffsets):
        Span.from_json(value)


def test_a_span_does_not_end_before_it_begins() -> None:
    with pytest.raises(InvalidOffsets, match="from 5 to 4"):
        span(start=5, end=4)
    assert at("s1", 4) in span(end=5)
    assert at("s1", 5) not in span(end=5)
    assert at("s2", 4) not in span(end=5)


def test_offsets_of_all_inputs_are_one_json_by_name() -> None:
    both = offsets(s2=7, s1=3)
    assert json.loads(str(both)) == {
        "s1": {"0": {"incarnation": "s1-1", "index": 3}},
        "s2": {"0": {"incarnation": "s2-1", "index": 7}},
    }
    assert SourceOffsets.from_json(json.loads(str(both))) == both


def test_inputs_that_are_swapped_keep_their_offsets() -> None:
    assert offsets(s1=3, s2=7) == offsets(s2=7, s1=3)


def test_an_input_that_is_added_begins_and_one_that_returns_goes_on() -> None:
    before = offsets(s1=3, s2=7)
    after = before.of_inputs(["s1"]).advanced([span("s1", 3, 9), span("s3", 0, 2)])
    assert after == offsets(s1=9, s3=2)
    assert before.advanced([span("s1", 3, 9)]) == offsets(s1=9, s2=7)


def test_a_source_that_was_made_again_is_refused_with_a_sentence() -> None:
    found = SourcePartition("s1", "other", 0)
    with pytest.raises(IncarnationChanged) as caught:
        offsets(s1=3).check_incarnations([found])
    assert 'source "s1" partition 0 was read up to 3' in str(caught.value)
    assert "--accept-incarnation s1" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_offsets_hold_one_incarnation_of_a_partition() -> None:
    old, new = SourcePartition("s", "1", 0), SourcePartition("s", "2", 0)
    with pytest.raises(InvalidOffsets, match="two incarnations"):
        SourceOffsets.of({old: 1, new: 1})
    assert SourceOffsets.of({old: 5}).moved_to(SourceOffsets.of({new: 1})).get(new) == 1


@pytest.mark.parametrize("tree", [None, {"s": 1}, {"s": {"x": {}}}, {"s": {"0": {"index": 1}}}])
def test_what_are_no_offsets_is_refused(tree: object) -> None:
    with pytest.raises(InvalidOffsets):
        SourceOffsets.from_json(tree)


def test_an_absent_input_agrees_with_one_at_its_beginning() -> None:
    assert offsets(s1=0).agrees_with(offsets())
    assert not offsets(s1=1).agrees_with(offsets())
    assert offsets(s1=1).is_within(offsets(s1=1, s2=9))


# -- hashes --------------------------------------------------------------------------------------


def test_the_delivery_hash_never_changes() -> None:
    """Whoever kept hashes in a table relies on these very digits."""
    assert delivery_hash(UID, [at("s1", 1)]) == (
        "6b4fd540a33e397c27aaad57718cd23e29082fb145d8de7077d855e8f19b7ffd"
    )
    assert batch_hash(UID, [span()]) == (
        "874674e54e00f709533840b5490e81a04217499870ad74f6c5ac0267a2224062"
    )


def test_the_batch_hash_knows_only_the_processor_and_the_ranges() -> None:
    one = Snapshot(UID, 1, (span("s2"), span("s1")), RoutingPin(3), "v1", "exactly-once", 1.0)
    other = Snapshot(UID, 9, (span("s1"), span("s2")), RoutingPin(4), "v2", "at-most-once", 2.0)
    assert one.delivery_hash == other.delivery_hash
    assert one.canonical() != other.canonical()


@pytest.mark.parametrize(
    "other",
    [
        [at("s1", 2)],
        [at("s1", 1, 1)],
        [at("s2", 1)],
        [at("s1", 1, partition=1)],
        [Position("s1", "made again", 0, 1)],
        [at("s1", 1), at("s2", 1)],
    ],
)
def test_any_other_position_has_another_hash(other: list[Position]) -> None:
    assert delivery_hash(UID, other) != delivery_hash(UID, [at("s1", 1)])


def test_names_cannot_be_shifted_into_one_another() -> None:
    uids = ProcessorUid("a/b", "c"), ProcessorUid("a", "b/c"), ProcessorUid("a", "b", "c")
    assert len({delivery_hash(uid, [at("s1", 1)]) for uid in uids}) == 3
    assert len({uid.digest for uid in uids}) == 3


def test_positions_of_a_join_are_hashed_in_one_order() -> None:
    pair = [at("s1", 1), at("s2", 1)]
    assert delivery_hash(UID, pair) == delivery_hash(UID, pair[::-1])


def test_a_snapshot_survives_json_and_pickling() -> None:
    snapshot = Snapshot(UID, 3, (span(),), RoutingPin(3, "fnv1a-1"), "v1", "at-most-once", 1.5)
    assert Snapshot.from_json(json.loads(snapshot.canonical())) == snapshot
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot


# -- routing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "digest"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafkas_java_client(key: bytes, digest: int) -> None:
    assert murmur2(key) == digest & 0xFFFFFFFF


def test_fnv_routes_as_the_journal_client_does() -> None:
    journals = [f"part-{number}" for number in range(5)]
    for number in range(50):
        key = b"key-%d" % number
        target = RoutingPin(5, "fnv1a-1").route(key, at("s1", 0))
        assert journals[target] == modulo(key, journals)


def test_rows_without_a_key_go_around_by_their_position() -> None:
    pin = RoutingPin(3)
    assert [pin.route(None, at("s1", index)) for index in range(6)] == [0, 1, 2, 0, 1, 2]
    assert pin.route(None, at("s1", 1, 1)) == 2


@given(st.binary(max_size=40), st.integers(1, 64))
def test_a_key_always_has_a_target(key: bytes, targets: int) -> None:
    for function in ("murmur2-1", "fnv1a-1"):
        pin = RoutingPin(targets, function)
        assert pin.route(key, at("s1", 0)) == pin.route(key, at("s9", 9)) < targets


def test_a_routing_of_another_version_is_refused() -> None:
    with pytest.raises(UnknownRouting, match="murmur2-1, fnv1a-1"):
        RoutingPin(2, "murmur3-1").route(b"k", at("s1", 0))
    with pytest.raises(InvalidBacking):
        RoutingPin(0)


# -- what functions see --------------------------------------------------------------------------


def test_a_function_sees_the_same_on_every_attempt_but_the_attempt() -> None:
    snapshot = Snapshot(UID, 1, (span(),), batch_time=1_700_000_000.5)
    first, again = (ContextMaker(snapshot, n, {"db": 1}).make((at("s1", 3),)) for n in (1, 2))
    assert (first.attempt, again.attempt) == (1, 2)
    assert first.delivery_hash == again.delivery_hash == delivery_hash(UID, [at("s1", 3)])
    assert first.random().random() == again.random().random()
    assert first.uuid(1) == again.uuid(1) != first.uuid()
    assert first.uuid().version == 8
    assert first.time == again.time
    assert first.time.isoformat() == "2023-11-14T22:13:20.500000+00:00"
    assert first.system == {"db": 1}
    assert first.options == {}


def test_a_leg_of_a_processor_hashes_as_the_processor() -> None:
    leg = ProcessorUid(UID.graph, UID.processor, "output/out")
    snapshot = Snapshot(leg, 1, (span(),))
    context = ContextMaker(snapshot, 1).make((at("s1", 3),))
    assert context.delivery_hash == delivery_hash(UID, [at("s1", 3)])
