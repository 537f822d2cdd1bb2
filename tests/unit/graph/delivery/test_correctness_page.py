"""The interleavings that break naive versions of a sink, each beside the naive version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.unit.graph.delivery.graphs import faults_in
from tests.unit.graph.delivery.scenes import UID, at, end_at, offsets, scene, span
from tests.unit.graph.delivery.world import World, values_in
from windrow.graph.backing import BackingState, SnapshotTaken
from windrow.graph.delivery import DeliveryMachine
from windrow.graph.delivery_steps import DeliveryCommand, RunBatch
from windrow.graph.high_water import NOTHING, Delivered, HighWaters, Mark, transactional_id
from windrow.graph.planning import Limits
from windrow.graph.policies import Strategy
from windrow.graph.positions import Position, SourceOffsets, SourcePartition
from windrow.graph.recovery import Checkpoint, Recovered, Situation, recover
from windrow.graph.routing import SINGLE_TARGET, RoutingPin
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import (
    Act,
    Acted,
    HighWaterRead,
    Mismatched,
    SinkEvent,
    SinkTask,
    TaskDone,
    WriteRows,
    Written,
)
from windrow.graph.snapshot import DeliveryHasher, Snapshot, delivery_hash
from windrow.graph.staging import Destination, Failure, Outputs, Staged, oversized, trim_below


class Target:
    """Target partitions in memory, whose writes check the marks, or do not."""

    def __init__(self, *, is_naive: bool = False) -> None:
        self.waters: dict[int, HighWaters] = {}
        self.rows: list[object] = []
        self.is_naive = is_naive

    def read(self, target: int) -> HighWaters:
        return self.waters.get(target, HighWaters(UID, target))

    def write(self, step: WriteRows) -> SinkEvent:
        if not self.is_naive and self.read(step.marks.target) != step.expected:
            return Mismatched()
        self.waters[step.marks.target] = step.marks
        self.rows += [row.value for row in step.rows]
        return Written()


def snapshot(end: int, strategy: Strategy = "exactly-once", targets: int = 2) -> Snapshot:
    return Snapshot(UID, 1, (span(end=end),), RoutingPin(targets), strategy=strategy)


def row(index: int, ordinal: int = 0) -> SinkRow:
    return SinkRow((at("s1", index, ordinal),), f"{index}.{ordinal}")


def run(target: Target, task: SinkTask) -> TaskDone:
    step = task.start()
    while not isinstance(step, TaskDone):
        match step:
            case WriteRows():
                step = task.handle(target.write(step))
            case Act():
                target.rows += [row.value for row in step.rows]
                step = task.handle(Acted())
            case _:
                step = task.handle(HighWaterRead(target.read(step.target)))
    return step


# -- G1 ------------------------------------------------------------------------------------------


def _g1(read: Callable[[Target, int], HighWaters]) -> list[str]:
    """Rows 101 and 103 go to one target, 102 to the other, which comes second."""
    sink, shot = Target(), snapshot(104)
    for number, indices in ((0, (101, 103)), (1, (102,))):
        task = SinkTask(shot, number, map(row, indices), SourceOffsets())
        task.start()
        step = task.handle(HighWaterRead(read(sink, number)))
        if isinstance(step, WriteRows):
            sink.waters[number] = step.marks
            sink.rows += [row.value for row in step.rows]
    return sorted(map(str, sink.rows))


def test_g1_the_mark_is_kept_for_each_target_partition() -> None:
    assert _g1(Target.read) == ["101.0", "102.0", "103.0"]


def test_g1_a_mark_shared_by_the_targets_loses_a_row_without_any_fault() -> None:
    def shared(sink: Target, number: int) -> HighWaters:
        held = [waters for waters in sink.waters.values() if waters.marks]
        return replace(held[0], target=number) if held else HighWaters(UID, number)

    assert _g1(shared) == ["101.0", "103.0"]


# -- G2 ------------------------------------------------------------------------------------------


def _g2() -> World:
    """Some targets written, a crash, and another number of targets configured."""
    world = scene(targets=3, messages=20, seed=2)
    world.limits = Limits(max_rows=20)
    end_at(world, "write:after", nth=2)
    world.routing[UID] = RoutingPin(2)
    return world


def test_g2_an_attempt_in_doubt_is_finished_with_the_routing_it_began_with() -> None:
    world = _g2()
    world.settle()
    assert faults_in(world) == []


def test_g2_routing_by_configuration_loses_or_doubles_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = DeliveryMachine._run

    def by_configuration(machine: DeliveryMachine) -> DeliveryCommand:
        command = pinned(machine)
        assert isinstance(command, RunBatch)
        routed = replace(command.snapshot, routing=machine._settings.routing)
        return replace(command, snapshot=routed)

    monkeypatch.setattr(DeliveryMachine, "_run", by_configuration)
    monkeypatch.setattr(HighWaters, "check_routing", lambda *_: None)
    world = _g2()
    world.settle()
    assert faults_in(world) != []


def test_g2_a_target_that_holds_rows_routed_otherwise_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second line of defence, should a snapshot ever be lost with its routing."""
    monkeypatch.setattr("windrow.graph.recovery._routed_beyond", lambda *_: None)
    world = _g2()
    world.journals[UID].lines.clear()
    with pytest.raises(Exception, match="routed by murmur2-1 over 3"):
        world.settle()


