"""The page of rules is whole, and every test that it names exists."""

from __future__ import annotations

import re

from tests.unit.relay.test_goharvest_parity import ROOT, names_in

PAGE = ROOT / "docs" / "explanation" / "relay-correctness.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_rule_is_there_once_with_a_test() -> None:
    rows = [line for line in TEXT.splitlines() if re.match(r"\| R\d", line)]
    numbers = [int(re.match(r"\| R(\d+)", row)[1]) for row in rows]  # type: ignore[index]
    assert sorted(numbers) == list(range(1, 15))
    for row in rows:
        assert "`tests/" in row.split(" | ")[-1]


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 25
    assert [name for path, name in named if name not in names_in(path)] == []
