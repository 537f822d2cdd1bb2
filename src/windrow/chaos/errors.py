"""What can go wrong with chaos that is not part of it."""

from __future__ import annotations

from windrow.errors import Failed, UsageError


class UnknownScenario(UsageError):
    """A scenario that is not declared."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        return (
            f"no scenario {self.name!r}; there are {', '.join(self.known)} and all:"
            " see windrow chaos list"
        )


class Stuck(Failed):
    """A scenario waited for something that did not come before its deadline."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(what, seconds)
        self.what, self.seconds = what, seconds

    def __str__(self) -> str:
        return f"{self.what} did not come about within {self.seconds:.0f} s"


class NotRun(Failed):
    """A scenario needs something that is not there."""

    def __init__(self, scenario: str, reason: str) -> None:
        super().__init__(scenario, reason)
        self.scenario, self.reason = scenario, reason

    def __str__(self) -> str:
        return f"{self.scenario} was not run: {self.reason}"