# -- G3 ------------------------------------------------------------------------------------------


def _g3(sink: Target) -> list[object]:
    """Two copies of a task read the mark before either of them writes."""
    shot = snapshot(3)
    tasks = [SinkTask(shot, 0, map(row, range(3)), SourceOffsets()) for _ in range(2)]
    steps = []
    for task in tasks:
        task.start()
        steps.append(task.handle(HighWaterRead(sink.read(0))))
    for task, step in zip(tasks, steps, strict=True):
        while isinstance(step, WriteRows):
            step = task.handle(sink.write(step))
            if not isinstance(step, TaskDone):
                step = task.handle(HighWaterRead(sink.read(0)))
    return sink.rows


def test_g3_the_second_writer_finds_the_mark_moved_and_drops() -> None:
    assert _g3(Target()) == ["0.0", "1.0", "2.0"]


def test_g3_without_compare_and_set_the_rows_are_doubled() -> None:
    assert _g3(Target(is_naive=True)) == ["0.0", "1.0", "2.0"] * 2


# -- G4 ------------------------------------------------------------------------------------------


def _g4_outputs() -> list[object]:
    """An input has three outputs, and the writer dies between them."""
    sink, shot = Target(), snapshot(2, targets=1)
    rows = [row(0), row(0, 1), row(0, 2), row(1)]
    first = SinkTask(shot, 0, rows, SourceOffsets(), rows_per_write=2)
    first.start()
    step = first.handle(HighWaterRead(sink.read(0)))
    assert isinstance(step, WriteRows)
    sink.write(step)
    run(sink, SinkTask(shot, 0, rows, SourceOffsets(), rows_per_write=2))
    return sink.rows


def test_g4_outputs_of_one_input_are_told_apart_by_their_ordinal() -> None:
    assert _g4_outputs() == ["0.0", "0.1", "0.2", "1.0"]


def test_g4_a_mark_of_the_index_alone_loses_the_rest_of_an_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def by_index(waters: HighWaters, origin: SourcePartition) -> Mark:
        mark = waters.marks.get(origin, NOTHING)
        return Mark(mark.index + (mark.ordinal > 0))

    monkeypatch.setattr(HighWaters, "mark", by_index)
    assert _g4_outputs() == ["0.0", "0.1", "1.0"]


JOINED = at("s1", 2), at("s2", 7)
HELD = HighWaters(UID, 0, {JOINED[0].origin: Mark(5), JOINED[1].origin: Mark(3)})


