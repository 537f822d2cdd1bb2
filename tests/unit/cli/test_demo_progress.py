"""What of a demonstration is seen while it goes on: by people, in a log, and by programs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from windrow.cli import demo_progress
from windrow.cli.demo_progress import Quiet, Shown
from windrow.demo.gauge import Sample
from windrow.demo.road import Kill

KILL = Kill("broker", 17, "and started again on its data as 18")
SAMPLE = Sample(at=3.0, written=9, waiting=2, arrived=5, audited=None)


def show(listener: Quiet) -> None:
    with listener:
        listener.say("a broker runs")
        listener.killed(KILL, 2.0)
        listener.show(SAMPLE)


def test_log_gets_each_step_each_kill_and_the_counts_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_progress, "LINE_INTERVAL", 0.0)
    show(Shown(Console(file=io.StringIO(), force_terminal=False)))
    assert capsys.readouterr().out.splitlines() == [
        "a broker runs",
        "✗ broker: process 17 killed with SIGKILL, and started again on its data as 18",
        "written 9, relayed 7, arrived 5",  # of the audit nothing is known
    ]


def test_counts_come_no_more_often_than_a_log_can_bear(capsys: pytest.CaptureFixture[str]) -> None:
    with Shown(Console(file=io.StringIO(), force_terminal=False)) as listener:
        for _ in range(100):
            listener.show(SAMPLE)
    assert capsys.readouterr().out == ""


def test_person_sees_a_bar_for_each_place() -> None:
    screen = io.StringIO()
    with Shown(Console(file=screen, force_terminal=True, width=80)) as listener:
        listener.show(SAMPLE)
        listener.show(Sample(at=4.0, written=9, waiting=0, arrived=9, audited=9))
    assert all(place in screen.getvalue() for place in demo_progress.PLACES)
    assert "9/9" in screen.getvalue()


def test_programs_get_nothing_but_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    show(Quiet())
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
