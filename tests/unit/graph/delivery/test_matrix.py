"""Every row of the table of faults that can be shown without a query running."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.graph.delivery.graphs import expected_of, faults_in, fill, positions_read
from tests.unit.graph.delivery.matrix import OUTCOMES, Row, rows
from tests.unit.graph.delivery.scenes import (
    STEPS,
    UID,
    end_at,
    lose_the_answer,
    offsets,
    records,
    retries,
    scene,
    settings,
    snapshots,
    span,
)
from tests.unit.graph.delivery.world import Died, Function, Message, World, values_in
from windrow.graph import delivery_errors
from windrow.graph.backing import Attempt, Poisoned
from windrow.graph.delivery import DeliveryMachine
from windrow.graph.delivery_errors import AttemptsExhausted, Fenced, SinkLost
from windrow.graph.delivery_steps import (
    BackingAppended,
    BatchRan,
    DeliveredMoved,
    Finish,
    Planned,
)
from windrow.graph.planning import Limits
from windrow.graph.policies import Retry, Strategy
from windrow.graph.recovery import Checkpoint, Recovered
from windrow.graph.routing import RoutingPin
from windrow.graph.staging import Failure, Outputs, trim_below

ROWS = rows()


def check(world: World, row_id: str) -> None:
    """Bring the world to rest, and hold it against its row."""
    row = ROWS[row_id]
    world.settle()
    assert faults_in(world) == []
    assert row.outcome in ("exact", "stalls")
    assert (retries(world) > 0) == row.replays


def strike(world: World, row_id: str, *, nth: int = 1) -> None:
    """End the driver at the point of the row, then see what becomes of it."""
    end_at(world, ROWS[row_id].point, nth=nth)
    check(world, row_id)


def refusal(world: World, row_id: str) -> Exception:
    """Start the processor, which must refuse with the error of the row."""
    row = ROWS[row_id]
    driver = world.begin(world.legs[-1])
    while not driver.is_over:
        world.walk(driver)
        assert not driver.is_idle
    assert row.error is not None
    assert type(driver.error) is getattr(delivery_errors, row.error)
    assert isinstance(driver.error, Exception)
    return driver.error


def test_c1_before_the_snapshot() -> None:
    strike(scene(), "C1", nth=2)


def test_c2_while_the_snapshot_is_written() -> None:
    strike(scene(), "C2")


def test_c3_after_the_snapshot() -> None:
    strike(scene(), "C3")


def test_c4_join_some_inputs_read() -> None:
    strike(scene("join", ("s1", "s2")), "C4")


def test_c5_alts_chosen_but_not_written_down() -> None:
    world = scene(inputs=("s1", "s2"))
    waiting = world.queues["s1"].partitions[0][:]
    world.queues["s1"].partitions[0].clear()
    end_at(world, ROWS["C5"].point)
    world.queues["s1"].partitions[0].extend(waiting)
    check(world, "C5")
    assert "s1" in snapshots(world)[0].inputs


def test_c6_alts_after_the_choice() -> None:
    strike(scene(inputs=("s1", "s2")), "C6")


def test_c6b_alts_dying_twice_keeps_hash_and_messages_together() -> None:
    """What a retry delivers under a hash is what the first attempt would have."""
    world = scene(inputs=("s1", "s2"), messages=3)
    waiting = world.queues["s1"].partitions[0][:]
    world.queues["s1"].partitions[0].clear()
    end_at(world, "snapshot:after")
    first = snapshots(world)[0]
    world.queues["s1"].partitions[0].extend(waiting)
    end_at(world, ROWS["C6b"].point)
    end_at(world, "attempt:before")
    assert [s.delivery_hash for s in snapshots(world)] == [first.delivery_hash]
    check(world, "C6b")


def test_c7_function_not_started() -> None:
    strike(scene(), "C7")


def test_c8_error_goes_to_the_error_queue_once() -> None:
    world = scene(has_errors=True, messages=30)
    check(world, "C8")
    assert values_in(world.queues["errors"])


def test_c9_without_an_error_queue_by_policy() -> None:
    """Stop: it waits for a better function. Drop: it goes on without the message."""
    for on_error in ("stop", "drop"):
        world = scene(function=fails_at("s13"), on_error=on_error, retry=Retry(2, 0.0))
        only = world.processors[UID]
        if on_error == "stop":
            with pytest.raises(AttemptsExhausted, match="failed 2 times"):
                world.settle()
            only.function = fails_at("nothing")
            check(world, "C9")
        else:
            world.settle()
            held = values_in(world.queues["out"])
            assert "s13" not in held
            assert held.total() == 11


def fails_at(value: str) -> Function:
    def function(values: Sequence[Any]) -> Outputs:
        if value in values:
            raise ValueError(value)
        return Outputs({"out": values})

    return function


@pytest.mark.parametrize("row_id", ["C10", "C11"])
def test_c10_and_c11_interrupted_or_killed_in_the_function(row_id: str) -> None:
    world = scene()
    end_at(world, "write:before")
    check(world, row_id)


def test_c11_killed_in_every_later_batch_too() -> None:
    world = scene()
    for _ in range(3):
        end_at(world, "read:before")
    check(world, "C11")


def test_c12_effect_done_before_the_attempt() -> None:
    strike(scene(), "C12")


def test_c12_an_effect_that_is_repeated_has_the_same_hash() -> None:
    world = scene(outputs=(), strategy="at-least-once", messages=4)
    world.limits = Limits(max_rows=4)
    driver = world.begin(world.legs[0])
    while driver.at != "after Act":
        world.walk(driver)
    done = world.effects.copy()
    world.settle()
    assert set(world.effects) == positions_read(world, "s1")
    assert all(world.effects[positions] == 2 for positions in done)


def test_c13_nothing_written() -> None:
    strike(scene(), "C13")


def test_c14_some_targets_written() -> None:
    strike(scene(targets=3), "C14", nth=2)


def test_c15_writing_the_attempt_fails() -> None:
    world = scene()
    driver = lose_the_answer(world, "attempt")
    assert isinstance(driver.error, Died)
    assert "recovery reads it back" in str(driver.error)
    check(world, "C15")


def test_c16_attempt_durable_delivery_not_completed() -> None:
    world = scene()
    end_at(world, ROWS["C16"].point)
    check(world, "C16")
    first = [r for r in records(world) if isinstance(r, Attempt) and r.number == 1]
    assert len(first) == 2, "the attempt is made, and written down, again"


def test_c17_unknown_outcome_never_ends_as_output_and_error() -> None:
    world = scene(has_errors=True, messages=30)
    for leg in world.legs:
        assert isinstance(lose_the_answer(world, "deliver", leg=leg).error, Died)
    check(world, "C17")
    assert both(world) == []


def both(world: World) -> list[str]:
    """Messages that ended as output and as error."""
    outputs = {value.rstrip("abc") for value in values_in(world.queues["out"])}
    return [value for value in values_in(world.queues["errors"]) if value.rstrip("!") in outputs]


def test_c18_completed_and_nobody_heard() -> None:
    strike(scene(), "C18")


def test_c19_exception_after_completion() -> None:
    world = scene(has_errors=True, messages=30)
    for leg in world.legs:
        end_at(world, "deliver:after", leg=leg, nth=2 if leg.is_stage else 1)
    check(world, "C19")
    assert both(world) == []


@pytest.mark.parametrize("point", ["write:before", "write:after", "attempt:after"])
def test_c20_the_same_on_the_way_to_the_error_queue(point: str) -> None:
    world = scene(has_errors=True, messages=30)
    world.run_until_idle(world.legs[0])
    end_at(world, point, leg=world.legs[-1])
    check(world, "C20")
    assert any(
        isinstance(r, Attempt) and r.kind == "attempt-error" for r in records(world, world.legs[-1])
    )


def test_c21_error_queue_that_cannot_be_written_to_holds() -> None:
    world = scene(has_errors=True, messages=30)
    for leg in world.legs[:-1]:
        world.run_until_idle(leg)
    for _ in range(3):
        end_at(world, "write:before", leg=world.legs[-1])
    assert values_in(world.queues["errors"]).total() == 0
    assert values_in(world.queues["out"]) == expected_of(world, world.processors[UID])["out"]
    check(world, "C21")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_c22_nothing_to_write(moment: str) -> None:
    world = scene(function=lambda values: Outputs({}), messages=3)
    end_at(world, f"attempt:{moment}")
    world.settle()
    assert faults_in(world) == []
    assert (retries(world) > 0) == (moment == "before")
    assert ROWS["C22"].replays is False, "the row speaks of the moment after"


def test_c23_a_foreign_writer_comes_first() -> None:
    world = scene()
    end_at(world, ROWS["C23"].point)
    foreign = Message(b"", "foreign")
    for partition in world.queues["out"].partitions:
        partition.append(foreign)
    world.settle()
    for partition in world.queues["out"].partitions:
        partition.remove(foreign)
    check(world, "C23")


def test_c24_alts_retry_after_an_attempt_reads_the_same() -> None:
    strike(scene(inputs=("s1", "s2")), "C24")


@pytest.mark.parametrize("step", ["TakeOwnership", "ReadBacking", "ReadSink"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_r1_crash_within_recovery(step: str, moment: str) -> None:
    world = scene()
    end_at(world, "write:after")
    driver = world.begin(world.legs[0])
    while driver.at != f"{moment} {step}":
        world.walk(driver)
    check(world, "R1")


@pytest.mark.parametrize("step", ["retried", "read", "write", "attempt", "deliver"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_r2_crash_in_a_retry_at_any_step(step: str, moment: str) -> None:
    world = scene(targets=3)
    end_at(world, "write:after")
    end_at(world, f"{step}:{moment}")
    check(world, "R2")


def test_r3_backing_journal_lost_in_mid_attempt() -> None:
    """With other boundaries and another routing configured, too."""
    for seed in range(20):
        world = scene(targets=3, seed=seed, messages=20)
        end_at(world, "write:after", nth=3)
        world.journals[UID].lines.clear()
        world.routing[UID] = RoutingPin(2)
        world.settle()
        assert faults_in(world) == []


def test_r3_and_a_crash_while_what_was_lost_is_delivered_again() -> None:
    """Smaller batches than the lost one: its routing holds until all of it is behind."""
    for seed in range(20):
        world = scene(targets=3, seed=seed, messages=20)
        world.limits = Limits(max_rows=12)
        end_at(world, "write:after", nth=2)
        world.journals[UID].lines.clear()
        world.routing[UID] = RoutingPin(1)
        world.limits = Limits(max_rows=2)
        end_at(world, "snapshot:after")
        world.settle()
        assert faults_in(world) == [], seed


def test_r4_output_trimmed() -> None:
    """The proof is in the sink's registers, not in messages that may be gone."""
    world = scene()
    end_at(world, "deliver:after")
    trimmed = [part[:] for part in world.queues["out"].partitions]
    for part in world.queues["out"].partitions:
        part.clear()
    world.settle()
    for part, lost in zip(world.queues["out"].partitions, trimmed, strict=True):
        part[:0] = lost
    check(world, "R4")


