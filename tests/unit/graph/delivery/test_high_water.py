"""Marks: what they cover, how they move, and how they fit where they are kept."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.graph.delivery.scenes import UID, at, offsets, span
from windrow.graph.delivery_errors import (
    Fenced,
    ImpossibleEvent,
    InvalidBacking,
    InvalidOffsets,
    MarkConflict,
    RoutingChanged,
    TargetShared,
)
from windrow.graph.high_water import Delivered, HighWaters, Mark, shared_floor
from windrow.graph.packing import (
    MAX_VALUE,
    pack_delivered,
    pack_marks,
    unpack_delivered,
    unpack_marks,
)
from windrow.graph.positions import SourceOffsets, SourcePartition
from windrow.graph.routing import SINGLE_TARGET, RoutingPin
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import (
    Acted,
    HighWaterRead,
    Mismatched,
    ReadHighWater,
    SinkTask,
    TaskDone,
    WriterFenced,
    WriteRows,
    WriteUnknown,
    Written,
    check_sole_owners,
)
from windrow.graph.snapshot import ProcessorUid, Snapshot

ORIGINS = st.builds(
    SourcePartition,
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
    st.text("0123456789abcdef-_", min_size=1, max_size=36),
    st.integers(0, 5000),
)
MARKS = st.dictionaries(
    ORIGINS, st.builds(Mark, st.integers(0, 2**62), st.integers(0, 99)), max_size=80
)
EMPTY = HighWaters(UID, 0)


def rows(*indices: int, nil: frozenset[int] = frozenset()) -> list[SinkRow]:
    return [SinkRow((at("s1", n),), n, is_nil=n in nil) for n in indices]


def started(
    *indices: int, waters: HighWaters = EMPTY, size: int = 0, nil: frozenset[int] = frozenset()
) -> tuple[SinkTask, object]:
    snapshot = Snapshot(UID, 1, (span(end=10),))
    task = SinkTask(snapshot, 0, rows(*indices, nil=nil), SourceOffsets(), size)
    assert task.start() == ReadHighWater(0)
    return task, task.handle(HighWaterRead(waters))


def test_a_mark_covers_what_is_before_it() -> None:
    waters = EMPTY.over([[at("s1", 3, 1)]], SINGLE_TARGET)
    assert waters.covers([at("s1", 3)])
    assert waters.covers([at("s1", 3, 1)])
    assert not waters.covers([at("s1", 3, 2)])
    assert not waters.covers([at("s1", 4)])
    assert not waters.covers([at("s1", 0, partition=1)])


def test_a_mark_never_goes_back() -> None:
    waters = EMPTY.over([[at("s1", 9)]], SINGLE_TARGET)
    assert waters.over([[at("s1", 3)]], SINGLE_TARGET).marks == waters.marks
    assert waters.to_ends(Snapshot(UID, 1, (span(end=4),))).marks == waters.marks


@given(MARKS)
def test_marks_survive_registers(marks: dict[SourcePartition, Mark]) -> None:
    waters = HighWaters(UID, 2, marks, RoutingPin(3), 4)
    registers = pack_marks(waters)
    assert unpack_marks(UID, 2, registers | {"windrow.dev/seq": "7"}) == waters
    for name, value in registers.items():
        assert len(name.encode()) <= 64
        assert len(value.encode()) <= MAX_VALUE
        assert re.fullmatch(r"[A-Za-z0-9_+/.=%-]*", value)


@given(MARKS)
def test_marks_survive_a_progress_row_or_a_marker(marks: dict[SourcePartition, Mark]) -> None:
    waters = HighWaters(UID, 2, marks, RoutingPin(3), 4)
    assert HighWaters.from_json(json.loads(json.dumps(waters.to_json()))) == waters


def test_hundreds_of_marks_take_few_registers() -> None:
    marks = {SourcePartition("orders", "a" * 32, n): Mark(10**9 + n) for n in range(256)}
    assert len(pack_marks(HighWaters(UID, 0, marks, SINGLE_TARGET))) == 4


def test_the_last_delivery_survives_registers_and_a_progress_row() -> None:
    delivered = Delivered(UID, 7, "ab" * 32, offsets(s1=3, s2=9), 4)
    assert unpack_delivered(UID, pack_delivered(delivered)) == delivered
    assert Delivered.from_json(json.loads(json.dumps(delivered.to_json()))) == delivered
    assert unpack_delivered(UID, {}) is None
    assert shared_floor(delivered) == offsets(s1=3, s2=9)
    assert shared_floor(None) == SourceOffsets()


def test_processors_do_not_see_each_others_registers() -> None:
    mine = pack_marks(EMPTY.over([[at("s1", 1)]], SINGLE_TARGET))
    other = ProcessorUid("graph", "other")
    assert unpack_marks(other, 0, mine) == HighWaters(other, 0)


@pytest.mark.parametrize("value", ["x", "f/1/0//s/i", "f/1/0//s/i/0=x", "f/x/0//s/i/0=1", "f/1"])
def test_registers_of_another_form_are_refused(value: str) -> None:
    name = next(iter(pack_marks(EMPTY.owned_by(1))))
    with pytest.raises(InvalidBacking):
        unpack_marks(UID, 0, {name: value})


def test_a_name_that_fits_into_no_register_is_refused() -> None:
    waters = HighWaters(UID, 0, {SourcePartition("s" * 2000, "1", 0): Mark(1)}, SINGLE_TARGET)
    with pytest.raises(InvalidBacking, match="of 1024 bytes"):
        pack_marks(waters)


def test_a_register_that_is_missing_between_others_is_noticed() -> None:
    marks = {SourcePartition("s", "i" * 36, n): Mark(n) for n in range(300)}
    registers = pack_marks(HighWaters(UID, 0, marks, SINGLE_TARGET))
    del registers[sorted(registers)[1]]
    with pytest.raises(InvalidBacking, match="has numbers"):
        unpack_marks(UID, 0, registers)


def test_progress_of_another_form_is_refused() -> None:
    good = EMPTY.over([[at("s1", 1)]], SINGLE_TARGET).to_json()
    for tree in ({}, good | {"marks": [[1]]}, good | {"routing": "x"}):
        with pytest.raises(InvalidBacking):
            HighWaters.from_json(tree)
    with pytest.raises(InvalidBacking):
        Delivered.from_json({"uid": ["a", "b"]})


def test_routing_may_change_once_nothing_lies_ahead() -> None:
    waters = EMPTY.over([[at("s1", 4)]], RoutingPin(3))
    snapshot = Snapshot(UID, 2, (span(start=5, end=9),), RoutingPin(2))
    waters.check_routing(snapshot, offsets(s1=5))
    with pytest.raises(RoutingChanged, match="murmur2-1 over 3"):
        waters.check_routing(snapshot, offsets(s1=4))


# -- the task ------------------------------------------------------------------------------------


def test_rows_are_written_in_the_order_of_their_positions() -> None:
    _, step = started(2, 0, 1)
    assert isinstance(step, WriteRows)
    assert [row.value for row in step.rows] == [0, 1, 2]


def test_the_last_write_moves_the_marks_to_the_end_of_the_snapshot() -> None:
    task, step = started(0, 1, 2, size=2)
    assert isinstance(step, WriteRows)
    assert list(step.marks.marks.values()) == [Mark(1, 1)]
    step = task.handle(Written())
    assert isinstance(step, WriteRows)
    assert list(step.marks.marks.values()) == [Mark(10)]
    assert task.handle(Written()) == TaskDone(0, 3, 0)


def test_rows_without_a_value_move_the_marks() -> None:
    task, step = started(3, 4, nil=frozenset({3, 4}))
    assert isinstance(step, WriteRows)
    assert list(step.rows) == []
    assert list(step.marks.marks.values()) == [Mark(10)]
    assert task.handle(Written()) == TaskDone(0, 0, 2)


def test_what_is_held_is_dropped_without_a_write() -> None:
    _, step = started(0, 1, waters=EMPTY.to_ends(Snapshot(UID, 1, (span(end=10),))))
    assert step == TaskDone(0, 0, 2)


def test_below_the_floor_nothing_is_written_whatever_the_marks_say() -> None:
    snapshot = Snapshot(UID, 1, (span(end=10),), RoutingPin(2))
    task = SinkTask(snapshot, 1, rows(0, 1), offsets(s1=10))
    task.start()
    assert task.handle(HighWaterRead(HighWaters(UID, 1))) == TaskDone(1, 0, 2)


@pytest.mark.parametrize("event", [Mismatched(), WriteUnknown()])
def test_after_a_mismatch_or_an_unknown_outcome_it_reads_and_drops_again(
    event: Mismatched | WriteUnknown,
) -> None:
    task, _ = started(0, 1, 2)
    assert task.handle(event) == ReadHighWater(0)
    step = task.handle(HighWaterRead(EMPTY.over([[at("s1", 1)]], SINGLE_TARGET)))
    assert isinstance(step, WriteRows)
    assert [row.value for row in step.rows] == [2]


def test_a_write_that_was_not_made_after_all_is_made_again() -> None:
    task, first = started(0, 1)
    task.handle(WriteUnknown())
    assert task.handle(HighWaterRead(EMPTY)) == first


def test_a_refusal_without_a_change_is_an_alarm() -> None:
    task, _ = started(0)
    task.handle(Mismatched())
    with pytest.raises(MarkConflict, match="two graphs may share one name"):
        task.handle(HighWaterRead(EMPTY))


def test_the_marks_of_a_later_owner_fence_the_task_of_an_earlier_one() -> None:
    snapshot = Snapshot(UID, 1, (span(end=10),))
    task = SinkTask(snapshot, 0, rows(0), SourceOffsets(), epoch=3)
    task.start()
    with pytest.raises(Fenced, match="owner 3 was fenced by owner 4"):
        task.handle(HighWaterRead(EMPTY.owned_by(4)))


def test_a_target_that_is_only_fenced_survives_registers() -> None:
    fenced = EMPTY.owned_by(4)
    assert unpack_marks(UID, 0, pack_marks(fenced)) == fenced
    assert pack_marks(EMPTY) == {}


def test_a_fenced_writer_ends_as_fenced() -> None:
    task, _ = started(0)
    with pytest.raises(Fenced, match="owner 3 was fenced by owner 4"):
        task.handle(WriterFenced(3, 4))


def test_a_row_without_a_position_is_refused() -> None:
    with pytest.raises(InvalidOffsets, match="no position"):
        SinkTask(Snapshot(UID, 1, (span(),)), 0, [SinkRow((), 1)], SourceOffsets())


def test_what_cannot_happen_raises_with_both_names() -> None:
    task, _ = started(0)
    with pytest.raises(ImpossibleEvent, match="Acted while WRITING"):
        task.handle(Acted())


def test_two_tasks_that_share_a_target_are_refused() -> None:
    check_sole_owners([(0, 0), (0, 1), (1, 2)])
    with pytest.raises(TargetShared, match="tasks 0, 1"):
        check_sole_owners([(0, 2), (1, 2)])
