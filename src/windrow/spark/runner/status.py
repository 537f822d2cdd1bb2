"""How is every processor of a graph doing: what it has delivered, what waits, what is wrong? Pure.

What a runner says of itself goes together with what is written, which is there without a runner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from windrow.graph.drawing import Figures
from windrow.graph.staging import Leg
from windrow.spark.runner.facts import LegFacts
from windrow.spark.runner.standing import LegWord, Standing
from windrow.spark.runner.supervisor import FAILED

NOT_RUNNING = "not running"
_FAILED = frozenset(state.value for state in FAILED)


@dataclass(frozen=True, slots=True)
class LegReport:
    """One leg: a processor, or one of the parts of one that stages and fans out.

    Attributes:
        processor: Whose it is.
        leg: Its uid.
        state: Of the query, as the runner says; ``not running`` without one.
        delivered: The number of the last snapshot that the sink holds whole.
        lag: How many messages wait.
        in_doubt: The number of the snapshot that was begun and is not delivered.
        attempts: How often that was tried.
        poisoned: How many messages of it the function is not called with.
        epoch: Counts the owners of the leg.
        error: What went wrong last.
        problems: What could not be read.
    """

    processor: str
    leg: str
    state: str
    delivered: int
    lag: int
    in_doubt: int | None
    attempts: int
    poisoned: int
    epoch: int
    error: str
    problems: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether nobody has to do anything about it."""
        return self.state not in _FAILED and not self.problems

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class GraphReport:
    """A whole graph: who runs it, and how every leg is doing."""

    graph: str
    standing: Standing | None
    is_running: bool
    legs: Sequence[LegReport]

    @property
    def problems(self) -> list[str]:
        """What somebody has to do something about, a sentence each."""
        found = []
        for leg in self.legs:
            if leg.state in _FAILED:
                found.append(f'processor "{leg.leg}" is {leg.state}: {leg.error}')
            found += leg.problems
        if not self.is_running and self.standing is not None and not self.standing.is_ended:
            found.append(
                f"runner {self.standing.owner} has said nothing for a while: it died, and"
                ' "windrow graph run" goes on where it was'
            )
        return list(dict.fromkeys(found))

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        runner = self.standing
        return {
            "graph": self.graph,
            "running": self.is_running,
            "runner": None
            if runner is None
            else {
                "owner": runner.owner,
                "host": runner.host,
                "pid": runner.pid,
                "began": runner.began,
                "said": runner.said,
            },
            "legs": [leg.to_json() for leg in self.legs],
            "problems": self.problems,
        }


def report_leg(processor: str, leg: Leg, facts: LegFacts, word: LegWord | None) -> LegReport:
    """How one leg is doing."""
    doubt, backing = facts.in_doubt, facts.backing
    error = word.error if word is not None and word.error else ""
    return LegReport(
        processor=processor,
        leg=str(leg.uid),
        state=NOT_RUNNING if word is None else word.state,
        delivered=facts.delivered.number if facts.delivered else 0,
        lag=facts.lag,
        in_doubt=None if doubt is None else doubt.number,
        attempts=backing.attempts if doubt is not None else 0,
        poisoned=len(backing.poisoned) if doubt is not None else 0,
        epoch=backing.epoch,
        error=error or (backing.reason if doubt is not None else ""),
        problems=facts.problems,
    )


def report_graph(
    graph: str,
    standing: Standing | None,
    now: float,
    legs: Iterable[tuple[str, Leg, LegFacts]],
) -> GraphReport:
    """How all legs are doing; ``legs`` are processors, their legs and what is written of them.

    What a runner said that is gone speaks of the past, except where a leg failed for good.
    """
    is_running = standing is not None and standing.is_alive(now)
    words = {word.name: word for word in standing.legs} if standing is not None else {}
    reports = []
    for processor, leg, facts in legs:
        word = words.get(str(leg.uid))
        if not is_running and word is not None and word.state not in _FAILED:
            word = None
        reports.append(report_leg(processor, leg, facts, word))
    return GraphReport(graph, standing, is_running, reports)


def figures_of(
    report: GraphReport, ends: Mapping[str, int], readers: Mapping[str, Sequence[str]]
) -> Figures:
    """The numbers for a drawing.

    Args:
        report: How the legs are doing.
        ends: How many messages each queue has had.
        readers: The legs that read each queue.
    """
    by_leg = {leg.leg: leg for leg in report.legs}
    queues: dict[str, dict[str, Any]] = {}
    for queue, end in ends.items():
        lags = [by_leg[name].lag for name in readers.get(queue, ()) if name in by_leg]
        queues[queue] = {"offset": end} | ({"lag": max(lags)} if lags else {})
    processors: dict[str, dict[str, Any]] = {}
    for leg in report.legs:
        known = processors.setdefault(leg.processor, {"snapshot": 0, "lag": 0})
        known["snapshot"] = max(known["snapshot"], leg.delivered)
        known["lag"] += leg.lag
        if leg.attempts > 1:
            known["attempts"] = leg.attempts
        if leg.error:
            known["error"] = leg.error
        if leg.state != NOT_RUNNING:
            known["state"] = leg.state
    return Figures(queues, processors)