def test_g4_a_joined_row_is_dropped_only_if_all_its_coordinates_are_held() -> None:
    assert not HELD.covers(JOINED)
    assert HELD.covers((at("s1", 2), at("s2", 2)))


def test_g4_dropping_by_any_coordinate_loses_a_new_pair() -> None:
    assert any(HELD.covers([one]) for one in JOINED)


def test_g4_the_marks_of_a_join_move_to_the_end_of_the_snapshot_in_one_write() -> None:
    shot = Snapshot(UID, 1, (span("s1", 0, 9), span("s2", 0, 9)))
    task = SinkTask(shot, 0, [SinkRow(JOINED, "a")], SourceOffsets(), rows_per_write=1)
    task.start()
    step = task.handle(HighWaterRead(HighWaters(UID, 0)))
    assert isinstance(step, WriteRows)
    assert set(step.marks.marks.values()) == {Mark(9)}


def test_g4_what_no_input_caused_is_placed_by_its_snapshot() -> None:
    window = [Position.of_snapshot("backing-1", 4, nth) for nth in range(3)]
    waters = HighWaters(UID, 0).over([window[:2]], SINGLE_TARGET)
    assert [waters.covers([one]) for one in window] == [True, True, False]


# -- G5 ------------------------------------------------------------------------------------------


def _g5(index_of: Callable[[int, int], int]) -> list[int]:
    """Row 2 of an outbox commits after row 3 was delivered; (row id, place in the marking)."""
    waters, delivered = HighWaters(UID, 0), []
    for place, row_id in enumerate((1, 3, 2)):
        position = (at("outbox", index_of(row_id, place)),)
        if not waters.covers(position):
            delivered.append(row_id)
            waters = waters.over([position], SINGLE_TARGET)
    return delivered


def test_g5_an_outbox_row_is_placed_by_the_order_in_which_it_was_marked() -> None:
    assert _g5(lambda _, place: place) == [1, 3, 2]


def test_g5_placing_it_by_its_id_loses_a_late_commit() -> None:
    assert _g5(lambda row_id, _: row_id) == [1, 3]


# -- G6 ------------------------------------------------------------------------------------------


def _g6(names: Callable[[int, int], str]) -> bool:
    """Target 7 is written by task 0 on the first attempt and by task 1 on the second."""
    return names(0, 7) == names(1, 7)


def test_g6_a_writer_is_named_by_its_target_so_that_the_next_one_fences_it() -> None:
    assert _g6(lambda _, target: transactional_id(UID, target))
    assert transactional_id(UID, 1) != transactional_id(UID, 2)


def test_g6_named_by_its_task_it_is_not_fenced() -> None:
    assert not _g6(lambda task, _: f"{UID}-{task}")


# -- G7 ------------------------------------------------------------------------------------------


def test_g7_a_sink_that_was_set_back_is_believed() -> None:
    world = scene(messages=15)
    end_at(world, "deliver:after", nth=2)
    backup = world.queues["out"].state()
    world.settle()
    world.queues["out"].restore(backup)
    world.settle()
    assert faults_in(world) == []


def test_g7_believing_the_backing_journal_instead_loses_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def by_journal(
        backing: BackingState, sink: Delivered | None, situation: Situation
    ) -> Recovered:
        assert backing.taken is not None
        return Recovered(backing.taken.snapshot.ends, backing.number + 1, sink)

    world = scene(messages=15)
    end_at(world, "deliver:after", nth=2)
    backup = world.queues["out"].state()
    world.settle()
    world.queues["out"].restore(backup)
    monkeypatch.setattr("windrow.graph.recovery._after_setback", by_journal)
    world.settle()
    assert faults_in(world) != []


def test_g7_a_known_start_has_the_end_it_had() -> None:
    taken = SnapshotTaken(Snapshot(UID, 1, (span(end=5),)))
    state = BackingState().after(taken)
    assert state.recorded_end(offsets(s1=0)) == offsets(s1=5)
    assert state.recorded_end(offsets(s1=3)) is None


