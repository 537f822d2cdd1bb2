"""What is told of a demonstration: the same to programs, on the page and in the terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from windrow.demo.gauge import Sample
from windrow.demo.parts import Part
from windrow.demo.story import Demonstration
from windrow.report import (
    Bar,
    BarPlot,
    Column,
    LinePlot,
    Mark,
    Page,
    Section,
    Series,
    Table,
    Text,
    Verdict,
)

POINTS: Final = 200
"""Of a line on the page, at most."""
COUNTS: Final = ("written", "delivered", "lost", "doubled", "misordered", "unexpected")

SENTENCE: Final = (
    "Heroes were created under load and went over the outbox, a relay, {log} and a graph on Spark"
    " into a table; the relay, the broker and the driver of Spark were killed on the way."
)
JUDGE: Final = (
    "Counted by windrow verify, a process of its own that read nothing but the service's table and"
    " the two ends of the road."
)


def as_object(shown: Demonstration, parts: Sequence[Part]) -> dict[str, Any]:
    """As ``windrow demo --json`` prints it."""
    return {
        "verdict": {**_counts(shown), "holds": shown.holds},
        "ends": [_end(verdict) for verdict in shown.verdicts],
        "totals": shown.totals,
        "wrong_totals": shown.wrong_totals,
        "killed": [
            {
                "part": kill.part,
                "pid": kill.pid,
                "at": round(at, 3),
                "then": kill.successor,
                "written": _written_by(shown.samples, at),
            }
            for at, kill in shown.killed
        ],
        "stretches": [
            {"name": each.name, "p50": round(each.p50, 4), "p99": round(each.p99, 4)}
            for each in shown.stretches
        ],
        "stages": [
            {"name": stage.name, "seconds": round(stage.seconds, 1)} for stage in shown.stages
        ],
        "parts": [asdict(part) for part in parts],
    }


def _written_by(samples: Sequence[Sample], at: float) -> int:
    return max((sample.written for sample in samples if sample.at <= at), default=0)


def _counts(shown: Demonstration) -> dict[str, int]:
    """Of both ends together: as bad as the worse of them."""
    worst = {name: [getattr(v, name) for v in shown.verdicts] for name in COUNTS}
    least = {"written", "delivered"}
    return {n: (min if n in least else max)(found, default=0) for n, found in worst.items()}


def _end(verdict: Any) -> dict[str, Any]:
    counts = {name: getattr(verdict, name) for name in COUNTS}
    return {"end": verdict.end, **counts, "clean": verdict.is_clean}


def page_of(told: dict[str, Any], samples: Sequence[Sample], log: str) -> Page:
    """The report on it.

    Args:
        told: What ``as_object`` gave; every number on the page is one of these.
        samples: How the counts went, for the plot.
        log: What lies between the relay and Spark.
    """
    holds = told["verdict"]["holds"]
    return Page(
        title="Windrow: the whole road",
        lead=SENTENCE.format(log="a journal" if log == "journal" else log),
        verdict=Verdict.of(holds, "clean" if holds else "broken"),
        sections=[
            Section("Verdict", [Text(JUDGE), _ends(told)], id="verdict"),
            Section("On the way", [_lines(told, samples), _kills(told)], id="way"),
            Section("How long it took", [_delays(told), _bars(told)], id="delays"),
            Section("Where the time went", [_stages(told)], id="stages"),
            Section("Totals per team", [_totals(told)], id="totals"),
        ],
        data=told,
    )


def _ends(told: dict[str, Any]) -> Table:
    rows = [
        [end["end"], *(end[name] for name in COUNTS), Verdict.of(end["clean"])]
        for end in told["ends"]
    ]
    return Table("What was written against what arrived", ["end", *COUNTS, "verdict"], rows)


def _kills(told: dict[str, Any]) -> Table:
    rows = [[each["part"], str(each["pid"]), each["at"], each["then"]] for each in told["killed"]]
    columns: list[Column | str] = ["killed", "process", Column("at", "s", 1), "then"]
    return Table("Killed with SIGKILL", columns, rows)


def _delays(told: dict[str, Any]) -> Table:
    rows = [[each["name"], each["p50"], each["p99"]] for each in told["stretches"]]
    columns: list[Column | str] = ["stretch", Column("p50", "s"), Column("p99", "s")]
    return Table("Delay of a hero, kills and restarts included", columns, rows)


def _bars(told: dict[str, Any]) -> BarPlot:
    bars = [
        Bar(f"{each['name']}, {name}", each[name], name)
        for each in told["stretches"]
        for name in ("p50", "p99")
    ]
    return BarPlot("Delay per stretch", bars, Column("delay", "s"), id="delay-bars")


def _stages(told: dict[str, Any]) -> Table:
    rows = [[each["name"], each["seconds"]] for each in told["stages"]]
    return Table("Stages of the demonstration", ["stage", Column("time", "s", 1)], rows)


def _totals(told: dict[str, Any]) -> Table:
    rows = list(told["totals"].items())
    return Table("Heroes that the graph has counted", ["team", "heroes"], rows)


def _lines(told: dict[str, Any], samples: Sequence[Sample]) -> LinePlot:
    names = ("written", "relayed", "arrived", "audited")
    series = [
        Series(name, [(round(each.at, 2), getattr(each, name)) for each in thinned(samples)])
        for name in names
    ]
    marks = [Mark(each["at"], each["part"]) for each in told["killed"]]
    title = "Heroes at each place, and what was killed when"
    return LinePlot(title, series, marks, Column("time", "s"), Column("heroes"), id="counts")


def thinned(samples: Sequence[Sample]) -> list[Sample]:
    """A number of samples that can be drawn; the last one, which tells how it ended, is kept."""
    step = max(1, len(samples) // POINTS)
    return [*samples[:-1:step], *samples[-1:]]
