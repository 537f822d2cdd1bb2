"""Every row of the table of faults that is shown on a running query."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.graph.bench import GraphBench
from tests.faults.graph.shapes import EFFECTS, effects_in, key_of
from tests.faults.graph.trial import Trial, hashes, snapshots
from tests.unit.graph.delivery.matrix import rows
from windrow.graph.backing import Attempt, Poisoned
from windrow.journal.message.record import Record
from windrow.points import Act, Strike
from windrow.testing import FaultLog

ROWS = {name: row for name, row in rows().items() if "spark" in row.levels}
Case = Callable[[Trial], None]
STRIKES: tuple[Act, ...] = ("raise", "exit")
CASES: list[tuple[tuple[str, ...], Case]] = []


def case(*names: str) -> Callable[[Case], Case]:
    """What the rows of those names come down to on a query; a row may have several cases."""

    def register(function: Case) -> Case:
        CASES.append((names, function))
        return function

    return register


# -- planning and the snapshot ---------------------------------------------------------------------


@case("C1", "M0")
def before_the_snapshot(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "plan-before", "source", nth=2, settings={"max_rows": 10})
    trial.end(scene)


@case("M0")
def source_dies_before_it_has_planned(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "plan-before", "source", act="exit")
    trial.end(scene)


@case("C2")
def while_the_snapshot_is_written(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "snapshot-before", "source", nth=2, settings={"max_rows": 10})
    trial.end(scene)


@case("C3")
def after_the_snapshot(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "snapshot-after", "source", nth=2, settings={"max_rows": 10})
    trial.end(scene)


@case("C6")
def alts_after_the_choice(trial: Trial) -> None:
    """What comes later to the other input is not in the batch that is tried again."""
    scene = trial.bench.scene("alts")
    scene.send(10, "b")
    trial.fail(scene, "snapshot-after", "source")
    scene.send(10, "a")
    trial.end(scene)
    assert len(set(hashes(scene))) == len(hashes(scene)) == 2


@case("C6b")
def alts_dying_again_within_the_retry(trial: Trial) -> None:
    scene = trial.bench.scene("alts")
    scene.send(10, "b")
    trial.fail(scene, "snapshot-after", "source")
    first = hashes(scene)
    scene.send(10, "a")
    trial.fail(scene, "write-after", "task")
    trial.fail(scene, "attempt-before", "commit")
    assert hashes(scene) == first, "tried three times, and taken once"
    trial.end(scene)


@case("C24")
def alts_after_the_attempt(trial: Trial) -> None:
    scene = trial.bench.scene("alts")
    scene.send(10, "b")
    trial.fail(scene, "attempt-after", "commit")
    scene.send(10, "a")
    trial.end(scene)
    assert len(hashes(scene)) == 2


# -- reading and running ---------------------------------------------------------------------------


@case("C4")
def join_is_read_in_part(trial: Trial) -> None:
    scene = trial.scene("join")
    trial.fail(scene, "read-after", "task")
    trial.end(scene)


@case("M2")
def offsets_durable_and_nothing_run(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "read-before", "task")
    trial.end(scene)


@case("C8")
def function_fails_with_an_error_queue(trial: Trial) -> None:
    """The bad ones end as errors, once, although a task is struck beside them."""
    scene = trial.scene("fork")
    assert trial.strike(scene, "run-during", "task").is_clean
    trial.check(scene)
    assert not {what for _, what in scene.found("errors")} & {
        what for _, what in scene.found("right")
    }


@case("C9")
def function_fails_and_the_processor_stops(trial: Trial) -> None:
    scene = trial.scene("narrow", retry={"attempts": 2, "backoff": 0.0})
    (scene.switches / "11").write_text("raise")
    for error in ("StepFailed", "StepFailed", "AttemptsExhausted"):
        scene.count_run(trial.part, "raise", error)
    assert scene.found("out") == []
    (scene.switches / "11").unlink()
    trial.end(scene)


@case("C9")
def function_fails_and_the_message_is_dropped(trial: Trial) -> None:
    scene = trial.scene("narrow", on_error="drop")
    (scene.switches / "11").write_text("raise")
    assert trial.strike(scene, "write-after", "task").is_clean
    scene.settle(trial.part, maybe=[("out", "a11")])
    assert (key_of("a", 11), "a11") not in scene.found("out")


@case("C10", "C11")
def ended_while_the_function_runs(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "run-during", "task")
    trial.fail(scene, "run-during", "task", act="exit")
    trial.end(scene)


@case("M18")
def worker_dies_once(trial: Trial) -> None:
    """Spark runs the task again by itself; if it dies each time the batch is."""
    scene = trial.scene("pipe")
    assert trial.strike(scene, "run-during", "task", act="exit").is_clean
    assert trial.bench.points.passed("graph.run-during") > 1, "the task ran again"
    scene.settle(trial.part)
    scene.send(20)
    trial.fail(scene, "run-during", "task", act="exit")
    trial.end(scene)


@case("M3")
def task_fails_and_runs_again(trial: Trial) -> None:
    """Within one batch, which is then no failure: a struck task has no other way to a clean end."""
    scene = trial.scene("pipe")
    for act in STRIKES:
        assert trial.strike(scene, "write-after", "task", act=act).is_clean
        scene.settle(trial.part)
        scene.send(20)
    trial.fail(scene, "write-after", "task")
    trial.end(scene)


@case("M17")
def poison_message_ends_every_attempt(trial: Trial) -> None:
    scene = trial.scene("fork", retry={"attempts": 1, "backoff": 0.0})
    (scene.switches / "8").write_text("exit")
    for _ in range(2):
        scene.count_run(trial.part, "exit", legs=["fork"])
    scene.finish()
    poisoned = [record for record in scene.records() if isinstance(record, Poisoned)]
    assert [record.position.index for record in poisoned] == [8]
    gone = [("left", "ab8"), ("right", "ab8")]
    scene.settle(trial.part, maybe=gone, also=[("errors", "error8", "error8")])
    assert "ab8" not in {what for _, what in scene.found("left") + scene.found("right")}
    assert scene.retries() > 0


# -- writing ---------------------------------------------------------------------------------------


@case("C12", "M5")
def written_before_the_attempt(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "attempt-before", "commit", act="exit")
    trial.end(scene)


@case("C12")
def effect_is_repeated_with_the_same_hash(trial: Trial) -> None:
    scene = trial.scene("effects")
    trial.fail(scene, "attempt-before", "commit")
    scene.send(5)
    trial.fail(scene, "write-before", "task")
    scene.finish()
    done = list(effects_in(scene.effects))
    scene.settle(trial.part, may_repeat=[(EFFECTS, what) for _, what, _ in done])
    assert len({what: digest for _, what, digest in done}) == len({d for _, _, d in done}) == 25
    assert len(done) > 25


@case("C13")
def nothing_written_yet(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "write-before", "task")
    assert scene.found("out") == []
    trial.end(scene)


@case("C14")
def some_targets_written(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "write-before", "task", nth=2)
    assert 0 < len(scene.found("out")) < len(scene.shape.expect(scene.given)["out"])
    trial.end(scene)


@case("C23")
def foreign_writer_comes_first(trial: Trial) -> None:
    scene = trial.scene("narrow")
    trial.fail(scene, "write-before", "task")
    (journal,) = scene.journals("out")
    foreign = Record(key=b"foreign", value=b'{"from":"abroad","n":0}')
    trial.bench.client.sequenced(journal, "foreign").append([foreign])
    scene.finish()
    scene.settle(trial.part, also=[("out", "foreign", "abroad0")])
    assert scene.retries() > 0


# -- the attempt and the delivery ------------------------------------------------------------------


@case("C15")
def writing_the_attempt_fails(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "attempt-before", "commit")
    trial.end(scene)


@case("C16")
def attempt_durable_and_nothing_delivered(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "attempt-after", "commit")
    trial.end(scene)
    assert sum(isinstance(record, Attempt) for record in scene.records()) == 2


@case("M6")
def commit_of_the_sink_fails(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "deliver-before", "commit")
    trial.fail(scene, "deliver-after", "commit")
    trial.end(scene)


@case("C17", "C19")
def delivered_and_the_answer_lost(trial: Trial) -> None:
    """Of the stage, of an output and of the errors: never output and error."""
    scene = trial.scene("fork")
    for leg in ("fork", "output/left", "error/errors"):
        trial.fail(scene, "deliver-after", "commit", legs=[leg])
    trial.end(scene)
    errors = {what.removeprefix("error") for _, what in scene.found("errors")}
    assert not errors & {what.removeprefix("ab") for _, what in scene.found("right")}


@case("C18")
def delivered_and_nobody_heard(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "deliver-after", "commit", act="exit")
    trial.end(scene)


@case("C22")
def nothing_to_write(trial: Trial) -> None:
    """Once it is written down it counts as delivered; before, it is tried again."""
    scene = trial.bench.scene("nil")
    scene.send(20, "a")
    trial.fail(scene, "attempt-after", "commit")
    scene.finish()
    assert {scene.retries() > 0} == {row.replays for row in trial.rows}
    scene.send(5, "a")
    trial.fail(scene, "attempt-before", "commit")
    scene.send(2, "b")
    scene.finish()
    scene.settle(trial.part)
    assert scene.retries() > 0


# -- several destinations --------------------------------------------------------------------------


@case("C20")
def struck_on_the_way_to_the_error_queue(trial: Trial) -> None:
    scene = trial.scene("fork")
    scene.finish(legs=["fork"])
    for point, role in (
        ("write-before", "task"), ("write-after", "task"), ("attempt-after", "commit")
    ):  # fmt: skip
        trial.fail(scene, point, role, legs=["error/errors"])
    trial.end(scene)


@case("C21", "F3")
def destinations_fail_for_long(trial: Trial) -> None:
    """An output and the error queue stall, and the other output goes on."""
    scene = trial.scene("fork")
    scene.finish(legs=["fork"])
    for leg in ("error/errors", "output/left", "error/errors"):
        trial.fail(scene, "write-before", "task", legs=[leg])
    scene.finish(legs=["output/right"])
    assert scene.found("errors") == scene.found("left") == []
    assert scene.found("right") == scene.shape.expect(scene.given)["right"]
    trial.end(scene)


@case("F1")
def staged_and_nothing_fanned_out(trial: Trial) -> None:
    scene = trial.scene("fork")
    trial.fail(scene, "plan-before", "source", legs=["fork", "output/left"], nth=4)
    trial.end(scene)


@case("F2", "M4")
def some_destinations_have_their_part(trial: Trial) -> None:
    scene = trial.scene("fork")
    scene.finish(legs=["fork", "output/left"])
    trial.fail(scene, "fan-out-after", "task", legs=["output/right"])
    trial.fail(scene, "write-after", "task", legs=["output/right"], act="exit")
    trial.end(scene)


@case("M16")
def function_that_gives_another_result(trial: Trial) -> None:
    """What was staged first is what is delivered, and where it went it goes again."""
    scene = trial.scene("guess")
    trial.fail(scene, "attempt-before", "commit", legs=["guess"])
    trial.fail(scene, "write-before", "task", legs=["output/out"], nth=2)
    trial.end(scene)


@case("S1")
def stopped_while_the_function_runs_and_while_idle(trial: Trial) -> None:
    """A batch that runs is awaited; so nothing is left in doubt."""
    scene, name = trial.scene("pipe"), "graph.run-during"
    points, driver = trial.bench.points, trial.bench.driver
    points.want(name, Strike("wait"))
    ticket = driver.ask(scene.order(runs="on"))
    scene.count(trial.part, "wait", name, ticket)
    driver.ask_to_stop(ticket)
    driver.check_runs(ticket)
    points.release(name)
    assert driver.answer(ticket).is_clean
    ticket = driver.ask(scene.order(runs="on"))
    driver.ask_to_stop(ticket)
    assert driver.answer(ticket).is_clean
    trial.check(scene)


@case("F4")
def staging_trimmed_below_its_slowest_reader(trial: Trial) -> None:
    scene = trial.bench.scene("fork", is_trimmed=True)
    scene.send(100)
    scene.finish(legs=["fork"], settings={"max_rows": 20})
    trial.fail(scene, "write-before", "task", legs=["output/left"])
    (staging,) = trial.bench.client.list(f"prefix=_stage/{scene.name}/").journals
    scene.trim(staging.spec.name)
    trial.refused(scene, legs=["output/left"])
    scene.settle(trial.part, is_partial=True)


# -- starting again --------------------------------------------------------------------------------


@case("R1")
def within_recovery(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "write-after", "task")
    for point in ("recover-before", "recover-after"):
        trial.fail(scene, point, "driver")
    trial.end(scene)


@case("R2")
def in_a_retry_at_any_step(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "write-before", "task", nth=2)
    for point, role in (
        ("snapshot-before", "source"),
        ("snapshot-after", "source"),
        ("read-before", "task"),
        ("run-during", "task"),
        ("write-after", "task"),
        ("attempt-before", "commit"),
        ("attempt-after", "commit"),
        ("deliver-before", "commit"),
    ):
        trial.fail(scene, point, role)
    trial.end(scene)
    assert len(hashes(scene)) == 1


@case("R3")
def backing_journal_lost_in_mid_attempt(trial: Trial) -> None:
    """What was written before is known by the marks; what comes again ends elsewhere."""
    scene = trial.scene("pipe")
    trial.fail(scene, "write-before", "task", nth=2)
    before = hashes(scene)
    scene.lose_journal(f"_backing/{scene.name}/copy")
    scene.finish(settings={"max_rows": 7})
    scene.settle(trial.part)
    assert not set(hashes(scene)) & set(before), "it was planned anew, and read again"


@case("R4")
def output_trimmed(trial: Trial) -> None:
    """The proof is in the registers, not in messages that may be gone."""
    scene = trial.bench.scene("narrow", is_trimmed=True)
    scene.send(150)
    trial.fail(scene, "deliver-after", "commit", nth=6, settings={"max_rows": 25})
    before = scene.found("out")
    scene.trim(*scene.journals("out"))
    kept = scene.found("out")
    assert 0 < len(kept) < len(before)
    gone = before[: len(before) - len(kept)]
    scene.send(10)
    scene.finish()
    scene.settle(trial.part, maybe=[("out", what) for _, what in gone])
    assert scene.retries() == 0


@case("R5")
def inputs_come_and_go(trial: Trial) -> None:
    scene = trial.scene("alts")
    trial.fail(scene, "deliver-after", "commit")
    for inputs in (["a", "c"], ["c", "b", "a"]):
        scene.read_others(inputs)
        scene.send(5, *inputs)
        scene.finish()
    trial.check(scene)


@case("R5")
def input_of_an_attempt_in_doubt_is_gone(trial: Trial) -> None:
    scene = trial.scene("alts")
    trial.fail(scene, "write-after", "task")
    scene.read_others(["a", "c"])
    assert '"b"' in trial.refused(scene).reason
    scene.read_others(["a", "b"])
    scene.finish()
    scene.settle(trial.part)


@case("R6")
def new_code_completes_the_attempt(trial: Trial) -> None:
    scene = trial.scene("narrow")
    trial.fail(scene, "write-after", "task")
    scene.options["settings"] = {"version": "2"}
    trial.end(scene)


@case("R6")
def old_code_has_written_to_some_targets(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "write-before", "task", nth=2)
    scene.options["settings"] = {"version": "2"}
    trial.refused(scene)
    scene.options["settings"] = {"version": "1"}
    trial.end(scene)


@case("R7")
def strategy_of_effects_changes(trial: Trial) -> None:
    """An attempt in doubt ends by the strategy it began with, and nothing is done again."""
    scene = trial.scene("effects", 10)
    strategies = ["at-least-once", "at-most-once", "at-least-once"]
    for nth, strategy in enumerate(strategies):
        scene.options["settings"] = {"strategy": strategy}
        # What is in doubt is finished first; then comes a snapshot under the new strategy.
        trial.fail(
            scene, "snapshot-after", "source", nth=2 if nth else 1, settings={"max_rows": 10}
        )
        scene.send(10)
    trial.end(scene)
    assert [snapshot.strategy for snapshot in snapshots(scene)][:3] == strategies


# -- what Spark remembers --------------------------------------------------------------------------


@case("M1")
def offset_log_torn(trial: Trial) -> None:
    torn(trial, "offsets")


@case("M7")
def commit_log_torn(trial: Trial) -> None:
    torn(trial, "commits")


def torn(trial: Trial, log: str) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "attempt-before", "commit", nth=2, settings={"max_rows": 10})
    scene.tear(log)
    trial.end(scene)


@case("M8")
def source_not_told_of_the_commit(trial: Trial) -> None:
    scene = trial.scene("pipe")
    answer = trial.fail(
        scene, "plan-before", "source", act="exit", nth=2, settings={"max_rows": 10}
    )
    assert not answer.is_clean
    assert [each.name for each in scene.checkpoints().rglob("commits/0")] == ["0"]
    trial.end(scene)


@case("M9")
def state_written_and_not_committed(trial: Trial) -> None:
    """The state of the batch before is loaded again; and where there is state, its loss is told."""
    scene = trial.scene("dedupe")
    trial.fail(scene, "attempt-before", "commit", legs=["dedupe"])
    scene.repeat(10)
    trial.end(scene)
    scene.lose_checkpoint()
    assert scene.drain(legs=["dedupe"]).error == "StateLost"


@case("M11")
def checkpoint_lost(trial: Trial) -> None:
    """It goes on after the last delivery, not from the beginning."""
    scene = trial.scene("pipe")
    trial.fail(scene, "deliver-after", "commit", nth=2, settings={"max_rows": 10})
    scene.lose_checkpoint()
    scene.send(10)
    trial.end(scene)
    assert len(set(hashes(scene))) == len(hashes(scene)) == 3


@case("M11")
def checkpoint_rolled_back(trial: Trial) -> None:
    scene = trial.scene("pipe")
    scene.finish()
    older = scene.copy_checkpoint()
    scene.send(20)
    trial.fail(scene, "deliver-after", "commit", nth=2, settings={"max_rows": 10})
    scene.lose_checkpoint()
    older.rename(scene.checkpoints())
    scene.send(10)
    trial.end(scene)


@case("M12")
def sink_lost(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "deliver-after", "commit", nth=2, settings={"max_rows": 10})
    for journal in scene.journals("out"):
        scene.lose_journal(journal)
    scene.make_queues()
    trial.refused(scene)
    trial.end(scene, accepted={"sink_loss": True})


@case("M13")
def source_trimmed(trial: Trial) -> None:
    scene = trial.bench.scene("narrow", is_trimmed=True)
    for _ in range(10):
        scene.send(20)
    trial.fail(scene, "write-before", "task")
    scene.trim(*scene.journals("a"))
    trial.refused(scene)
    scene.settle(trial.part, is_partial=True)


@case("M14")
def sources_swapped_and_one_added(trial: Trial) -> None:
    scene = trial.scene("alts")
    trial.fail(scene, "deliver-after", "commit")
    scene.read_others(["c", "b", "a"])
    scene.send(5)
    trial.end(scene)


@case("M15")
def splits_and_shuffle_changed_between_attempts(trial: Trial) -> None:
    scene = trial.scene("pipe")
    trial.fail(scene, "write-before", "task", nth=2, settings={"rows_per_task": 4})
    conf = {"spark.sql.shuffle.partitions": "5"}
    trial.fail(scene, "write-before", "task", nth=2, settings={"rows_per_task": 7}, conf=conf)
    trial.end(scene, settings={"rows_per_task": 1}, conf={"spark.sql.shuffle.partitions": "1"})


@case("M10")
def zombie_wakes_after_it_was_taken_over(trial: Trial) -> None:
    """Two queries of one processor: the one that waits, and the one that took over meanwhile."""
    for point in ("write-before", "attempt-before", "deliver-before"):
        scene = trial.scene("pipe")
        name, points, driver = f"graph.{point}", trial.bench.points, trial.bench.driver
        points.want(name, Strike("wait"))
        ticket = driver.ask(scene.order())
        scene.count(trial.part, "wait", name, ticket)
        scene.checkpoint = "another"
        scene.send(5)
        scene.finish(is_beside=True)
        points.release(name)
        zombie = driver.answer(ticket)
        assert (zombie.error, zombie.kind) == ("Fenced", "fenced"), zombie
        scene.send(5)
        trial.end(scene)


# -- at most once ----------------------------------------------------------------------------------


@case("A1")
def claimed_and_not_done(trial: Trial) -> None:
    """What was claimed is gone, whoever tries again; what comes after it is done."""
    scene = trial.scene("once")
    assert trial.strike(scene, "write-after", "task").is_clean
    scene.send(5)
    scene.finish()
    scene.settle(trial.part, maybe=[(EFFECTS, f"a{n}") for n in range(20)])
    done = {what for _, what in scene.found(EFFECTS)}
    assert [row.outcome for row in trial.rows] == ["lost-by-contract"]
    assert len(done) < 25
    assert {f"a{n}" for n in range(20, 25)} <= done


@pytest.mark.proves("graph-exactly-once")
@pytest.mark.parametrize(
    ("names", "run"),
    [pytest.param(*each, id=f"{'+'.join(each[0])}-{each[1].__name__}") for each in CASES],
)
def test_row(names: tuple[str, ...], run: Case, bench: GraphBench, faults: FaultLog) -> None:
    run(Trial(bench, faults.part("graph"), tuple(ROWS[name] for name in names)))


def test_every_row_is_tried_on_a_query() -> None:
    assert set(ROWS) == {name for names, _ in CASES for name in names}
