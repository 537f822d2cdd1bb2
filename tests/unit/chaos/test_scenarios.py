from __future__ import annotations

import pytest

from windrow.chaos.errors import UnknownScenario
from windrow.chaos.scenarios import SCENARIOS, choose
from windrow.chaos.strikes import STRIKES


def names(*wanted: str) -> list[str]:
    return [scenario.name for scenario in choose(wanted)]


def test_all_seven_and_the_three_besides_are_declared() -> None:
    assert names() == names("all") == [scenario.name for scenario in SCENARIOS]
    assert names("all") == [
        *(f"S{number}" for number in range(1, 8)),
        "clock-skew",
        "slow-network",
        "broker-loss",
    ]


def test_every_scenario_has_a_strike() -> None:
    assert {scenario.name for scenario in SCENARIOS} == set(STRIKES)


def test_names_are_taken_in_any_case_and_run_once_in_order() -> None:
    assert names("s7", "S1", "s1") == ["S1", "S7"]


def test_an_unknown_name_is_told_with_those_there_are() -> None:
    with pytest.raises(UnknownScenario, match=r"no scenario 's9'; there are S1, .*broker-loss"):
        choose(["S9"])


def test_the_control_must_lose_wherever_its_receiver_cannot_take_the_message() -> None:
    losing = [scenario.name for scenario in SCENARIOS if scenario.promise.control_must_lose]
    assert losing == ["S1", "S2", "S3", "S5", "slow-network"]
