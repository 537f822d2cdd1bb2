"""What an append to a journal checks and moves."""

from __future__ import annotations

from collections.abc import Mapping

from windrow.graph.high_water import HighWaters, Mark
from windrow.graph.packing import pack_marks
from windrow.graph.positions import SourcePartition
from windrow.graph.routing import RoutingPin
from windrow.graph.snapshot import ProcessorUid
from windrow.journal.client.sequence import SEQ
from windrow.journal.labels import LabelSet
from windrow.spark.targets.journal_registers import Move, delivered_family, marks_family, seq_of

UID = ProcessorUid("shop", "price")
FAMILY = marks_family(UID)
OTHERS = {"windrow.dev/last/relay": "a/0/1", f"{marks_family(ProcessorUid('a', 'b'))}0": "x/1/0"}


def registers(own: Mapping[str, str], seq: int) -> LabelSet:
    return LabelSet.of({**own, **OTHERS, SEQ: str(seq)})


def waters(partitions: int, index: int) -> dict[str, str]:
    marks = {SourcePartition("orders", "i" * 32, n): Mark(index) for n in range(partitions)}
    return pack_marks(HighWaters(UID, 0, marks, RoutingPin(2), 1))


def test_check_holds_for_exactly_what_was_read() -> None:
    few, many = waters(3, 5), waters(400, 5)
    assert len(few) == 1
    assert len(many) > 1
    for old, others in ((few, (many, {}, waters(3, 6))), (many, (few, {})), ({}, (few, many))):
        check = Move(FAMILY, old, waters(3, 9)).check(7, 2)
        assert check.matches(registers(old, 7))
        for other in others:
            assert not check.matches(registers(other, 7))


def test_sequence_is_checked_where_rows_are_numbered_and_only_there() -> None:
    move = Move(FAMILY, waters(1, 5), waters(1, 6))
    assert not move.check(7, 2).matches(registers(move.old, 8))
    assert move.check(7, 0).matches(registers(move.old, 8))
    assert move.union(7, 2).value(SEQ) == "9"
    assert move.union(7, 0).value(SEQ) is None


def test_first_append_of_a_journal_begins_the_sequence() -> None:
    move = Move(FAMILY, {}, waters(1, 6))
    assert not move.check(None, 0).matches(registers({}, 0))
    assert move.check(None, 3).matches(LabelSet.of(OTHERS))
    assert move.union(None, 0).value(SEQ) == "0"
    assert move.union(None, 3).value(SEQ) == "3"
    assert seq_of(LabelSet()) is None
    assert seq_of(move.union(None, 3)) == 3


def test_registers_that_are_not_needed_any_more_are_removed() -> None:
    many, few = waters(400, 5), waters(3, 6)
    move = Move(FAMILY, many, few)
    after = registers(many, 7).assigned(move.union(7, 1)).subtract(move.subtract)
    assert {name: after.value(name) for name in few} == few
    assert not set(after.names()) & (set(many) - set(few))


def test_registers_that_stay_as_they_are_are_not_sent() -> None:
    old = waters(400, 5)
    first = min(old)
    move = Move(FAMILY, old, {**old, first: "changed"})
    assert move.union(7, 0).names() == (first,)
    assert not move.subtract


def test_families_of_marks_and_of_delivered_records_are_apart() -> None:
    assert not delivered_family(UID).startswith(FAMILY)
    assert marks_family(ProcessorUid("shop", "price", "output/a")) != FAMILY
