from __future__ import annotations

import random

import pytest

from tests.unit.chaos.scenes import NotedScene
from windrow.chaos.options import Options
from windrow.chaos.scenarios import POINTS
from windrow.chaos.stage import Stage
from windrow.chaos.strikes import STRIKES

QUICK = Options(seconds=0.02, patience=5.0)


def struck(name: str, scene: NotedScene) -> Stage:
    stage = Stage(scene, QUICK, random.Random(1))
    STRIKES[name]()(stage)
    return stage


@pytest.mark.parametrize("name", STRIKES)
def test_a_strike_is_noted_and_leaves_everything_well(name: str) -> None:
    scene = NotedScene(buried=3)
    stage = struck(name, scene)
    assert stage.strikes > 0
    assert len(stage.stretches) == stage.strikes
    assert scene.calls["receiver"] == scene.calls["database"] == scene.calls["network"] == 0
    assert not scene.paused
    assert scene.calls["point"] == 0
    assert not scene.faults or scene.faults[-1] == {}
    assert not scene.delays or scene.delays[-1] == 0.0
    assert scene.relays, "somebody is left to deliver"


def test_a_relay_is_killed_at_each_point_with_another_alive_and_with_none() -> None:
    scene = NotedScene()
    stage = struck("S7", scene)
    assert sorted(scene.killed_points) == sorted(
        f"{point} of {relays}" for point in POINTS for relays in (1, 2)
    )
    assert stage.strikes == 2 * len(POINTS)
    assert scene.most_relays == 2


def test_the_order_of_kills_and_the_messages_that_fail_depend_on_the_seed_alone() -> None:
    def order(seed: int) -> list[str]:
        scene = NotedScene()
        STRIKES["S7"]()(Stage(scene, QUICK, random.Random(seed)))
        return scene.killed_points

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_a_lock_holder_is_paused_for_longer_than_its_locks_last() -> None:
    scene = NotedScene()
    stage = struck("S6", scene)
    pause = stage.stretches[1]
    assert pause.until is not None
    assert pause.until - pause.at >= scene.lock_expiry
