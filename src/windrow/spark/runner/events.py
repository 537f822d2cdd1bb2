"""What a runner tells: processors that start, deliver, fail and end."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.spark.runner.causes import Cause
from windrow.telemetry.events import Event


@dataclass(frozen=True, slots=True)
class GraphStarted(Event):
    """A runner took a graph up."""

    graph: str
    owner: str
    legs: int


@dataclass(frozen=True, slots=True)
class GraphStopped(Event):
    """A runner laid it down."""

    graph: str
    rows: int
    failed: int


@dataclass(frozen=True, slots=True)
class TopologyAccepted(Event):
    """The graph is not the one whose progress was stored, and that was meant."""

    graph: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProcessorStarted(Event):
    """Recovery is over and the query runs; ``resumes`` is the snapshot that was in doubt."""

    leg: str
    processor: str
    attempt: int
    epoch: int
    resumes: int | None = None


@dataclass(frozen=True, slots=True)
class BatchDelivered(Event):
    """A batch is through: how many messages it took, how long, and how many wait."""

    leg: str
    processor: str
    batch: int
    rows: int
    seconds: float
    lag: int


@dataclass(frozen=True, slots=True)
class ProcessorFailed(Event):
    """A query ended with an error, and is started again after a pause."""

    leg: str
    processor: str
    cause: Cause
    failures: int
    pause: float


@dataclass(frozen=True, slots=True)
class ProcessorGivenUp(Event):
    """A query is not started again: fenced, refused, or failed too often."""

    leg: str
    processor: str
    cause: Cause
    state: str


@dataclass(frozen=True, slots=True)
class ProcessorStopped(Event):
    """A query ended because it was told to, or had taken all there was."""

    leg: str
    processor: str
