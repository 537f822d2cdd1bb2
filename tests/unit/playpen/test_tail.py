from __future__ import annotations

from pathlib import Path

from windrow.playpen.tail import Tail


def test_each_line_is_shown_once_and_only_when_it_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\nsec")
    tail = Tail("relay-1", log)
    assert tail.lines() == ["first"]
    assert tail.lines() == []
    with log.open("a") as file:
        file.write("ond\nthird\n")
    assert tail.lines() == ["second", "third"]
