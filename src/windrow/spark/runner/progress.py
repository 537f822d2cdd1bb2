"""How far has a query come? Taken from what Spark reports after each batch. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windrow.graph.delivery_errors import InvalidOffsets
from windrow.graph.positions import SourceOffsets

NOTHING_READ = SourceOffsets()


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One batch.

    Attributes:
        batch: Its number in Spark's checkpoint.
        rows: How many messages it took.
        seconds: From its plan to its end.
        lag: How many messages waited when it ended.
    """

    batch: int
    rows: int
    seconds: float
    lag: int = 0

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0


def batch_progress(
    report: Mapping[str, Any], begin: SourceOffsets = NOTHING_READ
) -> BatchProgress | None:
    """What a report of Spark says of a batch; ``None`` if it only says that there was none.

    Rows are counted by offsets, since a source that runs the function gives out its results.

    Args:
        report: Of one batch.
        begin: Where the query began: the first batch of a checkpoint does not say it.
    """
    durations = report.get("durationMs") or {}
    if "addBatch" not in durations:
        return None
    source: Mapping[str, Any] = next(iter(report.get("sources") or ()), {})
    start = _offsets(source.get("startOffset"))
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if start == NOTHING_READ:
        start = begin
    is_ours = start is not None and end is not None
    rows = _between(start, end) if is_ours else int(report.get("numInputRows") or 0)
    return BatchProgress(
        int(report["batchId"]),
        rows,
        float(durations.get("triggerExecution") or 0) / 1000,
        _between(end, latest),
    )


def _offsets(value: Any) -> SourceOffsets | None:
    """Spark gives offsets as JSON, or as a text that holds it; before the first there are none."""
    try:
        tree = json.loads(value) if isinstance(value, str) else value
        return SourceOffsets() if tree is None else SourceOffsets.from_json(tree)
    except (ValueError, InvalidOffsets):
        return None


def _between(start: SourceOffsets | None, end: SourceOffsets | None) -> int:
    if start is None or end is None:
        return 0
    return sum(max(0, index - start.get(origin)) for origin, index in end.entries)
