"""What can go wrong with a child process after it has started."""

from __future__ import annotations

from windrow.errors import Failed


class NotRunning(Failed):
    """A signal was meant for a process that is not there any more."""

    def __init__(self, name: str, pid: int) -> None:
        super().__init__(name, pid)
        self.name, self.pid = name, pid

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}) is not running; start it first"
