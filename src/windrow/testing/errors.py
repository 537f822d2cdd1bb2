"""Why a fault test fails, apart from its own assertions."""

from __future__ import annotations

from windrow.errors import Failed, UsageError
from windrow.verify.tally import Tally


class FaultNotCounted(Failed):
    """The fault would prove nothing: nobody was there to suffer it, or nothing was going on."""

    def __init__(self, part: str, kind: str, reason: str) -> None:
        super().__init__(part, kind, reason)
        self.part, self.kind, self.reason = part, kind, reason

    def __str__(self) -> str:
        return f"faults {self.part}: this {self.kind} does not count: {self.reason}"


class NotDelivered(Failed):
    """What arrived is not what was written."""

    def __init__(self, part: str, tally: Tally) -> None:
        super().__init__(part, tally)
        self.part, self.tally = part, tally

    def __str__(self) -> str:
        return f"faults {self.part}: {self.tally}"


class NothingToSettle(UsageError):
    """The ledger is empty, so that counting against it would prove nothing."""

    def __init__(self, part: str, ledgers: str) -> None:
        super().__init__(part, ledgers)
        self.part, self.ledgers = part, ledgers

    def __str__(self) -> str:
        return f"faults {self.part}: nothing was written to the ledger: {self.ledgers}"


class NotSettled(UsageError):
    """Faults were injected, and nobody counted what they did."""

    def __init__(self, part: str, injected: int) -> None:
        super().__init__(part, injected)
        self.part, self.injected = part, injected

    def __str__(self) -> str:
        return (
            f"faults {self.part}: {self.injected} injected after the last count;"
            " end the test with settle(ledger, arrived)"
        )


class UnknownPromise(UsageError):
    """A test claims to prove a promise that is not on the list."""

    def __init__(self, promise: str, test: str, known: tuple[str, ...]) -> None:
        super().__init__(promise, test, known)
        self.promise, self.test, self.known = promise, test, known

    def __str__(self) -> str:
        return (
            f"{self.test} proves {self.promise!r}, which docs/promises.toml does not list;"
            f" it lists: {', '.join(self.known)}"
        )
