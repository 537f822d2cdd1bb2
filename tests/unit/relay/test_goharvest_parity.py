"""The table of goharvest's behaviours is whole, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "goharvest-parity.md"
BEHAVIOURS = {
    "battery": 3,
    "config": 14,
    "event": 7,
    "harvest": 21,
    "meter": 4,
    "postgres": 15,
    "stasher": 3,
}
"""goharvest's unit tests, by file."""
MAY_BE_SUPERSEDED = {"shards", "producers", "panics"}


class Row(NamedTuple):
    group: str
    number: int
    theirs: str
    fate: str
    why: str
    tests: list[str]


def rows_of(text: str) -> list[Row]:
    rows, group = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            group = line.removeprefix("## ")
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0].isdigit():
            number, theirs, _, fate, why, tests = cells
            rows.append(Row(group, int(number), theirs, fate, why, re.findall(r"`(.*?)`", tests)))
    return rows


@cache
def names_in(path: str) -> frozenset[str]:
    """The tests of a file: functions, coroutines, and methods as ``Class::name``."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    names = {node.name for node in tree.body if isinstance(node, functions)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = (method for method in node.body if isinstance(method, functions))
            names |= {f"{node.name}::{method.name}" for method in methods}
    return frozenset(names)


def missing_tests(rows: list[Row]) -> list[str]:
    named = {test for row in rows for test in row.tests}
    return sorted(
        test
        for test in named
        if not (ROOT / test.partition("::")[0]).is_file()
        or test.partition("::")[2] not in names_in(test.partition("::")[0])
    )


ROWS = rows_of(PAGE.read_text(encoding="utf-8"))


def test_all_behaviours_of_goharvest_are_listed_once() -> None:
    assert [row.number for row in ROWS] == list(range(1, 68))
    assert Counter(row.group for row in ROWS) == BEHAVIOURS
    assert len({row.theirs for row in ROWS}) == 67


def test_every_behaviour_names_a_test_and_every_test_exists() -> None:
    assert [row.theirs for row in ROWS if not row.tests] == []
    assert missing_tests(ROWS) == []


def test_only_what_is_tied_to_shards_producers_and_panics_is_superseded_and_says_why() -> None:
    for row in ROWS:
        if row.fate != "kept":
            match = re.fullmatch(r"superseded \((\w+)\)", row.fate)
            assert match is not None, row
            assert match[1] in MAY_BE_SUPERSEDED
            assert len(row.why) > 20, f"{row.theirs} does not say why"


def test_the_page_counts_right() -> None:
    superseded = sum(row.fate != "kept" for row in ROWS)
    counts = f"{superseded} of the 67 are superseded, {67 - superseded} are kept."
    assert counts in PAGE.read_text(encoding="utf-8")


def test_a_test_that_does_not_exist_would_be_found() -> None:
    row = "| 1 | `T` | x | kept | – | `tests/unit/relay/test_goharvest_parity.py::test_no_more` |"
    assert missing_tests(rows_of(row)) == [
        "tests/unit/relay/test_goharvest_parity.py::test_no_more"
    ]
    gone = row.replace("test_goharvest_parity", "test_gone")
    assert missing_tests(rows_of(gone)) == ["tests/unit/relay/test_gone.py::test_no_more"]