def test_r5_an_input_is_gone_that_an_attempt_in_doubt_reads() -> None:
    world = scene(inputs=("s1", "s2"))
    end_at(world, "write:after")
    world.legs = [replace(world.legs[0], inputs=("s1",))]
    assert '"s2"' in str(refusal(world, "R5"))


def test_r5_inputs_come_and_go_between_attempts() -> None:
    world = scene(inputs=("s1", "s2"))
    world.settle()
    whole = world.legs[0]
    fill(world, world.queues["s1"], 3)
    fill(world, world.queues["s2"], 3)
    world.legs = [replace(whole, inputs=("s1",))]
    world.settle()
    world.legs = [whole]
    world.settle()
    assert faults_in(world) == []


def test_r6_new_code_completes_the_attempt() -> None:
    world = scene(targets=1)
    end_at(world, "write:after")
    world.code[UID] = "v2"
    check(world, "R6")


def test_r6_half_written_to_several_targets_by_the_old_code() -> None:
    world = scene(targets=3)
    end_at(world, "write:after")
    world.code[UID] = "v2"
    assert "'v1'" in str(refusal(world, "R6"))


def test_r7_strategies_change_with_attempts_in_doubt() -> None:
    world = scene(targets=2, messages=20)
    strategies: list[Strategy] = ["exactly-once", "at-most-once", "exactly-once"]
    for strategy in strategies:
        world.processors[UID].strategy = strategy
        end_at(world, "snapshot:after")
    assert [s.strategy for s in snapshots(world)] == strategies, "an attempt ends as it began"
    check(world, "R7")


