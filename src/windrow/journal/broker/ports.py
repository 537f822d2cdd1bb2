"""What the core of a broker asks of the parts around it.

The resolver, the connections to other brokers and the source of spools are built by the broker's
shell. All facts of one :class:`Resolution` come from one state of the keyspace's mirror: the head
that a primary believes in and the revision in its header must not be of different moments.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from windrow.coordination.store import KeyValue
    from windrow.journal.broker.replica import Replica
    from windrow.journal.broker.signals import Signal
    from windrow.journal.fragments.content import SpoolObserver
    from windrow.journal.fragments.spool import Spool
    from windrow.journal.spec import Header, JournalSpec, ProcessId, Route
    from windrow.journal.status import Status

Metadata = Sequence[tuple[str, str | bytes]]


class Resolution(Protocol):
    """Who serves a journal, as of ``header.etcd.revision``."""

    @property
    def status(self) -> Status:
        """OK, or why this broker cannot serve the request."""

    @property
    def journal_spec(self) -> JournalSpec | None:
        """The journal's specification; None if there is no such journal."""

    @property
    def header(self) -> Header:
        """To be attached to answers and to calls of other brokers."""

    @property
    def route(self) -> Route:
        """Members in order, the primary, and their endpoints."""

    @property
    def local_id(self) -> ProcessId:
        """This broker."""

    @property
    def replica(self) -> Replica | None:
        """This broker's replica of the journal, if it is a member."""

    @property
    def is_local_primary(self) -> bool:
        """Whether this broker is the journal's primary."""

    @property
    def invalidated(self) -> Signal:
        """Set once the journal's assignments, route or stores are no longer these."""

    @property
    def item(self) -> KeyValue | None:
        """The key of the journal's specification."""

    @property
    def assignments(self) -> Sequence[KeyValue]:
        """The keys of its assignments, in key order."""

    @property
    def head(self) -> KeyValue | None:
        """The key ``heads/<journal>``, if there is one."""

    @property
    def desired_replicas(self) -> int:
        """The specification's replication, capped by the broker's own limit."""


class Resolver(Protocol):
    """Maps a journal to its resolution."""

    async def resolve(
        self,
        journal: str,
        *,
        require_primary: bool,
        may_proxy: bool,
        header: Header | None = None,
        min_revision: int = 0,
    ) -> Resolution:
        """Wait for the revision asked for, then resolve at the mirror's present state."""


class Peers(Protocol):
    """Connections to other brokers; each call carries whatever authorises it."""

    def replicate(self, endpoint: str, journal: str) -> Any:
        """Begin a Replicate call: a ``frames.calling.Call``."""

    def append(self, endpoint: str, journal: str, metadata: Metadata) -> Any:
        """Begin an Append call on behalf of a client with that metadata: a StreamUnaryCall."""


class SpoolSource(Protocol):
    """Where a replica's spools come from."""

    def open(self, observer: SpoolObserver) -> Spool:
        """The journal's spool as it was recovered, or a new and empty one at offset zero."""


class StoreHealth(Protocol):
    """Whether the store that fragments are written to can be written."""

    def is_healthy(self, store: str) -> bool:
        """Whether it is known to be healthy, so that there is nothing to wait for."""

    async def check(self, store: str) -> str | None:
        """None if it is healthy, else why not, once enough checks have failed."""


RequestStream = AsyncIterator[Any]
"""Messages of a client, or of a primary."""
