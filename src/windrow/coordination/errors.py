"""What can go wrong between a process and its coordination store."""

from __future__ import annotations

from windrow.errors import Failed, OutcomeUnknown, UsageError


class InvalidTransaction(UsageError):
    """No store would ever perform this transaction."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the transaction {self.reason}; split it or leave one out"


class InvalidAddress(UsageError):
    """An address of a store that cannot be one."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address, self.reason = address, reason

    def __str__(self) -> str:
        return f"{self.address!r} is no address of etcd: {self.reason}"


class LeaseNotFound(Failed):
    """The lease has ended, so nothing can hang on it any more."""

    def __init__(self, lease: int) -> None:
        super().__init__(lease)
        self.lease = lease

    def __str__(self) -> str:
        return f"lease {self.lease:x} has ended and its keys are deleted; begin another one"


class KeyNotFound(Failed):
    """A key that should have kept its lease does not exist."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"key {self.key!r} does not exist, so it has no lease to keep; put it with a lease"


class Refused(Failed):
    """The store answered, and would not do it."""

    def __init__(self, call: str, address: str, reason: str) -> None:
        super().__init__(call, address, reason)
        self.call, self.address, self.reason = call, address, reason

    def __str__(self) -> str:
        return f"etcd at {self.address} refused {self.call}: {self.reason}"


class TxnUnknown(OutcomeUnknown):
    """A transaction was sent and its answer did not come."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address, self.reason = address, reason

    def __str__(self) -> str:
        return (
            f"no answer to a transaction sent to {self.address} ({self.reason});"
            f" it may have happened: read its keys before trying again"
        )


class WatchBroken(Failed):
    """A watch ended; nothing is lost if it goes on after the last revision seen."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address, self.reason = address, reason

    def __str__(self) -> str:
        return f"the watch at {self.address} ended: {self.reason}"


class Compacted(Failed):
    """The store no longer knows the changes that were asked for."""

    def __init__(self, after_revision: int, compact_revision: int) -> None:
        super().__init__(after_revision, compact_revision)
        self.after_revision, self.compact_revision = after_revision, compact_revision

    def __str__(self) -> str:
        return (
            f"changes after revision {self.after_revision} are forgotten"
            f" up to {self.compact_revision}; load the keys again"
        )


class RevisionWentBack(Failed):
    """The store is older than it was: it was restored from a backup, or is another one."""

    def __init__(self, seen: int, now: int) -> None:
        super().__init__(seen, now)
        self.seen, self.now = seen, now

    def __str__(self) -> str:
        return (
            f"the store is at revision {self.now} and was at {self.seen} before;"
            f" if it was restored from a backup, restart every process that uses it"
        )


class ClusterChanged(Failed):
    """Another cluster answers at the address than the one we began with."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(expected, actual)
        self.expected, self.actual = expected, actual

    def __str__(self) -> str:
        return (
            f"cluster {self.actual:x} answers where {self.expected:x} was;"
            f" check the endpoints, then restart this process"
        )


class EventsInconsistent(Failed):
    """A change does not follow from what was known of its key."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key, self.reason = key, reason

    def __str__(self) -> str:
        return f"change of {self.key!r} {self.reason}; the keys have to be loaded again"


class NotFollowing(Failed):
    """A mirror was asked to wait and follows its store no more."""

    def __init__(self, prefix: str, reason: str) -> None:
        super().__init__(prefix, reason)
        self.prefix, self.reason = prefix, reason

    def __str__(self) -> str:
        return f"the mirror of {self.prefix!r} follows its store no more: {self.reason}"


class AnnouncementLost(Failed):
    """The announced key is no longer ours."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key, self.reason = key, reason

    def __str__(self) -> str:
        return f"{self.key!r} is no longer announced by this process: {self.reason}; restart it"


class StoreClosed(UsageError):
    """A store was used after it was closed."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.store = store

    def __str__(self) -> str:
        return f"the store {self.store} is closed"


class DirectoryInUse(Failed):
    """Another process has the local store open."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return (
            f"another process uses the local store in {self.directory};"
            f" end it, or give each its own directory"
        )


class LogDamaged(Failed):
    """The files of a local store do not hold what was acknowledged."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(path, offset, reason)
        self.path, self.offset, self.reason = path, offset, reason

    def __str__(self) -> str:
        return f"{self.path} is damaged at byte {self.offset}: {self.reason}; restore a copy"


class StoreBroken(OutcomeUnknown):
    """A write could not be made durable, so the store takes no more of them."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory, self.reason = directory, reason

    def __str__(self) -> str:
        return (
            f"the local store in {self.directory} could not make a change durable"
            f" ({self.reason}); mend the disk and restart: what was acknowledged is kept"
        )


class StoreFull(Failed):
    """There was no room for a change, which therefore did not happen."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory, self.reason = directory, reason

    def __str__(self) -> str:
        return (
            f"the local store in {self.directory} cannot grow ({self.reason});"
            f" make room and try again"
        )
