"""The page of Cues' features is whole, and every test that it names exists."""

from __future__ import annotations

import re

from tests.unit.relay.test_goharvest_parity import ROOT, names_in

PAGE = ROOT / "docs" / "reference" / "cues-parity.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = [line.split(" | ") for line in TEXT.splitlines() if re.match(r"\| \d", line)]


def test_every_feature_is_there_once_with_what_became_of_it_and_a_test() -> None:
    assert [int(row[0].removeprefix("| ")) for row in ROWS] == list(range(1, 23))
    assert {row[2] for row in ROWS} == {"kept", "more", "otherwise"}
    assert all("`tests/" in row[-1] for row in ROWS)


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) >= len(ROWS)
    assert [f"{path}::{name}" for path, name in named if name not in names_in(path)] == []
