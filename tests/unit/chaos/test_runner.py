from __future__ import annotations

from tests.unit.chaos.scenes import NotedScene
from windrow.chaos.accounts import Arrival, Ends, Written
from windrow.chaos.errors import NotRun
from windrow.chaos.options import Options
from windrow.chaos.outcome import Outcome
from windrow.chaos.runner import run_scenario
from windrow.chaos.scenarios import Scenario, choose
from windrow.errors import StartFailed

QUICK = Options(seconds=0.02, patience=0.3)


def outcome_of(name: str, scene: NotedScene) -> Outcome:
    (scenario,) = choose([name])
    return run_scenario(scenario, QUICK, lambda *_: scene, lambda name, done: None)


def test_a_scenario_whose_ends_agree_passes() -> None:
    scene = NotedScene()
    outcome = outcome_of("S1", scene)
    assert outcome.grade.result == "pass"
    assert outcome.outbox is not None
    assert outcome.sync is not None
    assert (outcome.outbox.lost, outcome.sync.lost) == (0, 1)
    assert scene.calls["closed"] == 1
    assert scene.calls["stream"] == 0


def test_a_message_that_the_receiver_never_got_fails_the_scenario() -> None:
    lost = Ends({"outbox": [Written("1", 0.0)], "sync": [Written("2", 0.0)]}, [])
    outcome = outcome_of("S1", NotedScene(lost))
    assert outcome.grade.result == "fail"
    assert "lost 1 of 1" in outcome.grade.reasons[0]


def test_an_arrival_of_a_hero_that_was_never_committed_is_charged_to_the_outbox() -> None:
    ghost = Ends({"outbox": [], "sync": [Written("2", 0.0)]}, [Arrival("9", "id-9", 1.0)])
    outcome = outcome_of("S1", NotedScene(ghost))
    assert outcome.outbox is not None
    assert outcome.sync is not None
    assert (outcome.outbox.unexpected, outcome.sync.unexpected) == (1, 0)
    assert outcome.grade.result == "fail"


def test_an_outbox_that_never_empties_is_stuck_and_fails_in_time() -> None:
    class Full(NotedScene):
        def waiting(self) -> int | None:
            return 7

    scene = Full()
    outcome = outcome_of("S1", scene)
    assert outcome.grade.result == "fail"
    assert "an empty outbox" in outcome.grade.reasons[-1]
    assert scene.calls["made well"] == scene.calls["closed"] == 1


def test_relays_that_end_by_themselves_are_told_at_once() -> None:
    scene = NotedScene()
    scene.ended = ["relay-1 ended by itself: no such table"]
    outcome = outcome_of("S1", scene)
    assert outcome.grade.result == "fail"
    assert "no such table" in outcome.grade.reasons[-1]


def test_dead_letters_are_retried_where_they_must_be_and_nowhere_else() -> None:
    refused, offline = NotedScene(buried=4), NotedScene(buried=4)
    outcome = outcome_of("S5", refused)
    assert (outcome.buried, outcome.grade.result) == (4, "pass")
    assert refused.calls["retried"] == 1
    outcome_of("S1", offline)
    assert offline.calls["retried"] == 0


def test_what_cannot_be_set_up_fails_and_what_is_not_installed_is_not_run() -> None:
    def broken(scenario: Scenario, options: Options) -> NotedScene:
        raise StartFailed("playpen receiver", "its port is taken")

    def absent(scenario: Scenario, options: Options) -> NotedScene:
        raise NotRun(scenario.name, "there is no Java")

    (scenario,) = choose(["broker-loss"])
    told: list[float] = []
    failed = run_scenario(scenario, QUICK, broken, lambda name, done: told.append(done))
    assert failed.grade.result == "fail"
    assert "its port is taken" in failed.grade.reasons[0]
    skipped = run_scenario(scenario, QUICK, absent, lambda name, done: told.append(done))
    assert (skipped.grade.result, skipped.grade.holds) == ("not run", True)
    assert skipped.grade.reasons == ("there is no Java",)