def test_g7_a_checkpoint_is_kept_only_if_it_agrees() -> None:
    delivered = Delivered(UID, 1, "hash", offsets(s1=5))
    taken = SnapshotTaken(Snapshot(UID, 2, (span(start=5, end=9),)), "hash")
    situation = Situation(UID, frozenset({"s1"}))
    for start, end, is_kept in ((5, 9, True), (5, 8, False), (4, 9, False), (9, None, False)):
        planned = None if end is None else offsets(s1=end)
        found = replace(situation, checkpoint=Checkpoint(offsets(s1=start), planned))
        recovered = recover(BackingState().after(taken), delivered, found)
        assert recovered.keep_checkpoint is is_kept, (start, end)


# -- G8 ------------------------------------------------------------------------------------------


def test_g8_at_most_once_the_task_claims_before_it_acts() -> None:
    sink, shot = Target(), snapshot(3, "at-most-once")
    first = SinkTask(shot, 0, map(row, range(3)), SourceOffsets())
    first.start()
    claim = first.handle(HighWaterRead(sink.read(0)))
    assert isinstance(claim, WriteRows)
    assert claim.rows == ()
    assert isinstance(first.handle(sink.write(claim)), Act), "it dies while it acts"
    run(sink, SinkTask(shot, 0, map(row, range(3)), SourceOffsets()))
    assert sink.rows == [], "the second attempt of the task does nothing"


def test_g8_a_claim_on_the_driver_does_not_see_attempts_of_tasks() -> None:
    """The driver claims once; the task that died half way runs again and acts again."""
    claims, effects = {"batch"}, []
    for _attempt in range(2):
        if "batch" in claims:
            effects += ["0.0", "1.0"]
    assert effects == ["0.0", "1.0"] * 2


def test_g8_two_tasks_in_one_source_partition_would_skip_each_other() -> None:
    """Which is why at most once has one task for each source partition."""
    sink, shot = Target(), snapshot(4, "at-most-once")
    run(sink, SinkTask(shot, 0, map(row, (2, 3)), SourceOffsets()))
    run(sink, SinkTask(shot, 0, map(row, (0, 1)), SourceOffsets()))
    assert sink.rows == ["2.0", "3.0"]


# -- G9 ------------------------------------------------------------------------------------------


def _large(values: Sequence[str]) -> Outputs:
    return Outputs({"out": [value * 4 for value in values]})


def test_g9_what_a_destination_would_refuse_is_found_before_staging() -> None:
    staged = Staged((at("s1", 0),), _large(["large"]))
    assert oversized(staged, {"out": 10}, {"out": [20]}) == ("out", 20, 10)
    assert oversized(staged, {"out": 20}, {"out": [20]}) is None
    refused = replace(staged, result=Failure("too large"))
    assert refused.part_for(Destination("errors", "error")) == ("too large",)
    assert refused.part_for(Destination("out")) == ()


def test_g9_found_only_while_fanning_out_it_holds_up_the_destination_for_ever() -> None:
    world = scene(outputs=("out", "side"))
    world.run_until_idle(world.legs[0])
    for _ in range(5):
        end_at(world, "write:before", leg=world.legs[1])
    assert values_in(world.queues["out"]).total() == 0


def test_g9_staging_is_kept_for_the_slowest_reader() -> None:
    assert trim_below([offsets(stage=9), offsets(stage=4)], "stage") == offsets(stage=4)
    assert trim_below([offsets(stage=9), offsets()], "stage") == offsets()


def test_g9_each_row_of_a_batch_has_a_hash_of_its_own() -> None:
    hasher = DeliveryHasher(UID)
    hashes = [hasher.hash((at("s1", index),)) for index in range(3)]
    assert len(set(hashes)) == 3
    assert hashes[1] == delivery_hash(UID, [at("s1", 1)])
