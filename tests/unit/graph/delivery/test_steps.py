"""Each numbered step of the algorithm, under its number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.graph.delivery.graphs import faults_in
from tests.unit.graph.delivery.scenes import (
    UID,
    end_at,
    offsets,
    records,
    scene,
    settings,
    snapshots,
    span,
)
from windrow.graph.backing import Attempt, BackingState, Owned, SnapshotTaken, fold
from windrow.graph.delivery import DeliveryMachine, DeliveryState
from windrow.graph.delivery_errors import BatchInterrupted, DeliveryUnknown
from windrow.graph.delivery_steps import (
    AppendBacking,
    BackingAppended,
    BatchFailed,
    BatchRan,
    CommitDelivered,
    DeliveredMoved,
    DeliveryCommand,
    Interrupt,
    PlanBatch,
    Planned,
    RunBatch,
    Unknown,
)
from windrow.graph.high_water import Delivered
from windrow.graph.positions import Span
from windrow.graph.recovery import Recovered, Situation, recover
from windrow.graph.snapshot import Snapshot, batch_hash
from windrow.graph.staging import Destination

TAKEN = SnapshotTaken(Snapshot(UID, 1, (span(end=5),)))
HASH = TAKEN.snapshot.delivery_hash
SITUATION = Situation(UID, frozenset({"s1"}))
FRESH = Recovered(offsets(), 1)


def attempt(kind: str = "attempt-output", number: int = 1, digest: str = HASH) -> Attempt:
    return Attempt(kind, number, digest, "out")  # type: ignore[arg-type]


def delivered(number: int = 1, digest: str = HASH, end: int = 5) -> Delivered:
    return Delivered(UID, number, digest, offsets(s1=end))


def started(*spans: Span) -> tuple[DeliveryMachine, DeliveryCommand]:
    machine = DeliveryMachine(settings(), FRESH, 1)
    assert isinstance(machine.start(), PlanBatch)
    return machine, machine.handle(Planned(spans or (span(),), 7.0))


def run(machine: DeliveryMachine, rows: int) -> AppendBacking:
    machine.handle(BackingAppended())
    command = machine.handle(BatchRan(rows))
    assert isinstance(command, AppendBacking)
    return command


# -- the persistence component -------------------------------------------------------------------


def test_step_1_collects_the_ranges_of_all_inputs_and_the_processor_into_a_snapshot() -> None:
    _, command = started(span("s1", 0, 4), span("s2", 2, 2))
    assert isinstance(command, AppendBacking)
    assert isinstance(command.record, SnapshotTaken)
    snapshot = command.record.snapshot
    assert snapshot.uid == UID
    assert snapshot.spans == (span("s1", 0, 4), span("s2", 2, 2))
    assert snapshot.batch_time == 7.0


def test_step_2_writes_the_snapshot_only_on_the_first_attempt() -> None:
    world = scene()
    end_at(world, "snapshot:after")
    world.settle()
    first = snapshots(world)[0]
    assert snapshots(world).count(first) == 1
    assert [s.number for s in snapshots(world)] == list(range(1, len(snapshots(world)) + 1))


def test_step_3_the_delivery_hash_is_the_same_for_each_attempt() -> None:
    machine, _ = started()
    command = machine.handle(BackingAppended())
    again = DeliveryMachine(settings(), replace(FRESH, in_doubt=TAKEN, attempts=1), 2)
    again.start()
    retry = again.handle(BackingAppended())
    assert isinstance(command, RunBatch)
    assert isinstance(retry, RunBatch)
    assert command.delivery_hash == retry.delivery_hash == batch_hash(UID, [span()])
    assert (command.attempt, retry.attempt) == (1, 2)


def test_step_4_reads_exactly_the_ranges_of_the_snapshot_on_a_retry() -> None:
    world = scene(messages=3)
    end_at(world, "snapshot:after")
    taken = snapshots(world)[0]
    queue = world.queues["s1"]
    queue.partitions[0] += queue.partitions[0][:2]
    command = end_at(world, "read:before")
    assert command.leg is world.legs[0]
    assert snapshots(world) == [taken]


def test_step_4a_the_choice_of_an_alts_processor_is_pinned_by_the_ranges() -> None:
    """The first attempt finds only s2; by the retry s1, which comes first by name, has some."""
    world = scene(inputs=("s1", "s2"))
    late = world.queues["s1"].partitions[0]
    waiting = late[:]
    late.clear()
    end_at(world, "snapshot:after")
    late.extend(waiting)
    world.settle()
    assert snapshots(world)[0].inputs == {"s2"}
    assert faults_in(world) == []


def test_step_5a_output_leads_to_an_attempt_output() -> None:
    machine, _ = started()
    command = run(machine, rows=3)
    assert command.step == "7d"
    assert isinstance(command.record, Attempt)
    assert command.record.kind == "attempt-output"


def test_step_5b_no_output_leads_to_an_attempt_nil() -> None:
    machine, _ = started()
    command = run(machine, rows=0)
    assert command.step == "8c"


def test_step_6a_a_handled_error_goes_to_the_error_queue() -> None:
    machine = DeliveryMachine(settings(destination=Destination("bad", "error")), FRESH, 1)
    machine.start()
    machine.handle(Planned((span(),), 0.0))
    command = run(machine, rows=1)
    assert isinstance(command.record, Attempt)
    assert command.record.kind == "attempt-error"
    assert command.record.destination == "bad"


def test_step_6b_a_handled_error_without_an_error_queue_leads_to_an_attempt_nil() -> None:
    """Every row of the batch failed and was dropped: they arrive as rows without a value."""
    machine, _ = started()
    command = run(machine, rows=0)
    assert isinstance(command.record, Attempt)
    assert command.record.kind == "attempt-nil"


def test_step_7a_the_high_water_is_written_with_the_rows() -> None:
    world = scene(messages=4, targets=1)
    end_at(world, "write:after", nth=1)
    leg = world.legs[0]
    assert world.waters(leg, 0).marks
    assert sum(map(len, world.queues["out"].partitions)) > 0


def test_step_7b_the_attempt_has_the_kind_of_its_destination() -> None:
    for role, kind in (("output", "attempt-output"), ("error", "attempt-error")):
        machine = DeliveryMachine(settings(destination=Destination("x", role)), FRESH, 1)  # type: ignore[arg-type]
        machine.start()
        machine.handle(Planned((span(),), 0.0))
        record = run(machine, rows=1).record
        assert isinstance(record, Attempt)
        assert record.kind == kind


def test_step_7c_the_attempt_says_where_the_proof_is_found() -> None:
    machine, _ = started()
    record = run(machine, rows=1).record
    assert record == Attempt("attempt-output", 1, batch_hash(UID, [span()]), "out", 1)


def test_step_7d_the_attempt_is_written_before_the_delivery_is_completed() -> None:
    world = scene()
    end_at(world, "attempt:after")
    assert isinstance(records(world)[-1], Attempt)
    assert world.delivered(world.legs[0]) is None


def test_step_7e_completing_the_delivery_moves_the_record_of_the_sink() -> None:
    machine, _ = started()
    run(machine, rows=1)
    command = machine.handle(BackingAppended())
    assert isinstance(command, CommitDelivered)
    assert command.expected is None
    assert command.delivered.delivery_hash == batch_hash(UID, [span()])
    assert command.delivered.ends == offsets(s1=5)


def test_step_8a_and_8b_an_attempt_nil_carries_the_delivery_hash() -> None:
    machine, _ = started()
    record = run(machine, rows=0).record
    assert record == Attempt("attempt-nil", 1, batch_hash(UID, [span()]), "out", 0)


def test_step_8c_the_messages_are_delivered_once_the_attempt_nil_is_written() -> None:
    state = fold([Owned("me", 1), TAKEN, attempt("attempt-nil")])
    recovered = recover(state, None, SITUATION)
    assert recovered.in_doubt is None
    assert recovered.start == offsets(s1=5)


def test_step_9_goes_on_with_the_next_messages() -> None:
    machine, _ = started()
    run(machine, rows=1)
    machine.handle(BackingAppended())
    command = machine.handle(DeliveredMoved())
    assert command == PlanBatch(offsets(s1=5))


def test_step_9_an_unhandled_error_interrupts_at_once() -> None:
    machine, _ = started()
    machine.handle(BackingAppended())
    command = machine.handle(BatchFailed("out of memory"))
    assert isinstance(command, Interrupt)
    assert isinstance(command.error, BatchInterrupted)
    assert "out of memory" in str(command.error)
    assert machine.state is DeliveryState.INTERRUPTED


@pytest.mark.parametrize("steps", [0, 2, 3], ids=["snapshot", "attempt", "delivery"])
def test_step_9_an_unknown_outcome_interrupts_and_leaves_it_to_recovery(steps: int) -> None:
    machine, _ = started()
    for event in (BackingAppended(), BatchRan(1), BackingAppended())[:steps]:
        machine.handle(event)
    command = machine.handle(Unknown("no answer"))
    assert isinstance(command, Interrupt)
    assert isinstance(command.error, DeliveryUnknown)
    assert command.may_restart


# -- the recovery component ----------------------------------------------------------------------


def test_recovery_1a_without_a_record_goes_on_from_the_beginning() -> None:
    recovered = recover(BackingState(), None, SITUATION)
    assert recovered.steps == ("1a", "4")
    assert (recovered.start, recovered.number) == (offsets(), 1)


def test_recovery_1b_a_snapshot_means_that_the_attempt_failed() -> None:
    recovered = recover(fold([TAKEN]), None, SITUATION)
    assert recovered.steps == ("1b", "4")
    assert recovered.in_doubt == TAKEN


def test_recovery_1c_the_choice_of_an_alts_processor_is_found_in_the_snapshot() -> None:
    taken = SnapshotTaken(Snapshot(UID, 1, (span("s1", 0, 0), span("s2", 0, 1))))
    situation = replace(SITUATION, inputs=frozenset({"s1", "s2"}))
    recovered = recover(fold([taken]), None, situation)
    assert recovered.in_doubt is not None
    assert recovered.in_doubt.snapshot.inputs == {"s2"}


def test_recovery_1d_the_hash_of_an_attempt_output_is_read_back_from_the_sink() -> None:
    state = fold([TAKEN, attempt()])
    assert recover(state, delivered(), SITUATION).steps == ("1d", "2", "3a", "4")
    assert recover(state, None, SITUATION).steps == ("1d", "2", "3b", "4")


def test_recovery_1e_the_hash_of_an_attempt_error_is_read_back_from_the_sink() -> None:
    state = fold([TAKEN, attempt("attempt-error")])
    assert recover(state, delivered(), SITUATION).steps == ("1e", "2", "3a", "4")
    assert recover(state, None, SITUATION).steps == ("1e", "2", "3b", "4")


def test_recovery_1f_the_hash_of_an_attempt_nil_is_in_the_attempt() -> None:
    state = fold([TAKEN, attempt("attempt-nil")])
    recovered = recover(state, None, SITUATION)
    assert recovered.steps == ("1f", "2", "3a", "4")
    assert recovered.late == delivered()


def test_recovery_2_takes_the_nearest_snapshot() -> None:
    second = SnapshotTaken(Snapshot(UID, 2, (span(start=5, end=9),)), HASH)
    state = fold([TAKEN, attempt(), second])
    assert recover(state, delivered(), SITUATION).in_doubt == second


def test_recovery_3a_equal_hashes_mean_delivered() -> None:
    recovered = recover(fold([TAKEN, attempt()]), delivered(), SITUATION)
    assert recovered.in_doubt is None
    assert (recovered.start, recovered.number) == (offsets(s1=5), 2)


def test_recovery_3b_other_hashes_mean_failed() -> None:
    second = SnapshotTaken(Snapshot(UID, 2, (span(start=5, end=9),)), HASH)
    state = fold([TAKEN, attempt(), second, attempt(number=2, digest=second.snapshot.uid.digest)])
    recovered = recover(state, delivered(), SITUATION)
    assert recovered.steps == ("1d", "2", "3b", "4")
    assert recovered.in_doubt == second
    assert recovered.start == offsets(s1=5)


def test_recovery_4_goes_on_and_doing_it_again_changes_nothing() -> None:
    world = scene()
    end_at(world, "write:after", nth=2)
    for _ in range(3):
        end_at(world, "retried:before")
    before = snapshots(world)
    world.settle()
    assert snapshots(world)[: len(before)] == before
    assert faults_in(world) == []
