"""Who serves a journal, and whether this broker may: decided from what the keyspace says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windrow.coordination.store import KeyValue
from windrow.errors import Failed
from windrow.journal.spec import EtcdHeader, JournalSpec, ProcessId, Route, SuspendLevel
from windrow.journal.status import Status


@dataclass(frozen=True, slots=True)
class Assigned:
    """One assignment of a journal: a broker and its slot, and the key that says so."""

    id: ProcessId
    slot: int
    kv: KeyValue


@dataclass(frozen=True, slots=True)
class JournalView:
    """All that the keyspace says of one journal at one moment."""

    journal: str
    spec: JournalSpec | None
    item: KeyValue | None
    assignments: tuple[Assigned, ...]
    head: KeyValue | None
    route: Route

    @property
    def create_revision(self) -> int:
        """When the journal was created, which tells it from an earlier one of its name."""
        return 0 if self.item is None else self.item.create_revision

    def slot_of(self, process: ProcessId) -> int | None:
        """The slot of a broker, if it has one; slot 0 is the primary's."""
        return next((one.slot for one in self.assignments if one.id == process), None)

    def is_same_service(self, other: JournalView) -> bool:
        """Whether calls under way may go on: the same brokers, slots and stores as before.

        A rewritten value of an assignment changes neither. A key made anew does, although it
        reads the same: its broker was away, and the streams to it are gone.
        """
        return (
            self.create_revision == other.create_revision
            and _keys_of(self) == _keys_of(other)
            and _stores_of(self) == _stores_of(other)
            and self.route.endpoints == other.route.endpoints
        )


def _keys_of(view: JournalView) -> list[tuple[str, int]]:
    return [(assigned.kv.key, assigned.kv.create_revision) for assigned in view.assignments]


def _stores_of(view: JournalView) -> tuple[str, ...] | None:
    return None if view.spec is None else view.spec.fragment.stores


def implied_route(
    assignments: Iterable[Assigned], endpoints: Mapping[ProcessId, str] | None = None
) -> Route:
    """The route that the keys spell out: members in order, and slot 0 as their primary.

    A member whose own key is gone has no endpoint; the route names it all the same.
    """
    ordered = sorted(assignments, key=lambda assigned: assigned.id)
    members = tuple(assigned.id for assigned in ordered)
    primary = next((at for at, assigned in enumerate(ordered) if assigned.slot == 0), -1)
    if endpoints is None:
        return Route(members, primary)
    return Route(members, primary, tuple(endpoints.get(member, "") for member in members))


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for one request; ``process_id`` is None if any member may serve it."""

    status: Status
    process_id: ProcessId | None


def decide(
    view: JournalView, local_id: ProcessId, *, require_primary: bool, may_proxy: bool
) -> Decision:
    """Who is to serve a request of this kind. Any answer but OK comes from this broker itself."""
    status = _status_of(view, require_primary)
    if status is not Status.OK:
        return Decision(status, local_id)
    server = _server_of(view.route, local_id, require_primary)
    if server == local_id or may_proxy:
        return Decision(Status.OK, server)
    refused = Status.NOT_JOURNAL_PRIMARY_BROKER if require_primary else Status.NOT_JOURNAL_BROKER
    return Decision(refused, local_id)


def _status_of(view: JournalView, require_primary: bool) -> Status:
    if view.spec is None:
        return Status.JOURNAL_NOT_FOUND
    if view.spec.suspend.level is SuspendLevel.FULL:
        return Status.SUSPENDED
    if require_primary and view.route.primary == -1:
        return Status.NO_JOURNAL_PRIMARY_BROKER
    if not view.route.members:
        return Status.INSUFFICIENT_JOURNAL_BROKERS
    return Status.OK


def _server_of(route: Route, local_id: ProcessId, require_primary: bool) -> ProcessId | None:
    if require_primary:
        return route.members[route.primary]
    return local_id if local_id in route.members else None


class WrongCluster(Failed):
    """The caller speaks of another cluster."""

    def __init__(self, asked: int, ours: int) -> None:
        super().__init__(asked, ours)
        self.asked, self.ours = asked, ours

    def __str__(self) -> str:
        return (
            f"the request's etcd cluster id is {self.asked:x}, and this broker's {self.ours:x};"
            " the caller's route is of another cluster"
        )


class WrongProcess(Failed):
    """The caller took this broker for another one."""

    def __init__(self, asked: ProcessId, ours: ProcessId) -> None:
        super().__init__(asked, ours)
        self.asked, self.ours = asked, ours

    def __str__(self) -> str:
        return (
            f"the request is for broker {self.asked}, and this is {self.ours};"
            " its address has a new owner, so resolve the route again"
        )


def check_header(
    etcd: EtcdHeader | None, process_id: ProcessId | None, local_id: ProcessId, cluster_id: int
) -> None:
    """Refuse a proxied request that was not meant for this broker of this cluster.

    Raises:
        WrongCluster: Its revisions mean nothing here.
        WrongProcess: The broker that it looks for had this address before.
    """
    if etcd is not None and etcd.cluster_id != cluster_id:
        raise WrongCluster(etcd.cluster_id, cluster_id)
    if process_id is not None and process_id != local_id:
        raise WrongProcess(process_id, local_id)
