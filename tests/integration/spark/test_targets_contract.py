"""What every target promises: each row once, whoever else writes, and whatever is not known."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from tests.integration.spark.target_stages import (
    ROUTING,
    JournalStage,
    KafkaStage,
    PostgresStage,
    Stage,
    nil,
    row,
    texts,
)
from windrow.embedded.broker import Broker
from windrow.graph.delivery_errors import Fenced, RoutingChanged
from windrow.graph.delivery_steps import DeliveredMismatched, DeliveredMoved
from windrow.graph.high_water import Delivered, HighWaters, Mark
from windrow.graph.positions import SourceOffsets, SourcePartition
from windrow.graph.routing import RoutingPin
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import (
    Mismatched,
    SinkTask,
    TaskDone,
    WriterFenced,
    WriteUnknown,
    Written,
)
from windrow.graph.snapshot import ProcessorUid, Snapshot
from windrow.spark.queues.clients import close_clients
from windrow.spark.stores import QueueTarget
from windrow.spark.targets.perform import run_sink_task

ORDERS = SourcePartition("orders", "first", 0)


@pytest.fixture(scope="module")
def journals() -> Iterator[Broker]:
    with Broker.start() as broker:
        yield broker
        close_clients()


@pytest.fixture(params=["journal", "kafka", "postgres"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    made: Stage
    match request.param:
        case "journal":
            made = JournalStage(request.getfixturevalue("journals").address)
        case "kafka":
            made = KafkaStage(request.getfixturevalue("kafka"))
        case _:
            made = PostgresStage(request.getfixturevalue("database"))
    yield made
    made.close()


@pytest.fixture
def target(stage: Stage) -> Iterator[QueueTarget]:
    with stage.opened() as target:
        yield target


class Forgetful:
    """A target whose answers are lost, after the deed or before it."""

    def __init__(self, target: QueueTarget, *, acts: bool) -> None:
        self._target, self._acts = target, acts
        self.lost = 0

    def read_high_water(self, uid: ProcessorUid, target: int) -> HighWaters:
        return self._target.read_high_water(uid, target)

    def write(
        self, rows: Sequence[SinkRow], expected: HighWaters, marks: HighWaters
    ) -> Written | Mismatched | WriteUnknown | WriterFenced:
        self.lost += 1
        if self.lost > 1:
            return self._target.write(rows, expected, marks)
        if self._acts:
            assert self._target.write(rows, expected, marks) == Written()
        return WriteUnknown()

    def __getattr__(self, name: str) -> object:
        return getattr(self._target, name)


def test_rows_are_written_in_the_order_of_their_positions(
    stage: Stage, target: QueueTarget
) -> None:
    assert target.targets() == 2
    assert stage.run(target, [row(2), row(0), row(1)]) == TaskDone(0, 3, 0)
    assert stage.contents(0) == texts([0, 1, 2])
    assert target.read_high_water(stage.uid, 0).mark(ORDERS) == Mark(2, 1)


def test_replay_is_dropped_by_this_target_and_by_another_process_of_it(
    stage: Stage, target: QueueTarget
) -> None:
    rows = [row(index) for index in range(5)]
    stage.run(target, rows)
    assert stage.run(target, rows) == TaskDone(0, 0, 5)
    with stage.opened() as other:
        assert stage.run(other, [*rows, row(5)]) == TaskDone(0, 1, 5)
    assert stage.run(target, [row(index) for index in range(7)]) == TaskDone(0, 1, 6)
    assert stage.contents(0) == texts(range(7))


def test_marks_that_others_moved_are_read_anew(stage: Stage, target: QueueTarget) -> None:
    """A driver that reads the marks at each start must not go by those of the last one."""
    with stage.opened() as driver:
        for epoch in (1, 2):
            before = driver.read_high_water(stage.uid, 0)
            stage.run(target, [row(epoch)], epoch=epoch)
            after = driver.read_high_water(stage.uid, 0)
            assert after.mark(ORDERS) == Mark(epoch, 1) > before.mark(ORDERS)
            driver.fence(stage.uid, epoch + 1)
    assert stage.contents(0) == texts([1, 2])


def test_marks_of_one_target_do_not_hide_rows_of_another(stage: Stage, target: QueueTarget) -> None:
    """Rows 1 and 3 go to one target, 2 to the other: a mark they shared would drop 2 (G1)."""
    stage.run(target, [row(1), row(3)], 0)
    stage.run(target, [row(2, 1)], 1)
    assert stage.contents(0) == texts([1, 3])
    assert stage.contents(1) == texts([2])


def test_write_that_expects_other_marks_changes_nothing(stage: Stage, target: QueueTarget) -> None:
    """The write is a compare-and-set on the high-water that was read (G3)."""
    blank = target.read_high_water(stage.uid, 0)
    assert blank.is_blank
    stage.run(target, [row(0)])
    held = target.read_high_water(stage.uid, 0)
    ahead = held.over([row(5).positions], ROUTING)
    for expected in (blank, ahead, replace(held, routing=RoutingPin(3))):
        assert target.write([row(1)], expected, ahead) == Mismatched()
    with stage.opened() as other:
        assert other.write([row(1)], blank, ahead) == Mismatched()
        assert other.read_high_water(stage.uid, 0) == held
    assert stage.contents(0) == texts([0])
    assert stage.run(target, [row(1)]) == TaskDone(0, 1, 0)


@pytest.mark.parametrize("acts", [True, False], ids=["written", "not written"])
def test_write_of_unknown_outcome_is_read_back_and_ends_once(
    stage: Stage, target: QueueTarget, acts: bool
) -> None:
    forgetful = Forgetful(target, acts=acts)
    stage.run(forgetful, [row(index) for index in range(4)])  # type: ignore[arg-type]
    assert forgetful.lost == (1 if acts else 2)
    assert stage.contents(0) == texts(range(4))


def test_two_zombies_that_race_write_each_row_once(stage: Stage) -> None:
    """Two tasks with the same rows, as a speculative copy or a driver that is believed dead."""
    rows = [row(index) for index in range(120)]
    start = threading.Barrier(2)
    failures: list[Exception] = []

    def zombie() -> None:
        with stage.opened() as target:
            start.wait()
            for end in range(20, 121, 20):
                try:
                    stage.run(target, rows[:end], rows_per_write=5)
                except Fenced as error:  # as good as a task that is killed: it is tried again
                    failures.append(error)

    threads = [threading.Thread(target=zombie) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(failures) < 4
    with stage.opened() as target:
        stage.run(target, rows)
    assert stage.contents(0) == texts(range(120))


def test_two_processors_share_a_target_and_do_not_see_each_others_marks(
    stage: Stage, target: QueueTarget
) -> None:
    other = ProcessorUid("shop", "discount")
    with stage.opened() as second:
        for index in range(3):
            stage.run(target, [row(index)])
            task = SinkTask(
                Snapshot(other, 1, (), ROUTING), 0, [row(index, partition=1)], SourceOffsets()
            )
            run_sink_task(task, other, second)
    assert stage.contents(0) == ["0.0", "1.0", "0.1", "1.1", "0.2", "1.2"]
    assert set(target.read_high_water(stage.uid, 0).marks) == {ORDERS}


def test_fence_shuts_out_the_earlier_epoch(stage: Stage, target: QueueTarget) -> None:
    with stage.opened() as successor:
        stage.run(target, [row(0)], epoch=1)
        held = target.read_high_water(stage.uid, 0)
        waters = successor.fence(stage.uid, 2)
        assert [each.epoch for each in waters] == [2, 2]
        assert waters[0].mark(ORDERS) == Mark(0, 1)
        late = held.over([row(1).positions], ROUTING)
        assert target.write([row(1)], held, late) == WriterFenced(1, 2)
        with pytest.raises(Fenced):
            stage.run(target, [row(1)], epoch=1)
        with pytest.raises(Fenced):
            stage.run(target, [row(1, 1)], 1, epoch=1)
        assert stage.run(successor, [row(1)], epoch=2) == TaskDone(0, 1, 0)
        assert successor.fence(stage.uid, 2)[0].epoch == 2
    assert stage.contents(0) == texts([0, 1])
    assert stage.contents(1) == []


def test_fence_of_an_empty_target_leaves_it_free_for_any_routing(
    stage: Stage, target: QueueTarget
) -> None:
    assert [each.routing for each in target.fence(stage.uid, 3)] == [None, None]
    assert stage.run(target, [row(0)], epoch=3) == TaskDone(0, 1, 0)
    assert target.read_high_water(stage.uid, 0).routing == ROUTING


def test_rows_routed_otherwise_are_refused(stage: Stage, target: QueueTarget) -> None:
    stage.run(target, [row(0)])
    other = Snapshot(stage.uid, 2, (), RoutingPin(3))
    with pytest.raises(RoutingChanged):
        run_sink_task(SinkTask(other, 0, [row(1)], SourceOffsets()), stage.uid, target)


def test_delivered_record_moves_by_compare_and_set(stage: Stage, target: QueueTarget) -> None:
    first = Delivered(stage.uid, 1, "aa" * 32, SourceOffsets(((ORDERS, 3),)), 1)
    second = Delivered(stage.uid, 2, "bb" * 32, SourceOffsets(((ORDERS, 7),)), 1)
    assert target.read_delivered(stage.uid) is None
    target.fence(stage.uid, 1)
    with stage.opened() as other:
        assert other.commit_delivered(None, first) == DeliveredMoved()
    assert target.commit_delivered(first, second) == DeliveredMoved()
    assert target.commit_delivered(second, first) == DeliveredMoved()
    assert target.read_delivered(stage.uid) == first
    with stage.opened() as other:
        assert other.commit_delivered(None, second) == DeliveredMismatched(first)
        assert other.commit_delivered(first, second) == DeliveredMoved()
        assert other.commit_delivered(first, second) == DeliveredMoved()
    assert target.commit_delivered(first, second) == DeliveredMoved()
    assert target.commit_delivered(first, replace(second, number=3)) == DeliveredMismatched(second)
    third = replace(second, number=3)
    with stage.opened() as other:
        assert other.commit_delivered(second, third) == DeliveredMoved()
    assert target.commit_delivered(second, first) == DeliveredMismatched(third)
    assert target.commit_delivered(third, second) == DeliveredMoved()
    assert target.read_delivered(stage.uid) == second
    assert target.read_delivered(ProcessorUid("shop", "other")) is None


def test_rows_without_output_move_the_marks(stage: Stage, target: QueueTarget) -> None:
    assert stage.run(target, [nil(0), nil(1)]) == TaskDone(0, 0, 2)
    assert target.read_high_water(stage.uid, 0).mark(ORDERS) == Mark(1, 1)
    assert stage.run(target, [row(0), row(1), row(2)]) == TaskDone(0, 1, 2)
    assert stage.contents(0) == texts([2])


def test_many_marks_are_kept(stage: Stage, target: QueueTarget) -> None:
    """More than fit into one register, from many partitions."""
    rows = [row(7, partition=partition) for partition in range(400)]
    stage.run(target, rows)
    with stage.opened() as other:
        waters = other.read_high_water(stage.uid, 0)
        assert len(waters.marks) == 400
        assert stage.run(other, rows) == TaskDone(0, 0, 400)
        stage.run(other, [row(8, partition=399)])
    assert target.read_high_water(stage.uid, 0).covers(row(7, partition=399).positions)
    assert len(stage.contents(0)) == 401


def test_rows_made_from_one_input_are_told_apart(stage: Stage, target: QueueTarget) -> None:
    stage.run(target, [row(0), row(0, ordinal=1), row(0, ordinal=2)], rows_per_write=2)
    assert stage.run(target, [row(0, ordinal=n) for n in range(4)]) == TaskDone(0, 1, 3)
    assert stage.contents(0) == ["0.0", "0.0.1", "0.0.2", "0.0.3"]


def test_large_batch_is_cut_into_writes_and_a_replay_goes_on_between_them(
    stage: Stage, target: QueueTarget
) -> None:
    rows = [row(index) for index in range(2_000)]
    stage.run(target, rows[:700], rows_per_write=300)
    assert stage.run(target, rows, rows_per_write=300) == TaskDone(0, 1_300, 700)
    assert stage.contents(0) == texts(range(2_000))
