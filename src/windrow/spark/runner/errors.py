"""What can go wrong with the run of a whole graph."""

from __future__ import annotations

from windrow.errors import Failed


class SparkLost(Failed):
    """The JVM is gone, and with it every query."""

    def __init__(self, graph: str, reason: str) -> None:
        super().__init__(graph, reason)
        self.graph, self.reason = graph, reason

    def __str__(self) -> str:
        return (
            f'graph "{self.graph}": Spark is gone ({self.reason}); run it again, and it goes on'
            " where it was"
        )


class GraphFailed(Failed):
    """Some processors of a graph need somebody; each is told with its reason."""

    def __init__(self, graph: str, failures: tuple[str, ...]) -> None:
        super().__init__(graph, failures)
        self.graph, self.failures = graph, failures

    def __str__(self) -> str:
        lines = "".join(f"\n  {failure}" for failure in self.failures)
        return f'graph "{self.graph}": {len(self.failures)} processors have ended:{lines}'


class StillRunning(Failed):
    """Something was to be done that a running graph does not allow."""

    def __init__(self, graph: str, owner: str, host: str, pid: int) -> None:
        super().__init__(graph, owner, host, pid)
        self.graph, self.owner, self.host, self.pid = graph, owner, host, pid

    def __str__(self) -> str:
        return (
            f'graph "{self.graph}" is running as process {self.pid} on {self.host}; end it first'
            ' with "windrow graph stop"'
        )


class StopUnanswered(Failed):
    """A runner was asked to end, and has not within the time given."""

    def __init__(self, graph: str, seconds: float) -> None:
        super().__init__(graph, seconds)
        self.graph, self.seconds = graph, seconds

    def __str__(self) -> str:
        return (
            f'graph "{self.graph}" was asked to stop and has not within {self.seconds:g} s; its'
            " batches may be long: wait for it, or end its process"
        )


class RepairRefused(Failed):
    """A remedy could not be applied."""

    def __init__(self, leg: str, reason: str) -> None:
        super().__init__(leg, reason)
        self.leg, self.reason = leg, reason

    def __str__(self) -> str:
        return f'processor "{self.leg}" was not mended: {self.reason}; look again'
