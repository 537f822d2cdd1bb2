"""The page of a journal's rules is whole, and every test that it names exists."""

from __future__ import annotations

import re

from tests.unit.relay.test_goharvest_parity import ROOT, names_in

PAGE = ROOT / "docs" / "explanation" / "journal-correctness.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = [line for line in TEXT.splitlines() if re.match(r"\| [JR]\d", line)]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_rule_is_there_once_with_a_test() -> None:
    numbers = [row.split(" | ")[0].removeprefix("| ") for row in ROWS]
    assert numbers == [*(f"J{number}" for number in range(1, 8)), "R1", "R3", "R6"]
    assert [row for row in ROWS if not TEST.search(row.split(" | ")[-1])] == []


def test_every_test_that_is_named_exists_and_is_named_in_full() -> None:
    named = [match for row in ROWS for match in TEST.findall(row)]
    assert len(named) > 50
    assert [f"{path}::{name}" for path, name in named if name not in names_in(path)] == []
    assert len(named) == TEXT.count("`tests/")


def test_no_rule_names_a_test_twice() -> None:
    for row in ROWS:
        named = TEST.findall(row)
        assert len(set(named)) == len(named), row[:5]
