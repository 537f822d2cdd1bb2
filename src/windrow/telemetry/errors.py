"""What can be wrong with the use of telemetry.

::

    UsageError
    ├── UnknownMetric     a name that is not in the table
    ├── WrongLabels       other labels than the table gives the metric
    └── DuplicateCheck    two health checks of one name
    Failed
    └── CannotListen      the HTTP server did not get its address
"""

from __future__ import annotations

from collections.abc import Iterable

from windrow.errors import Failed, UsageError


class UnknownMetric(UsageError):
    """A metric that is not in the table, or is there as another kind."""

    def __init__(self, kind: str, name: str, hint: str = "") -> None:
        super().__init__(kind, name, hint)
        self.kind, self.name, self.hint = kind, name, hint

    def __str__(self) -> str:
        hint = self.hint or "add a row for it"
        return f'no {self.kind} "{self.name}" in windrow.telemetry.metrics.METRICS; {hint}'


class WrongLabels(UsageError):
    """A metric was asked for with other labels than its row in the table has."""

    def __init__(self, metric: str, given: Iterable[str], expected: Iterable[str]) -> None:
        self.metric, self.given, self.expected = metric, tuple(given), tuple(expected)
        super().__init__(metric, self.given, self.expected)

    def __str__(self) -> str:
        given, expected = (", ".join(names) or "none" for names in (self.given, self.expected))
        return f'metric "{self.metric}" has the labels ({expected}), but was given ({given})'


class DuplicateCheck(UsageError):
    """A health check of that name exists already."""

    def __init__(self, check: str) -> None:
        super().__init__(check)
        self.check = check

    def __str__(self) -> str:
        return f'health check "{self.check}" is registered already; give each a name of its own'


class CannotListen(Failed):
    """The server of metrics and health did not get the address it was given."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(host, port, reason)
        self.host, self.port, self.reason = host, port, reason

    def __str__(self) -> str:
        return (
            f"cannot serve metrics and health on {self.host}:{self.port}: {self.reason};"
            ' set "http.port" to one that is free, or correct "http.host"'
        )
