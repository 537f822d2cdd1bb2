"""Why a demonstration came to no end."""

from __future__ import annotations

from windrow.errors import Failed


class DemoStalled(Failed):
    """A part of the road did not do its work in time."""

    def __init__(self, what: str, seconds: float, log_tail: str = "") -> None:
        super().__init__(what, seconds, log_tail)
        self.what, self.seconds, self.log_tail = what, seconds, log_tail

    def __str__(self) -> str:
        tail = f"\n{self.log_tail}" if self.log_tail else ""
        return f"the demo stalled: {self.what} within {self.seconds:g} s{tail}"


class PartEnded(Failed):
    """A process of the road ended though nobody had killed it."""

    def __init__(self, part: str, log_tail: str) -> None:
        super().__init__(part, log_tail)
        self.part, self.log_tail = part, log_tail

    def __str__(self) -> str:
        return f"{self.part} ended by itself\n{self.log_tail}"


class NoVerdict(Failed):
    """The process that counts did not come to a verdict."""

    def __init__(self, command: str, said: str) -> None:
        super().__init__(command, said)
        self.command, self.said = command, said

    def __str__(self) -> str:
        return f"no verdict from {self.command!r}: {self.said}"
