"""What can go wrong with a journal, one class per diagnosis.

::

    UsageError
    └── InvalidField            a name, label, spec or message that could never be accepted
    Failed
    └── JournalStatusError      a broker's answer other than OK; one subclass per status
    OutcomeUnknown
    └── AppendUnknown           the connection broke after the commit mark was sent
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from windrow.errors import Failed, OutcomeUnknown, UsageError
from windrow.journal.status import Status

if TYPE_CHECKING:
    from windrow.journal.labels import LabelSet


class InvalidField(UsageError):
    """A value breaks a rule of the protocol; ``context`` is the dotted way to it."""

    def __init__(self, context: str, message: str) -> None:
        super().__init__(context, message)
        self.context, self.message = context, message

    def __str__(self) -> str:
        return f"{self.context}: {self.message}" if self.context else self.message

    def inside(self, outer: str) -> InvalidField:
        """The same finding as seen from the message that holds the field."""
        return InvalidField(f"{outer}.{self.context}" if self.context else outer, self.message)


class field:  # used as a statement: with field("Labels"): ...
    """Name the field that is checked in the ``with`` block.

    A class, since every message of a replication passes several and a generator costs thrice.
    """

    __slots__ = ("_context",)

    def __init__(self, context: str) -> None:
        self._context = context

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, InvalidField):
            raise error.inside(self._context) from error.__cause__


class JournalStatusError(Failed):
    """A broker answered, and the answer was not OK."""

    status: ClassVar[Status]
    diagnosis: ClassVar[str]

    def __init__(self, journal: str, detail: str = "") -> None:
        super().__init__(journal, detail)
        self.journal, self.detail = journal, detail

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"journal {self.journal!r}: {self.diagnosis}{detail} [{self.status.name}]"


class JournalNotFound(JournalStatusError):
    """No journal of that name exists."""

    status = Status.JOURNAL_NOT_FOUND
    diagnosis = 'no such journal; see "windrow journal list", or create it by "apply"'


class NoPrimaryBroker(JournalStatusError):
    """The journal has no primary at present."""

    status = Status.NO_JOURNAL_PRIMARY_BROKER
    diagnosis = "has no primary broker yet; try again once the allocator has named one"


class NotPrimaryBroker(JournalStatusError):
    """The broker asked is not the primary, and was told not to proxy."""

    status = Status.NOT_JOURNAL_PRIMARY_BROKER
    diagnosis = "the broker is not its primary and may not proxy; ask the primary of its route"


class InsufficientBrokers(JournalStatusError):
    """Fewer brokers are assigned than the journal's replication asks for."""

    status = Status.INSUFFICIENT_JOURNAL_BROKERS
    diagnosis = "fewer brokers than its replication; start another broker, or lower replication"


class NotBroker(JournalStatusError):
    """The broker asked holds no replica, and was told not to proxy."""

    status = Status.NOT_JOURNAL_BROKER
    diagnosis = "the broker holds no replica and may not proxy; ask a member of its route"


class OffsetNotYetAvailable(JournalStatusError):
    """The offset lies at or beyond the write head, and the read does not block."""

    status = Status.OFFSET_NOT_YET_AVAILABLE
    diagnosis = "nothing is written at that offset yet; read with block to wait for it"

    def __init__(self, journal: str, detail: str = "", write_head: int = 0) -> None:
        super().__init__(journal, detail)
        self.args = (journal, detail, write_head)
        self.write_head = write_head


class WrongRoute(JournalStatusError):
    """A replica knows of another route than the primary that called it."""

    status = Status.WRONG_ROUTE
    diagnosis = "the replica knows another route; resolve again at the later revision"


class ProposalMismatch(JournalStatusError):
    """A replica cannot adopt the proposed fragment."""

    status = Status.PROPOSAL_MISMATCH
    diagnosis = "the replica's fragment differs from the proposal; synchronise the pipeline again"


class EtcdTransactionFailed(JournalStatusError):
    """An expected revision was not the present one."""

    status = Status.ETCD_TRANSACTION_FAILED
    diagnosis = "changed since it was read; list again and apply with its present revision"


class NotAllowed(JournalStatusError):
    """The journal's flags, or the request's own controls, forbid it."""

    status = Status.NOT_ALLOWED
    diagnosis = "its flags do not allow this; see the flags of its spec"


class WrongAppendOffset(JournalStatusError):
    """The append named an offset which is not the write head."""

    status = Status.WRONG_APPEND_OFFSET
    diagnosis = "the append named another offset than its write head; read the head and retry"


class IndexHasGreaterOffset(JournalStatusError):
    """A store holds bytes beyond what any replica remembers."""

    status = Status.INDEX_HAS_GREATER_OFFSET
    diagnosis = (
        "stored fragments reach beyond every replica; when no replica can return,"
        ' run "windrow journal reset-head"'
    )


class RegisterMismatch(JournalStatusError):
    """The registers are not what the append expected."""

    status = Status.REGISTER_MISMATCH
    diagnosis = "registers differ from what the append expected; another writer came first"

    def __init__(self, journal: str, detail: str = "", registers: LabelSet | None = None) -> None:
        super().__init__(journal, detail)
        self.args = (journal, detail, registers)
        self.registers = registers


class Suspended(JournalStatusError):
    """The journal is suspended, and the request does not resume it."""

    status = Status.SUSPENDED
    diagnosis = "is suspended; an append resumes it"


class StoreUnhealthy(JournalStatusError):
    """The journal's first fragment store fails its health checks."""

    status = Status.FRAGMENT_STORE_UNHEALTHY
    diagnosis = "its fragment store fails the health check; correct the store or its credentials"


_BY_STATUS: dict[Status, type[JournalStatusError]] = {
    kind.status: kind for kind in JournalStatusError.__subclasses__()
}


def status_error(status: Status, journal: str, detail: str = "") -> JournalStatusError:
    """The error of a status other than OK."""
    return _BY_STATUS[status](journal, detail)


class AppendUnknown(OutcomeUnknown):
    """The answer to an append was lost after its commit mark had been sent."""

    def __init__(self, journal: str, detail: str) -> None:
        super().__init__(journal, detail)
        self.journal, self.detail = journal, detail

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: the append may have committed or not ({self.detail});"
            " read the journal or its registers before appending again"
        )