def test_r7_effects_are_done_once_across_strategies() -> None:
    """The naive way is a stale snapshot: it would rewind over what was done meanwhile."""
    world = scene(outputs=(), strategy="at-most-once", messages=6)
    only = world.processors[UID]
    world.limits = Limits(max_rows=2)
    world.settle()
    only.strategy = "at-least-once"
    fill(world, world.queues["s1"], 4)
    world.settle()
    assert set(world.effects) == positions_read(world, "s1")
    assert set(world.effects.values()) == {1}


def test_r7_the_one_attempt_of_at_most_once_is_not_for_what_began_otherwise() -> None:
    world = scene(outputs=(), strategy="at-least-once", messages=4)
    end_at(world, "snapshot:after")
    only = world.processors[UID]
    only.strategy, only.retry = "at-most-once", Retry(1, 0.0)
    world.settle()
    assert set(world.effects) == positions_read(world, "s1")


def test_f1_staged_and_nothing_fanned_out() -> None:
    world = scene(outputs=("out", "side"))
    world.run_until_idle(world.legs[0])
    assert values_in(world.queues["out"]).total() == 0
    check(world, "F1")


def test_f2_some_destinations_have_their_part() -> None:
    world = scene(outputs=("out", "side"))
    world.run_until_idle(world.legs[0])
    world.run_until_idle(world.legs[1])
    end_at(world, "write:after", leg=world.legs[2])
    check(world, "F2")


