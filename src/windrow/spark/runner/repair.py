"""How is a graph mended? Look, say what would be done, and do it if somebody agrees.

A remedy that changes where reading goes on is made in the order in which recovery would: the leg is
taken over, its targets are fenced, what is written is read again, and only if the remedy is still
the right one is it appended to the backing journal. Every remedy is noted in the audit first, so
that there is none without a line.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windrow.config import Config
from windrow.graph.backing import encode
from windrow.graph.declaration import Graph
from windrow.graph.delivery_steps import BackingAppended
from windrow.graph.positions import SourceOffsets
from windrow.graph.recovery import Situation
from windrow.graph.recovery_machine import TakenByOther
from windrow.spark.query.leg_plan import LegPlan, plan_legs
from windrow.spark.query.opened import STORES, Stores
from windrow.spark.query.start import ensure_places
from windrow.spark.runner.audit import note_repair
from windrow.spark.runner.checkpoint import checkpoint_path, read_checkpoint
from windrow.spark.runner.diagnosis import (
    NOTHING_ALLOWED,
    AppendRewound,
    DropCheckpoint,
    Finding,
    Patient,
    Permissions,
    Remedy,
    RemoveFiles,
    diagnose,
)
from windrow.spark.runner.errors import RepairRefused, StillRunning
from windrow.spark.runner.facts import LegFacts, read_facts
from windrow.spark.runner.files import Files, files_of
from windrow.spark.runner.order import supervised
from windrow.spark.runner.settings import connections_for
from windrow.spark.runner.standing import read_standing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWNER = "repair"


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found, in the order in which it is mended, and what could not be looked at."""

    findings: Sequence[Finding]
    problems: Sequence[str] = ()

    @property
    def remedies(self) -> list[Finding]:
        """The findings that something will be done about."""
        return [finding for finding in self.findings if finding.remedy is not None]

    @property
    def unmended(self) -> list[Finding]:
        """The findings that keep a leg from starting, and that nothing will be done about."""
        return [each for each in self.findings if each.is_blocking and each.remedy is None]


class Repair:
    """Examines the legs of a graph, and mends them.

    Args:
        graph: Which.
        config: Where everything is.
        permissions: What may be lost, or delivered again.
        session: To reach a checkpoint that does not lie on this machine.
        stores: How places are opened; the real ones by default.
    """

    def __init__(
        self,
        graph: Graph,
        config: Config,
        permissions: Permissions = NOTHING_ALLOWED,
        *,
        session: SparkSession | None = None,
        stores: Stores | None = None,
    ) -> None:
        self._graph, self._config, self._permissions = graph, config, permissions
        self._root = config.graph.checkpoint
        self._files: Files = files_of(self._root, session)
        self._stores = stores or STORES
        plans = {plan.name: plan for plan in plan_legs(graph, connections_for(config))}
        self._plans = {leg.name: plans[leg.name] for leg in supervised(list(plans.values()))}

    def examine(self) -> Examined:
        """Look at every leg; nothing is changed.

        Raises:
            StillRunning: A runner has the graph, and what is found would not stay true.
        """
        standing = read_standing(self._files, self._root, self._graph.id)
        if standing is not None and standing.is_alive(time.time()):
            raise StillRunning(self._graph.id, standing.owner, standing.host, standing.pid)
        findings: list[Finding] = []
        problems: list[str] = []
        for plan in self._plans.values():
            facts = read_facts(plan, self._stores, with_marks=True)
            problems += facts.problems
            if not facts.problems:
                findings += diagnose(self._patient(plan, facts))
        return Examined(findings, list(dict.fromkeys(problems)))

    def apply(self, finding: Finding) -> None:
        """Do what a finding says will be done, and note it in the audit.

        Raises:
            RepairRefused: Meanwhile another remedy is the right one, or none.
        """
        assert finding.remedy is not None
        self._note(finding, finding.remedy)
        match finding.remedy:
            case RemoveFiles(paths):
                for path in paths:
                    self._files.remove(path)
            case DropCheckpoint(path):
                self._files.remove(path)
            case AppendRewound():
                self._rewind(self._plans[finding.leg], finding)

    def _rewind(self, plan: LegPlan, finding: Finding) -> None:
        ensure_places(plan, self._stores)  # a sink that was lost is made anew
        backing, target = self._stores.backing(plan), self._stores.target(plan.target)
        taken = backing.take(f"{OWNER}-{int(time.time())}")
        if isinstance(taken, TakenByOther):
            raise RepairRefused(plan.name, f"owner {taken.found_epoch} has taken it")
        target.fence(plan.uid, taken.epoch)
        facts = read_facts(plan, self._stores, with_marks=True)
        now = [each.remedy for each in diagnose(self._patient(plan, facts))]
        if not isinstance(finding.remedy, AppendRewound) or finding.remedy not in now:
            raise RepairRefused(plan.name, "what is written has changed since it was looked at")
        outcome = backing.append(finding.remedy.record, taken.epoch)
        if not isinstance(outcome, BackingAppended):
            raise RepairRefused(plan.name, f"the backing journal answered {outcome}")

    def _patient(self, plan: LegPlan, facts: LegFacts) -> Patient:
        checkpoint = read_checkpoint(self._files, checkpoint_path(self._root, plan.uid))
        taken = facts.backing.taken
        first = taken.snapshot.starts if taken is not None else SourceOffsets()
        situation = Situation(
            uid=plan.uid,
            inputs=frozenset(plan.leg.inputs),
            available=facts.available,
            code_version=plan.code_version,
            is_stateful=plan.is_stateful,
            checkpoint=checkpoint.for_recovery(first),
            marks=facts.marks,
            when_sink_behind=self._config.graph.when_sink_behind,
        )
        return Patient(situation, facts, checkpoint, self._permissions)

    def _note(self, finding: Finding, remedy: Remedy) -> None:
        facts: dict[str, Any] = {"leg": finding.leg, "found": finding.text}
        match remedy:
            case RemoveFiles(paths):
                facts["removed"] = list(paths)
            case DropCheckpoint(path):
                facts["removed"] = [path]
            case AppendRewound(record):
                facts["record"] = encode(record).decode()
        note_repair(self._files, self._root, self._graph.id, finding.action, facts)
