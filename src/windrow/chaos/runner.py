"""Run scenarios one after the other, and grade each by what its two ends hold."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from windrow.chaos.accounts import KINDS, Account, Ends, account_of, over_time
from windrow.chaos.databases import Server, start_server
from windrow.chaos.errors import NotRun, Stuck
from windrow.chaos.grading import Grade, grade
from windrow.chaos.options import Options
from windrow.chaos.outcome import Outcome, run_object
from windrow.chaos.scenarios import Scenario
from windrow.chaos.stage import Stage, World
from windrow.chaos.strikes import STRIKES
from windrow.errors import WindrowError
from windrow.extras import require

BEFORE, AFTER = 0.2, 0.2
"""Shares of a scenario's seconds that all is well, before the fault and behind it."""

Progress = Callable[[str, float], None]
"""Told which scenario runs, and how much of it has passed, from 0 to 1."""


class Scene(World, Protocol):
    """A world with a stream of requests through it, and two ends to be counted."""

    def start_stream(self) -> None:
        """Begin to send requests."""

    def stop_stream(self) -> None:
        """Send no more."""

    def has_delivered(self) -> bool:
        """Whether a message has come through."""

    def ended_relays(self) -> list[str]:
        """The relays that ended though nobody asked them to."""

    def make_well(self) -> None:
        """End what faults are left."""

    def ends(self) -> Ends:
        """What the two ends hold."""

    def close(self) -> None:
        """End everything."""


OpenScene = Callable[[Scenario, Options], Scene]


def run(
    scenarios: Sequence[Scenario], options: Options, progress: Progress = lambda name, done: None
) -> dict[str, Any]:
    """Run them and return the report, as `windrow.chaos.outcome` describes it.

    Nothing that is started here outlives the call.

    Raises:
        MissingExtra: A part is not installed that every scenario needs.
        StartFailed: The database did not come up.
    """
    for module in ("starlette", "uvicorn", "httpx", "aiohttp"):
        require(module)  # or each scenario would tell it, by a service that does not come up
    server = start_server(options.database)
    try:
        outcomes = [
            run_scenario(scenario, options, partial(_open, server), progress)
            for scenario in scenarios
        ]
    finally:
        server.stop()
    return run_object(
        outcomes,
        database=options.database,
        relays=options.relays,
        rate=options.rate,
        seconds_each=options.seconds,
        seed=options.seed,
    )


def run_scenario(
    scenario: Scenario, options: Options, open_scene: OpenScene, progress: Progress
) -> Outcome:
    """Run one of them: whatever happens in it is told in its outcome."""
    progress(scenario.name, 0.0)
    began = time.monotonic()
    try:
        scene = open_scene(scenario, options)
    except NotRun as error:
        return Outcome(scenario, Grade("not run", (error.reason,)))
    except WindrowError as error:
        return Outcome(scenario, Grade("fail", (f"it could not be set up: {error}",)))
    expected = 2.0 * options.seconds
    try:
        stage = Stage(
            scene,
            options,
            random.Random(f"{options.seed} {scenario.name}"),
            lambda passed: progress(scenario.name, min(0.99, passed / expected)),
        )
        stuck = _perform(scenario, stage, scene)
        return _judge(scenario, stage, scene, stuck, time.monotonic() - began)
    except WindrowError as error:
        reason = f"its two ends could not be counted: {error}"
        return Outcome(scenario, Grade("fail", (reason,)), time.monotonic() - began)
    finally:
        scene.close()
        progress(scenario.name, 1.0)


def _open(server: Server, scenario: Scenario, options: Options) -> Scene:
    if scenario.name == "broker-loss":
        from windrow.chaos.broker_loss import KafkaWorld

        return KafkaWorld(scenario.name, options, server)
    from windrow.chaos.world import PlaypenWorld

    return PlaypenWorld(scenario.name, options, server)


def _perform(scenario: Scenario, stage: Stage, scene: Scene) -> str:
    """All of it, from the first request to an empty outbox; returns what it was stuck on."""
    try:
        scene.start_stream()
        stage.wait(lambda: _goes(scene), "the first delivery")
        stage.elapse(BEFORE)
        STRIKES[scenario.name]()(stage)
        stage.elapse(AFTER)
        scene.stop_stream()
        stage.wait(lambda: scene.waiting() == 0, "an empty outbox")
        if scenario.promise.must_bury:
            stage.note_buried()
            scene.retry_buried()
            stage.struck("dead letters retried")
            stage.wait(lambda: scene.waiting() == 0, "an outbox emptied of what was dead")
    except (Stuck, WindrowError) as error:
        scene.stop_stream()
        scene.make_well()
        return "; ".join([str(error), *scene.ended_relays()])
    return ""


def _goes(scene: Scene) -> bool:
    ended = scene.ended_relays()
    if ended:
        raise Stuck(f"a delivery, since {ended[0]}", 0.0)
    return scene.has_delivered()


def _judge(scenario: Scenario, stage: Stage, scene: Scene, stuck: str, seconds: float) -> Outcome:
    ends = scene.ends()
    accounts: dict[str, Account] = {
        kind: account_of(
            ends.written[kind],
            ends.arrived_of(kind),
            ends.waiting if kind == "outbox" else (),
            stage.fault_ended_at,
        )
        for kind in KINDS
        if kind in ends.written
    }
    timeline: dict[str, Sequence[tuple[float, int, int]]] = {
        kind: over_time(ends.written[kind], ends.arrived_of(kind), stage.began_at)
        for kind in KINDS
        if kind in ends.written
    }
    judged = grade(
        scenario.promise,
        accounts["outbox"],
        accounts.get("sync"),
        strikes=stage.strikes,
        buried=stage.most_buried,
        stuck=stuck,
    )
    return Outcome(
        scenario,
        judged,
        seconds,
        stage.strikes,
        stage.most_buried,
        accounts["outbox"],
        accounts.get("sync"),
        stage.stretches,
        timeline,
    )