def test_f3_a_destination_that_fails_stalls_alone() -> None:
    world = scene(outputs=("out", "side"))
    world.run_until_idle(world.legs[0])
    for _ in range(3):
        end_at(world, "write:before", leg=world.legs[2])
    world.run_until_idle(world.legs[1])
    expected = expected_of(world, world.processors[UID])
    assert values_in(world.queues["out"]) == expected["out"]
    assert values_in(world.queues["side"]).total() == 0
    check(world, "F3")


def test_f4_staging_trimmed_below_its_slowest_reader() -> None:
    world = scene(outputs=("out", "side"))
    world.run_until_idle(world.legs[0])
    end_at(world, "deliver:after", leg=world.legs[-1])
    stage = world.queues[world.legs[0].destination.queue]  # type: ignore[union-attr]
    delivered = world.delivered(world.legs[-1])
    assert delivered is not None
    for one in stage.available():
        stage.first[one.partition] = one.end
    assert "not delivered yet" in str(refusal(world, "F4"))
    limit = trim_below([delivered.ends, delivered.ends], stage.name)
    assert limit == delivered.ends, "nothing beyond this may be trimmed"


def test_s1_stop_ends_where_nothing_is_in_doubt() -> None:
    world = scene()
    machine = DeliveryMachine(settings(), Recovered(offsets(), 1), 1)
    machine.start()
    machine.request_stop()
    command = machine.handle(Planned((span(),), 0.0))
    machine.handle(BackingAppended())
    machine.handle(BatchRan(1))
    command = machine.handle(BackingAppended())
    assert not isinstance(command, Finish), "the batch that runs is finished first"
    command = machine.handle(DeliveredMoved())
    assert isinstance(command, Finish)
    check(world, "S1")


def test_s1_stop_while_idle() -> None:
    world = scene()
    driver = world.run_until_idle(world.legs[0])
    assert driver.at == "idle"
    check(world, "S1")


