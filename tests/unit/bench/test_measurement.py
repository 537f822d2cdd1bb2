from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from windrow.bench import (
    Figure,
    Goal,
    Hardware,
    Measurement,
    at_least,
    at_most,
    interleave,
    performance_page,
)
from windrow.bench.measurement import format_value

MACHINE = Hardware("A cpu", 2, 23.5, "6.1", "3.11.7", 0.4)


def measured(
    repeats: tuple[float, ...], goal: Goal | None = None, machine: Hardware = MACHINE
) -> Measurement:
    return Measurement(Figure("drain", "records/s", repeats, goal), "windrow bench relay", machine)


def test_the_value_is_the_median_so_that_one_bad_repeat_does_not_decide() -> None:
    assert measured((5.0, 1.0, 4.0)).value == 4.0


@pytest.mark.parametrize(
    ("goal", "holds"),
    [
        (at_least(4), True),
        (at_least(4.1), False),
        (at_most(4), True),
        (at_most(3.9), False),
        (None, None),
    ],
)
def test_a_goal_holds_by_the_median(goal: Goal | None, holds: bool | None) -> None:
    assert measured((5.0, 1.0, 4.0), goal).holds is holds


def test_a_goal_that_is_met_exactly_holds_though_a_quotient_is_off_in_its_last_bit() -> None:
    """Processor time is counted in ticks: 4.32 s for 240,000 records are 18 µs and no more."""
    cost = (8.96 - 4.64) / 240_000 * 1e6
    assert cost > 18
    assert at_most(18).holds(cost)
    assert at_least(cost).holds(18)
    assert not at_most(18).holds(18.0001)


def test_every_part_reports_the_same_fields() -> None:
    assert json.loads(json.dumps(measured((5.0, 1.0, 4.0), at_least(3)).to_json())) == {
        "name": "drain",
        "value": 4.0,
        "unit": "records/s",
        "goal": {"at_least": 3},
        "holds": True,
        "repeats": [5.0, 1.0, 4.0],
        "command": "windrow bench relay",
        "hardware": {
            "cpu": "A cpu",
            "cores": 2,
            "memory_gib": 23.5,
            "kernel": "6.1",
            "python": "3.11.7",
            "load": 0.4,
        },
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1_076_543.2, "1,080,000"),
        (1000.4, "1,000"),
        (412.3, "412"),
        (12.345, "12.3"),
        (0.8345, "0.835"),
        (0, "0"),
    ],
)
def test_figures_are_written_with_the_digits_that_mean_something(value: float, text: str) -> None:
    assert format_value(value) == text


def test_both_sides_of_a_ratio_are_measured_in_turn() -> None:
    order: list[str] = []

    def timed(name: str, value: float) -> float:
        order.append(name)
        return value

    pair = interleave(lambda: timed("a", 6.0), lambda: timed("b", 2.0), 3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert pair.ratios == (3.0, 3.0, 3.0)


def test_this_machine_describes_itself() -> None:
    here = Hardware.here()
    assert here.cpu
    assert here.cores >= 1
    assert here.memory_gib > 0
    assert here.python.startswith("3.")


def test_the_page_has_the_command_and_the_machine_above_each_table() -> None:
    other = Measurement(Figure("append", "ms", (2.0,)), "windrow bench journal", MACHINE)
    page = performance_page(
        [measured((5.0, 1.0, 4.0), at_least(9)), measured((9.0,), at_least(9)), other],
        "2026-01-02",
    )
    assert page.partition("\n## ")[2] == (
        """`windrow bench journal`

A cpu, 2 cores, 23.5 GiB, Linux 6.1, Python 3.11.7, load 0.4 at the start, on 2026-01-02.

| figure | median | unit | lowest … highest | repeats | goal | holds |
|---|---:|---|---|---:|---|---|
| append | 2 | ms | 2 … 2 | 1 | – | – |

## `windrow bench relay`

A cpu, 2 cores, 23.5 GiB, Linux 6.1, Python 3.11.7, load 0.4 at the start, on 2026-01-02.

| figure | median | unit | lowest … highest | repeats | goal | holds |
|---|---:|---|---|---:|---|---|
| drain | 4 | records/s | 1 … 5 | 3 | ≥ 9 | **no** |
| drain | 9 | records/s | 9 … 9 | 1 | ≥ 9 | yes |
"""
    )


def test_a_part_that_is_measured_alone_leaves_the_others_on_the_page() -> None:
    journal = Measurement(Figure("append", "ms", (2.0,)), "windrow bench journal", MACHINE)
    whole = performance_page([measured((5.0,)), journal], "2026-01-02")
    assert performance_page([], "2026-01-03", whole) == whole
    page = performance_page([measured((7.0,))], "2026-01-03", whole)
    assert page == whole.replace("| 5 |", "| 7 |").replace("5 … 5", "7 … 7").replace(
        "on 2026-01-02.", "on 2026-01-03."
    ).replace("on 2026-01-03.", "on 2026-01-02.", 1)


def test_each_kind_of_processor_keeps_its_table_and_the_newest_stands_first() -> None:
    slower = replace(MACHINE, cpu="A slower cpu", load=1.2)
    first = performance_page([measured((9.0,), at_least(9))], "2026-01-02")
    both = performance_page([measured((7.0,), at_least(9), slower)], "2026-01-03", first)
    assert headings(both) == [("A slower cpu", "2026-01-03"), ("A cpu", "2026-01-02")]
    assert first.partition("bench relay`\n")[2] in both
    again = performance_page([measured((8.0,), at_least(9))], "2026-01-04", both)
    assert headings(again) == [("A cpu", "2026-01-04"), ("A slower cpu", "2026-01-03")]
    assert performance_page([], "2026-01-05", again) == again


def headings(page: str) -> list[tuple[str, str]]:
    """The processor and the date above each table."""
    return re.findall(r"^(.+), 2 cores.* on (.+)\.$", page, re.MULTILINE)
