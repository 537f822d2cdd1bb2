"""What can go wrong with Spark before anything has run."""

from __future__ import annotations

from windrow.errors import UsageError


class SessionExists(UsageError):
    """A process has one Spark session at a time, and it has one."""

    def __init__(self, app_name: str, existing: str) -> None:
        super().__init__(app_name, existing)
        self.app_name, self.existing = app_name, existing

    def __str__(self) -> str:
        return (
            f"cannot build the Spark session {self.app_name!r}: this process has the session"
            f" {self.existing!r}; end that one first with stop_session()"
        )