def test_a1_at_most_once_loses_what_was_claimed_and_repeats_nothing() -> None:
    world = scene(outputs=(), strategy="at-most-once", messages=9, lanes=3, retry=Retry(1, 0.0))
    assert ROWS["A1"].outcome == "lost-by-contract"
    end_at(world, ROWS["A1"].point)
    world.settle()
    everything = positions_read(world, "s1")
    assert set(world.effects.values()) == {1}
    lost = everything - set(world.effects)
    assert lost
    claimed = snapshots(world)[0].spans
    assert all(any(positions[0] in one for one in claimed) for positions in lost)
    assert len({positions[0].partition for positions in lost}) == 1, "one task's claim, no more"
    assert (retries(world) > 0) == ROWS["A1"].replays


def test_m0_before_the_offset_log() -> None:
    world = scene()
    end_at(world, "plan:after")
    check(world, "M0")


def test_m2_planned_and_nothing_run() -> None:
    world = scene()
    end_at(world, ROWS["M2"].point)
    fill(world, world.queues["s1"], 5)
    first = snapshots(world)[0]
    check(world, "M2")
    assert snapshots(world)[0] == first


def test_m3_a_task_runs_twice() -> None:
    world = scene(targets=3, messages=40, seed=4)
    world.fail_tasks = 0.05
    for _ in range(30):
        driver = world.begin(world.legs[0])
        while not driver.is_over and not driver.is_idle:
            world.walk(driver)
    check(world, "M3")


def test_m4_between_two_sinks() -> None:
    world = scene(outputs=("out", "side"))
    world.run_until_idle(world.legs[0])
    world.run_until_idle(world.legs[1])
    end_at(world, "read:before", leg=world.legs[2])
    check(world, "M4")


def test_m5_rows_written_commit_missing() -> None:
    strike(scene(), "M5", nth=2)


def test_m6_commit_not_called_failed_or_unanswered() -> None:
    for point in ("deliver:before", "attempt:before", "attempt:after"):
        world = scene()
        end_at(world, point)
        check(world, "M6")
    world = scene()
    lose_the_answer(world, "deliver")
    world.settle()
    assert faults_in(world) == []


def test_m10_a_zombie_wakes_at_any_step() -> None:
    for step in STEPS.keys() - {"own", "retried"}:
        for moment in ("before", "after"):
            world = scene(targets=3)
            zombie = end_at(world, f"{step}:{moment}")
            world.settle()
            while not zombie.is_over and not zombie.is_idle:
                world.walk(zombie)
            assert faults_in(world) == [], (step, moment)
            fill(world, world.queues["s1"], 4)
            world.settle()
            assert faults_in(world) == [], (step, moment)


def test_m10_a_zombie_is_told_who_fenced_it() -> None:
    world = scene()
    zombie = end_at(world, "attempt:before")
    world.settle()
    while not zombie.is_over:
        world.walk(zombie)
    assert isinstance(zombie.error, Fenced)
    assert "owner 1 was fenced by owner 2" in str(zombie.error)
    assert (retries(world) > 0) == ROWS["M10"].replays


@pytest.mark.parametrize("fate", ["lost", "older", "empty"])
def test_m11_checkpoint_lost_or_rolled_back(fate: str) -> None:
    world = scene(messages=20)
    end_at(world, "deliver:after", nth=3)
    match fate:
        case "lost":
            world.checkpoints.clear()
        case "older":
            world.checkpoints[UID] = world.old_checkpoints[UID][0]
        case "empty":
            world.checkpoints[UID] = Checkpoint(offsets())
    done = len(snapshots(world))
    delivered = world.delivered(world.legs[0])
    check(world, "M11")
    assert delivered is not None
    assert delivered.ends.is_within(snapshots(world)[done].starts), "not from zero"


def test_m12_sink_lost() -> None:
    world = scene()
    world.settle()
    world.queues["out"].restore(([[], [], []], [{}, {}, {}]))
    assert "knows of none" in str(refusal(world, "M12"))
    with pytest.raises(SinkLost):
        world.settle()
    world.accept_sink_loss = True
    world.settle()
    assert faults_in(world) == []


def test_m12_sink_set_back_is_filled_again() -> None:
    world = scene(messages=20)
    end_at(world, "deliver:after", nth=2)
    backup = world.queues["out"].state()
    world.settle()
    world.queues["out"].restore(backup)
    world.settle()
    assert faults_in(world) == []


