"""What is told of a run: as JSON, and from that JSON as rows of a table and as a page. Pure.

The page is made from the JSON alone, so that nothing can stand on it that the JSON does not say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from windrow.chaos.accounts import KINDS, Account
from windrow.chaos.grading import Grade
from windrow.chaos.scenarios import Scenario
from windrow.report import (
    Bar,
    BarPlot,
    Block,
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
from windrow.report.cells import Grade as Badge
from windrow.report.cells import shown

_COUNTS = ("written", "delivered", "lost", "waiting", "doubled", "doubled_behind_inbox")
_TIMES = ("p50", "p99", "recovery")
_BADGE: dict[str, Badge] = {"pass": "pass", "fail": "fail"}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Something that happened, in seconds from the beginning of the scenario."""

    label: str
    at: float
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one scenario went.

    Attributes:
        scenario: Which.
        grade: The verdict on it.
        seconds: How long it took, drained and counted.
        strikes: How often its fault struck.
        buried: How many messages were dead letters at the height of it.
        outbox: What became of the messages of the outbox; None if it was not run.
        sync: And of those of the control, if there is one.
        stretches: What happened when.
        timeline: (second, written, delivered) of the outbox and of the control, for plots.
    """

    scenario: Scenario
    grade: Grade
    seconds: float = 0.0
    strikes: int = 0
    buried: int = 0
    outbox: Account | None = None
    sync: Account | None = None
    stretches: Sequence[Stretch] = ()
    timeline: Mapping[str, Sequence[tuple[float, int, int]]] = field(default_factory=dict)

    def as_object(self) -> dict[str, Any]:
        """As JSON tells it."""
        return {
            "name": self.scenario.name,
            "title": self.scenario.title,
            "result": self.grade.result,
            "reasons": list(self.grade.reasons),
            "seconds": round(self.seconds, 3),
            "strikes": self.strikes,
            "buried": self.buried,
            "outbox": None if self.outbox is None else asdict(self.outbox),
            "sync": None if self.sync is None else asdict(self.sync),
            "stretches": [asdict(stretch) for stretch in self.stretches],
            "timeline": {
                kind: [
                    {"at": at, "written": written, "delivered": delivered}
                    for at, written, delivered in points
                ]
                for kind, points in self.timeline.items()
            },
        }


def run_object(outcomes: Sequence[Outcome], **settings: Any) -> dict[str, Any]:
    """The whole run: its settings, every scenario, and whether all of them hold."""
    return {
        **settings,
        "passed": all(outcome.grade.holds for outcome in outcomes),
        "scenarios": [outcome.as_object() for outcome in outcomes],
    }


def rows_of(run: Mapping[str, Any]) -> list[dict[str, str]]:
    """What is printed: a row for each kind of message of each scenario."""
    rows = []
    for scenario in run["scenarios"]:
        kinds = [kind for kind in KINDS if scenario[kind] is not None]
        for kind in kinds or ("",):
            account = scenario[kind] if kind else {}
            first = kind in ("outbox", "")
            rows.append(
                {
                    "scenario": scenario["name"] if first else "",
                    "kind": kind,
                    **{name: _cell(account.get(name)) for name in (*_COUNTS, *_TIMES)},
                    "verdict": scenario["result"] if first else "",
                }
            )
    return rows


def _cell(value: float | None) -> str:
    return "–" if value is None else shown(value)


def page_of(run: Mapping[str, Any]) -> Page:
    """The report as a page, made from what ``run_object`` gave."""
    failed = [each["name"] for each in run["scenarios"] if each["result"] in _NOT_WELL]
    verdict = Verdict.of(run["passed"], "all hold" if run["passed"] else ", ".join(failed))
    lead = (
        f"Database {run['database']}, {run['relays']} relays, {run['rate']:g} requests of each kind"
        f" per second, seed {run['seed']}."
    )
    sections = [_overview(run), *(_section(scenario) for scenario in run["scenarios"])]
    return Page("Windrow: chaos report", sections, run, lead, verdict)


_NOT_WELL = ("fail", "inconclusive")
_COLUMNS: tuple[Column | str, ...] = (
    "scenario and kind",
    *(Column(name.replace("_", " ")) for name in _COUNTS),
    *(Column(name, "s") for name in _TIMES),
)


def _overview(run: Mapping[str, Any]) -> Section:
    verdicts: list[list[str | Verdict]] = [
        [each["name"], each["title"], _verdict(each), "; ".join(each["reasons"])]
        for each in run["scenarios"]
    ]
    counted = [(each, kind) for each in run["scenarios"] for kind in KINDS if each[kind]]
    numbers = [_numbers(f"{each['name']} {kind}", each[kind]) for each, kind in counted]
    lost = [Bar(f"{each['name']} {kind}", each[kind]["lost"], kind) for each, kind in counted]
    return Section(
        "All scenarios",
        [
            Table("Verdicts", ["scenario", "what happens", "verdict", "why"], verdicts, "verdicts"),
            Table("What became of the messages", _COLUMNS, numbers, "numbers"),
            BarPlot("Messages lost", lost, Column("lost"), "lost"),
        ],
        id="overview",
    )


def _numbers(name: str, account: Mapping[str, Any]) -> list[str | float | None]:
    return [name, *(account[each] for each in (*_COUNTS, *_TIMES))]


def _verdict(scenario: Mapping[str, Any]) -> Verdict:
    return Verdict(_BADGE.get(scenario["result"], "unknown"), scenario["result"])


def _section(scenario: Mapping[str, Any]) -> Section:
    name, blocks = scenario["name"], list[Block]()
    if scenario["reasons"]:
        blocks.append(Text("; ".join(scenario["reasons"]) + "."))
    marks = [Mark(each["at"], each["label"], each["until"]) for each in scenario["stretches"]]
    for kind in KINDS:
        points = scenario["timeline"].get(kind)
        if points:
            title = f"{name}, {kind}: written and delivered"
            blocks.append(LinePlot(title, _series(points), marks, id=f"{name}-{kind}".lower()))
    figures = [
        ["times the fault struck", scenario["strikes"]],
        ["dead letters at its height", scenario["buried"]],
        ["seconds in all", scenario["seconds"]],
    ]
    blocks.append(Table(f"{name} in figures", ["figure", "value"], figures))
    heading = f"{name}: {scenario['title']}"
    return Section(heading, blocks, _verdict(scenario), f"scenario-{name}".lower())


def _series(points: Sequence[Mapping[str, Any]]) -> list[Series]:
    return [
        Series(what, [(point["at"], point[what]) for point in points])
        for what in ("written", "delivered")
    ]
