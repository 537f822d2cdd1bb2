"""How one row of the table of faults is tried on a running query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.faults.graph.bench import Answer, GraphBench, Scene, role_of
from tests.unit.graph.delivery.matrix import Row
from windrow.graph.backing import SnapshotTaken
from windrow.graph.snapshot import Snapshot
from windrow.points import Act, Strike
from windrow.testing import FaultPart

FOR_EVER = 0
"""How often a task is struck that is not to succeed when Spark tries it again."""


@dataclass
class Trial:
    """Some rows that come down to the same, and all that it takes to see that they hold."""

    bench: GraphBench
    part: FaultPart
    rows: tuple[Row, ...]

    def scene(self, shape: str, count: int = 20, **options: Any) -> Scene:
        """A graph with some messages to deliver."""
        scene = self.bench.scene(shape, **options)
        scene.send(count)
        return scene

    def strike(
        self,
        scene: Scene,
        point: str,
        role: str,
        act: Act = "raise",
        *,
        nth: int = 1,
        times: int = 1,
        **changes: Any,
    ) -> Answer:
        """Strike whoever passes that point, which must be a process of that role."""
        name = f"graph.{point}"
        answer = scene.strike(self.part, name, Strike(act, nth, times), **changes)
        struck = self.bench.points.struck(name)
        assert struck
        assert {role_of(each) for each in struck} == {role}
        return answer

    def fail(self, scene: Scene, point: str, role: str, **changes: Any) -> Answer:
        """The same, and the run must fail of it: a task is struck however often it is tried.

        What is written stays written, so a task that is struck behind a write is given many to do.
        """
        if role == "task":
            changes.setdefault("times", FOR_EVER)
        if point == "write-after":
            changes["settings"] = {"rows_per_write": 1, **changes.get("settings", {})}
        answer = self.strike(scene, point, role, **changes)
        assert not answer.is_clean, f"the run went on although it was struck at {point}"
        return answer

    def end(self, scene: Scene, **changes: Any) -> None:
        """Run to the end, and hold every queue against the rows."""
        scene.finish(**changes)
        self.check(scene)

    def check(self, scene: Scene) -> None:
        """Hold every queue against the rows, and whether a snapshot was attempted again."""
        assert {row.outcome for row in self.rows} <= {"exact", "stalls"}
        scene.settle(self.part)
        assert {scene.retries() > 0} == {row.replays for row in self.rows}

    def refused(self, scene: Scene, **changes: Any) -> Answer:
        """Run it, which must be refused with the error of the row."""
        answer = scene.drain(**changes)
        assert [answer.error] == [row.error for row in self.rows], answer
        assert answer.kind == "refused"
        return answer


def snapshots(scene: Scene) -> list[Snapshot]:
    """All snapshots that were taken, in order."""
    return [record.snapshot for record in scene.records() if isinstance(record, SnapshotTaken)]


def hashes(scene: Scene) -> list[str]:
    """Their delivery hashes."""
    return [snapshot.delivery_hash for snapshot in snapshots(scene)]
