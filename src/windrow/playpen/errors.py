"""What can be wrong with a request to the play-pen, and with the play-pen itself."""

from __future__ import annotations

from windrow.errors import Failed, OutcomeUnknown, UsageError


class BadRequest(UsageError):
    """A request that can never be answered; the status says what kind of mistake it is."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason, status)
        self.reason, self.status = reason, status

    def __str__(self) -> str:
        return self.reason


class BadMessage(BadRequest):
    """What was posted to the receiver is no message."""


class NotWritten(Failed):
    """The database refused, or was not there: nothing was committed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"nothing was written: {self.reason}"


class MaybeWritten(OutcomeUnknown):
    """The database was lost while it committed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"it may have been written or not: {self.reason}; look at /heroes"


class UnusableFile(Failed):
    """Where the receiver should keep messages, it cannot."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"cannot keep messages in {self.path}: {self.reason}; give another file with --data"


class CannotKeep(UsageError):
    """The data of this embedded database are gone with it."""

    def __init__(self, database: str) -> None:
        super().__init__(database)
        self.database = database

    def __str__(self) -> str:
        return f"the data of {self.database!r} cannot be kept here; take postgres or sqlite"


class InvalidVariable(UsageError):
    """A variable of the environment that is no number."""

    def __init__(self, name: str, value: str, reason: str) -> None:
        super().__init__(name, value, reason)
        self.name, self.value, self.reason = name, value, reason

    def __str__(self) -> str:
        return f"{self.name}={self.value!r} in the environment: {self.reason}"


class CannotListen(Failed):
    """A port of the play-pen is taken."""

    def __init__(self, service: str, address: str, reason: str) -> None:
        super().__init__(service, address, reason)
        self.service, self.address, self.reason = service, address, reason

    def __str__(self) -> str:
        return (
            f"the {self.service} cannot listen on {self.address}: {self.reason}; give another port"
        )