def test_m13_source_trimmed() -> None:
    world = scene()
    end_at(world, "deliver:after")
    delivered = world.delivered(world.legs[0])
    assert delivered is not None
    world.queues["s1"].first[0] = delivered.ends.entries[0][1] + 2
    error = refusal(world, "M13")
    assert "2 messages" in str(error)
    assert "--skip s1:0" in str(error)


def test_m14_sources_swapped_and_added() -> None:
    world = scene(inputs=("s2", "s1"), lanes=2)
    end_at(world, "deliver:after", nth=2)
    world.processors[UID].inputs = ("s1", "s2", "s3")
    fill(world, world.add_source("s3", 1), 4)
    world.legs = [replace(world.legs[0], inputs=("s1", "s2", "s3"))]
    check(world, "M14")


def test_m15_other_splits_and_cores_on_a_replay() -> None:
    for seed in range(20):
        world = scene(seed=seed, targets=3, lanes=2)
        end_at(world, ROWS["M15"].point)
        world.rng = random.Random(seed + 100)
        check(world, "M15")


def test_m16_another_result_on_a_replay_changes_nothing_that_is_staged() -> None:
    """Each time the function runs it chooses anew between output and error."""
    for seed in range(20):
        rng = random.Random(seed)

        def function(values: list[str], rng: random.Random = rng) -> Outputs | Failure:
            nonce = f"{values[0]}#{rng.randrange(10**6)}"
            if rng.random() < 0.3:
                return Failure(nonce)
            return Outputs({"out": [nonce], "side": [nonce]})

        world = scene(
            outputs=("out", "side"), has_errors=True, seed=seed, function=function,
            is_deterministic=False,
        )  # fmt: skip
        for nth in (1, 2, 3):
            end_at(world, "write:after", nth=nth)
        world.run_until_idle(world.legs[0])
        for leg in world.legs[1:]:
            end_at(world, "write:after", leg=leg)
        world.settle()
        out, side, errors = (values_in(world.queues[n]) for n in ("out", "side", "errors"))
        assert out == side
        inputs = [value.split("#")[0] for value in (*out, *errors)]
        assert sorted(inputs) == sorted(m.value for m in world.queues["s1"].partitions[0])


def test_m17_a_poison_message_is_put_out_of_the_way() -> None:
    world = scene(
        function=fails_at("s13"), has_errors=True, on_error="deadletter", retry=Retry(3, 0.0)
    )
    world.settle()
    assert values_in(world.queues["errors"]) == {"s13 is poison": 1}
    assert values_in(world.queues["out"]).total() == 11
    assert sum(isinstance(record, Poisoned) for record in records(world)) == 1
    assert (retries(world) > 0) == ROWS["M17"].replays


def test_m18_the_worker_dies_again_and_again() -> None:
    world = scene(targets=2)
    for _ in range(4):
        end_at(world, "read:after")
    check(world, "M18")


# -- the table itself ----------------------------------------------------------------------------


def test_the_table_has_every_row_once() -> None:
    wanted = [f"C{n}" for n in range(1, 25)] + ["C6b"]
    wanted += [f"R{n}" for n in range(1, 8)] + [f"F{n}" for n in range(1, 5)]
    wanted += ["S1", "A1", "W1"] + [f"M{n}" for n in range(19)]
    assert sorted(ROWS) == sorted(wanted)


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_each_row_has_a_known_outcome_and_a_diagnosis_if_refused(row: Row) -> None:
    assert row.outcome in OUTCOMES
    assert row.outcome == "refused" or (row.error is None) == (row.when is None)
    assert row.outcome != "refused" or row.error is not None
    assert row.error is None or hasattr(delivery_errors, row.error)
    assert set(row.levels) <= {"unit", "spark"}
    assert re.fullmatch(r"[a-z-]+:[a-z]+", row.point)


def test_each_row_of_this_level_has_a_test() -> None:
    tested = {
        part.upper().replace("C6B", "C6b")
        for name in globals()
        if name.startswith("test_")
        for part in re.findall(r"(?:^|_)([crfsam]\d+b?)(?=_)", name)
    }
    assert {row.id for row in ROWS.values() if "unit" in row.levels} <= tested
