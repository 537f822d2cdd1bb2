"""The machines of delivery and recovery: fences, refusals, attempts, and legs."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.graph.delivery.scenes import UID, at, end_at, offsets, scene, settings, span
from windrow.graph import delivery_errors
from windrow.graph.backing import (
    Attempt,
    BackingState,
    GaveUp,
    Poisoned,
    Record,
    Retried,
    Rewound,
    SnapshotTaken,
    fold,
)
from windrow.graph.delivery import DeliveryMachine, DeliveryState
from windrow.graph.delivery_errors import (
    AttemptsExhausted,
    Fenced,
    ImpossibleEvent,
    IncarnationChanged,
    SinkBehind,
    SinkLost,
    SourceBehind,
    StateLost,
)
from windrow.graph.delivery_steps import (
    AppendBacking,
    BackingAppended,
    BackingRefused,
    BatchFailed,
    BatchRan,
    DeliveredMismatched,
    DeliveryCommand,
    Finish,
    Interrupt,
    NothingPlanned,
    PlanBatch,
    Rest,
    Rested,
    RunBatch,
)
from windrow.graph.high_water import Delivered
from windrow.graph.planning import Available
from windrow.graph.policies import Retry
from windrow.graph.recovery import Checkpoint, Recovered, Situation, recover
from windrow.graph.recovery_machine import (
    Appended,
    AppendRewound,
    BackingRead,
    CompleteLate,
    FenceTargets,
    GoOn,
    LateDelivered,
    ReadBacking,
    ReadSink,
    RecoveryMachine,
    Refuse,
    SinkRead,
    Taken,
    TakenByOther,
    TakeOwnership,
    TargetsFenced,
)
from windrow.graph.snapshot import ProcessorUid, Snapshot
from windrow.graph.staging import Destination, Failure, Outputs, Staged, legs_of, must_stage

FIRST = Snapshot(UID, 1, (span(end=5),))
SECOND = Snapshot(UID, 2, (span(start=5, end=9),))
DELIVERED = Delivered(UID, 1, FIRST.delivery_hash, offsets(s1=5), epoch=1)
IN_DOUBT = SnapshotTaken(SECOND, FIRST.delivery_hash)
DOUBTFUL = Recovered(offsets(s1=5), 2, DELIVERED, IN_DOUBT, attempts=1)
SITUATION = Situation(UID, frozenset({"s1"}))


def retrying(attempts: int, **changes: Any) -> tuple[DeliveryMachine, DeliveryCommand]:
    recovered = replace(DOUBTFUL, attempts=attempts, reason="killed")
    machine = DeliveryMachine(settings(**changes), recovered, epoch=2)
    return machine, machine.start()


def appended(command: DeliveryCommand) -> Record:
    assert isinstance(command, AppendBacking)
    return command.record


# -- delivery ------------------------------------------------------------------------------------


def test_an_idle_processor_rests_and_looks_again() -> None:
    machine = DeliveryMachine(settings(), Recovered(offsets(), 1), 1)
    assert machine.start() == PlanBatch(offsets())
    assert machine.handle(NothingPlanned()) == Rest()
    assert machine.handle(Rested()) == PlanBatch(offsets())
    machine.handle(NothingPlanned())
    machine.request_stop()
    assert machine.handle(Rested()) == Finish()


def test_a_fenced_driver_ends_and_is_not_restarted() -> None:
    machine, _ = retrying(1)
    command = machine.handle(BackingRefused(found_epoch=3))
    assert isinstance(command, Interrupt)
    assert isinstance(command.error, Fenced)
    assert not command.may_restart
    assert machine.state is DeliveryState.INTERRUPTED


def delivering() -> DeliveryMachine:
    machine, _ = retrying(1)
    for event in (BackingAppended(), BatchRan(3), BackingAppended()):
        machine.handle(event)
    assert machine.state is DeliveryState.DELIVERING
    return machine


def test_a_delivery_that_another_completed_counts() -> None:
    found = Delivered(UID, 2, SECOND.delivery_hash, offsets(s1=9), epoch=1)
    assert delivering().handle(DeliveredMismatched(found)) == PlanBatch(offsets(s1=9))


@pytest.mark.parametrize(
    ("found", "may_restart"),
    [
        (Delivered(UID, 3, "other", offsets(s1=12), epoch=3), False),
        (Delivered(UID, 2, "other", offsets(s1=8), epoch=1), True),
        (None, True),
    ],
)
def test_any_other_record_in_the_sink_interrupts(
    found: Delivered | None, may_restart: bool
) -> None:
    command = delivering().handle(DeliveredMismatched(found))
    assert isinstance(command, Interrupt)
    assert command.may_restart is may_restart


def test_each_retry_is_counted_before_it_is_made_and_waits_longer() -> None:
    for attempts, delay in ((1, 1.0), (2, 2.0), (3, 4.0)):
        machine, command = retrying(attempts, retry=Retry(10, 1.0))
        assert appended(command) == Retried(2, attempts + 1, "killed")
        run = machine.handle(BackingAppended())
        assert isinstance(run, RunBatch)
        assert (run.attempt, run.delay, run.epoch) == (attempts + 1, delay, 2)
        assert run.snapshot == SECOND
        assert run.floor == offsets(s1=5)


def test_when_attempts_are_used_up_a_processor_that_stops_gives_up() -> None:
    machine, command = retrying(3, retry=Retry(3))
    assert appended(command) == GaveUp(2, "killed")
    last = machine.handle(BackingAppended())
    assert isinstance(last, Interrupt)
    assert isinstance(last.error, AttemptsExhausted)
    assert "failed 3 times, last with: killed" in str(last.error)
    assert not last.may_restart


def test_otherwise_it_looks_for_the_culprit_one_by_one() -> None:
    machine, _ = retrying(3, retry=Retry(3), on_error="deadletter")
    run = machine.handle(BackingAppended())
    assert isinstance(run, RunBatch)
    assert run.is_isolated
    record = appended(machine.handle(BatchFailed("out of memory", at("s1", 7))))
    assert record == Poisoned(2, at("s1", 7), "out of memory")
    assert isinstance(machine.handle(BackingAppended()), Interrupt)


def test_and_gives_up_if_it_finds_none() -> None:
    _, command = retrying(6, retry=Retry(3), on_error="deadletter")
    assert isinstance(appended(command), GaveUp)


def test_a_failure_before_the_last_attempt_blames_nobody() -> None:
    machine, _ = retrying(1, retry=Retry(3), on_error="deadletter")
    machine.handle(BackingAppended())
    assert isinstance(machine.handle(BatchFailed("no memory", at("s1", 7))), Interrupt)


def test_at_most_once_never_gives_up_for_it_skips_what_was_claimed() -> None:
    claimed = SnapshotTaken(replace(SECOND, strategy="at-most-once"), FIRST.delivery_hash)
    recovered = replace(DOUBTFUL, in_doubt=claimed, attempts=9)
    machine = DeliveryMachine(settings(retry=Retry(1, 0.0)), recovered, 2)
    assert isinstance(appended(machine.start()), Retried)
    run = machine.handle(BackingAppended())
    assert isinstance(run, RunBatch)
    assert not run.is_isolated


def test_another_process_can_take_the_step_up_while_the_batch_runs() -> None:
    machine = DeliveryMachine.while_running(settings(), DOUBTFUL, 2)
    assert machine.start_offsets == offsets(s1=5)
    assert isinstance(machine.handle(BatchRan(1)), AppendBacking)


def test_what_cannot_happen_raises_with_both_names() -> None:
    machine, _ = retrying(1)
    with pytest.raises(ImpossibleEvent, match="BatchRan while RETRYING"):
        machine.handle(BatchRan(1))
    recovery = RecoveryMachine(UID, "me")
    with pytest.raises(ImpossibleEvent, match="Appended while OWNING"):
        recovery.handle(Appended())


# -- recovery ------------------------------------------------------------------------------------


def test_it_takes_over_before_it_reads_anything() -> None:
    machine = RecoveryMachine(UID, "me")
    assert machine.start() == TakeOwnership("me")
    assert machine.handle(Taken(4)) == ReadBacking()
    assert machine.handle(BackingRead(BackingState())) == ReadSink()
    assert machine.handle(SinkRead(None, SITUATION)) == GoOn(
        Recovered(offsets(), 1, steps=("1a", "4")), 4
    )


def recovering(backing: BackingState, sink: Delivered | None) -> tuple[RecoveryMachine, object]:
    machine = RecoveryMachine(UID, "me")
    machine.start()
    machine.handle(Taken(4))
    machine.handle(BackingRead(backing))
    return machine, machine.handle(SinkRead(sink, SITUATION))


def test_where_journal_and_sink_disagree_the_targets_are_fenced_and_read_again() -> None:
    machine, command = recovering(BackingState(), DELIVERED)
    assert command == FenceTargets(4)
    assert machine.handle(TargetsFenced()) == ReadSink()
    rewound = machine.handle(SinkRead(DELIVERED, SITUATION))
    assert isinstance(rewound, AppendRewound)
    done = machine.handle(Appended())
    assert isinstance(done, GoOn)
    assert (done.recovered.start, done.recovered.number) == (offsets(s1=5), 2)


def test_a_delivery_without_output_is_completed_late() -> None:
    nil = Attempt("attempt-nil", 2, SECOND.delivery_hash)
    machine, command = recovering(fold([IN_DOUBT, nil]), DELIVERED)
    assert isinstance(command, CompleteLate)
    assert command.delivered.ends == offsets(s1=9)
    done = machine.handle(LateDelivered(command.delivered))
    assert isinstance(done, GoOn)
    assert done.recovered.delivered == command.delivered
    machine, _ = recovering(fold([IN_DOUBT, nil]), DELIVERED)
    assert isinstance(machine.handle(LateDelivered(DELIVERED)), Refuse)


def test_one_that_is_taken_over_while_it_recovers_is_refused() -> None:
    machine = RecoveryMachine(UID, "me")
    machine.start()
    command = machine.handle(TakenByOther(9))
    assert isinstance(command, Refuse)
    assert isinstance(command.error, Fenced)


def test_a_refusal_ends_recovery_with_its_diagnosis() -> None:
    _, command = recovering(fold([IN_DOUBT]), None)
    assert isinstance(command, Refuse)
    assert isinstance(command.error, SinkLost)


def test_a_sink_that_was_set_back_can_be_refused() -> None:
    third = SnapshotTaken(Snapshot(UID, 3, (span(start=9, end=12),)), SECOND.delivery_hash)
    state = fold([IN_DOUBT, third])
    recovered = recover(state, DELIVERED, SITUATION)
    reason = "the sink was set back"
    assert recovered.rewound == Rewound(offsets(s1=5), DELIVERED.delivery_hash, reason)
    assert recovered.number == 4
    with pytest.raises(SinkBehind, match="stands at snapshot 1, the backing journal at 3"):
        recover(state, DELIVERED, replace(SITUATION, when_sink_behind="refuse"))


def test_after_it_was_set_elsewhere_it_goes_on_there() -> None:
    state = fold([IN_DOUBT, Rewound(offsets(s1=7), DELIVERED.delivery_hash, "skipped two")])
    assert recover(state, DELIVERED, SITUATION).start == offsets(s1=7)
    follow = SnapshotTaken(Snapshot(UID, 3, (span(start=7, end=9),)), DELIVERED.delivery_hash)
    trimmed = replace(SITUATION, available=[Available("s1", "s1-1", 0, 7, 9)])
    assert recover(state.after(follow), DELIVERED, trimmed).start == offsets(s1=7)


def test_a_source_that_lost_its_tail_or_was_made_again_is_refused() -> None:
    cut = [Available("s1", "s1-1", 0, 0, 7)]
    with pytest.raises(SourceBehind):
        recover(fold([IN_DOUBT]), DELIVERED, replace(SITUATION, available=cut))
    again = [Available("s1", "again", 0, 0, 7)]
    with pytest.raises(IncarnationChanged):
        recover(fold([IN_DOUBT]), DELIVERED, replace(SITUATION, available=again))


def test_state_that_is_lost_or_disagrees_is_refused_unless_accepted() -> None:
    stateful = replace(SITUATION, is_stateful=True)
    older = replace(stateful, checkpoint=Checkpoint(offsets(s1=2)))
    same = replace(stateful, checkpoint=Checkpoint(offsets(s1=5), offsets(s1=9)))
    state = fold([IN_DOUBT])
    with pytest.raises(StateLost, match="which is lost"):
        recover(state, DELIVERED, stateful)
    with pytest.raises(StateLost, match="does not go on where the last delivery ended"):
        recover(state, DELIVERED, older)
    assert recover(state, DELIVERED, same).keep_checkpoint
    accepted = recover(state, DELIVERED, replace(older, accept_state_loss=True))
    assert not accepted.keep_checkpoint
    assert recover(BackingState(), None, stateful).start == offsets(), "a first start"


# -- legs ----------------------------------------------------------------------------------------

OUT, SIDE, ERRORS = Destination("out"), Destination("side"), Destination("errors", "error")


@pytest.mark.parametrize(
    ("destinations", "is_deterministic", "stages"),
    [((), False, False), ((OUT,), True, False), ((OUT,), False, True), ((OUT, ERRORS), True, True)],
)
def test_results_are_staged_if_they_could_differ_or_have_several_destinations(
    destinations: Sequence[Destination], is_deterministic: bool, stages: bool
) -> None:
    assert must_stage(destinations, is_deterministic) is stages
    legs = legs_of(UID, ["s1"], destinations, is_deterministic)
    assert len(legs) == (1 + len(destinations) if stages else 1)
    assert len({leg.uid for leg in legs}) == len(legs)
    staging = legs[0].destination
    assert all(staging and leg.inputs == (staging.queue,) for leg in legs[1:])


def test_a_result_is_outputs_or_an_error() -> None:
    outputs = Staged((at("s1", 1),), Outputs({"out": ["a", "b"]}))
    failure = Staged((at("s1", 2),), Failure({"cause": "x"}))
    assert [outputs.part_for(d) for d in (OUT, SIDE, ERRORS)] == [["a", "b"], (), ()]
    assert [failure.part_for(d) for d in (OUT, SIDE, ERRORS)] == [(), (), ({"cause": "x"},)]


def test_a_uid_is_read_as_it_is_declared() -> None:
    assert ProcessorUid.parse("shop/price") == ProcessorUid("shop", "price")
    assert str(ProcessorUid.parse("shop/price")) == "shop/price"


def test_errors_survive_pickling_out_of_a_worker() -> None:
    errors = [
        Fenced("g/p", 1, 2),
        AttemptsExhausted("g/p", 1, 2, "why"),
        SinkLost("g/p", 3),
        delivery_errors.SourceTrimmed("s", 0, 1, 5),
        delivery_errors.LanesDiffer((("a", (0,)), ("b", (0, 1)))),
        delivery_errors.DeliveryUnknown("g/p", 1, "7e", "why"),
    ]
    for error in errors:
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_zombies_task_meets_the_fence_of_the_target() -> None:
    """With the backing journal lost, too, nothing else would keep its rows out."""
    world = scene(targets=3, messages=20, seed=3)
    zombie = end_at(world, "write:before", nth=1)
    world.journals[UID].lines.clear()
    world.settle()
    while not zombie.is_over:
        world.walk(zombie)
    assert isinstance(zombie.error, Fenced)
