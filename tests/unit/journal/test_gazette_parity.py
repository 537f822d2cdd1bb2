"""The page of Gazette's behaviours is whole, and every test that it names exists.

Sections may be added at will: each is one table, whose rows are numbered from 1 behind the last
part of the section's name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.unit.relay.test_goharvest_parity import ROOT, names_in

PAGE = ROOT / "docs" / "reference" / "gazette-parity.md"
SHORTEST = {"kept": 0, "more": 10, "otherwise": 20}
"""What may become of a behaviour; and whoever differs says why in more letters than these."""
FATES = SHORTEST.keys()
HEADER = "| # | What it asks | Here | How | Test |"


class Row(NamedTuple):
    section: str
    number: str
    asks: str
    fate: str
    how: str
    tests: list[str]


def rows_of(text: str) -> Iterator[Row]:
    section = ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("|") and line != HEADER and not line.startswith("| ---"):
            number, asks, fate, how, tests = [cell.strip() for cell in line[1:-1].split(" | ")]
            yield Row(section, number, asks, fate, how, tests.split(", "))


def problems(rows: list[Row]) -> list[str]:
    """Whatever a row lacks."""
    found = []
    for row in rows:
        if row.fate not in FATES:
            found.append(f"{row.number}: {row.fate!r} is none of {sorted(FATES)}")
        if not row.asks:
            found.append(f"{row.number}: asks nothing")
        if len(row.how) <= SHORTEST[row.fate if row.fate in FATES else "kept"]:
            found.append(f"{row.number}: does not say how or why")
        found += [f"{row.number}: no test {test}" for test in row.tests if not exists(test)]
    return found


def exists(test: str) -> bool:
    match = re.fullmatch(r"`(tests/[\w/]+\.py)::([\w:]+)`", test)
    return match is not None and (ROOT / match[1]).is_file() and match[2] in names_in(match[1])


TEXT = PAGE.read_text(encoding="utf-8")
ROWS = list(rows_of(TEXT))
SECTIONS = dict.fromkeys(row.section for row in ROWS)


def test_every_row_says_what_became_of_it_and_names_tests_that_exist() -> None:
    assert len(ROWS) > 200
    assert problems(ROWS) == []


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_is_there_once_and_numbered_from_one(section: str) -> None:
    assert TEXT.count(f"## {section}\n") == 1
    numbers = [row.number for row in ROWS if row.section == section]
    name = section.rpartition("/")[2]
    assert numbers == [f"{name} {number}" for number in range(1, len(numbers) + 1)]


def test_no_two_rows_have_the_same_number() -> None:
    assert [
        number for number, count in Counter(row.number for row in ROWS).items() if count > 1
    ] == []


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("| a 1 | x | kept | – |  |", "a 1: no test "),
        ("| a 1 | x | kept | – | `tests/unit/gone.py::test_x` |", "`tests/unit/gone.py::test_x`"),
        ("| a 1 | x | kept | – | `tests/unit/journal/test_names.py::test_x` |", "::test_x`"),
        ("| a 1 | x | gone | – | `tests/x.py::test_x` |", "is none of"),
        ("| a 1 | x | otherwise | – | `tests/x.py::test_x` |", "does not say how or why"),
    ],
)
def test_a_row_that_lacks_something_would_be_found(row: str, problem: str) -> None:
    assert any(problem in found for found in problems(list(rows_of(row))))
