"""Brokers and the routes they form: who they are, where they listen, which of them is primary."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from windrow.journal.errors import InvalidField, field
from windrow.journal.names import KEY_SEPARATOR, valid_token
from windrow.journal.store_url import split_url

MAX_JOURNAL_LIMIT = 1 << 17
NO_PRIMARY = -1

_ZONE_LENGTHS = 1, 32
_SUFFIX_LENGTHS = 4, 128
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, order=True)
class ProcessId:
    """A process, unique by its suffix within a failure zone; ordered by zone, then suffix."""

    zone: str
    suffix: str

    def __str__(self) -> str:
        return f"{self.zone}{KEY_SEPARATOR}{self.suffix}"

    @classmethod
    def parse(cls, text: str) -> ProcessId:
        """The id written ``zone#suffix``.

        Raises:
            InvalidField: It is not of that form.
        """
        zone, separator, suffix = text.partition(KEY_SEPARATOR)
        if not separator:
            raise InvalidField("ProcessId", f"expected zone{KEY_SEPARATOR}suffix ({text})")
        process = cls(zone, suffix)
        with field("ProcessId"):
            process.validate()
        return process

    def validate(self) -> None:
        """Check zone and suffix.

        Raises:
            InvalidField: One of them is out of its alphabet or length.
        """
        valid_token(self.zone, *_ZONE_LENGTHS, context="Zone")
        valid_token(self.suffix, *_SUFFIX_LENGTHS, context="Suffix")


def valid_endpoint(url: str, *, context: str = "Endpoint") -> str:
    """``url`` itself, if a broker can be reached there.

    Raises:
        InvalidField: It is not an absolute ``http``, ``https`` or ``unix`` URL with a host.
    """
    parts = split_url(url, context=context)
    if parts.scheme not in (*_DEFAULT_PORTS, "unix"):
        raise InvalidField(context, f"expected http, https or unix ({url})")
    if parts.scheme == "unix" and not parts.path.startswith("/"):
        raise InvalidField(context, f"a unix endpoint needs a path ({url})")
    # unix:///path is accepted upstream only with a host in front of its path.
    if not parts.netloc or (parts.scheme != "unix" and not parts.hostname):
        raise InvalidField(context, f"missing host ({url})")
    return url


def grpc_address(endpoint: str) -> str:
    """What a gRPC channel dials to reach a valid endpoint."""
    parts = split_url(endpoint, context="Endpoint")
    if parts.scheme == "unix":
        return f"unix:{parts.path}"
    host = parts.hostname or ""
    bracketed = f"[{host}]" if ":" in host else host
    return f"{bracketed}:{parts.port or _DEFAULT_PORTS[parts.scheme]}"


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """A broker as it announces itself; ``exiting`` asks for its journals to be moved away."""

    id: ProcessId
    endpoint: str
    journal_limit: int = 0
    exiting: bool = False

    def validate(self) -> None:
        """Check id, endpoint and limit.

        Raises:
            InvalidField: One of them is not possible.
        """
        with field("ProcessSpec"):
            with field("Id"):
                self.id.validate()
            valid_endpoint(self.endpoint)
        if not 0 <= self.journal_limit <= MAX_JOURNAL_LIMIT:
            raise InvalidField(
                "JournalLimit",
                f"invalid limit ({self.journal_limit}; expected 0 <= limit <= {MAX_JOURNAL_LIMIT})",
            )


@dataclass(frozen=True, slots=True)
class Route:
    """The brokers of a journal, sorted, and which of them is its primary.

    ``primary`` indexes ``members``, and is -1 if there is none. ``endpoints`` is empty or names
    the address of each member; an empty address belongs to a member that is not announced.
    """

    members: tuple[ProcessId, ...] = ()
    primary: int = NO_PRIMARY
    endpoints: tuple[str, ...] = ()

    NONE: ClassVar[Route]
    """The route of what is not routed: no members, no primary."""

    def equivalent(self, other: Route) -> bool:
        """Whether members and primary are the same, wherever they listen."""
        return self.members == other.members and self.primary == other.primary

    @property
    def primary_id(self) -> ProcessId | None:
        """The primary, if there is one."""
        return self.members[self.primary] if self.primary != NO_PRIMARY else None

    def endpoint_of(self, process: ProcessId) -> str | None:
        """Where a member listens, if the route tells."""
        if not self.endpoints or process not in self.members:
            return None
        return self.endpoints[self.members.index(process)] or None

    def without_endpoints(self) -> Route:
        """The route as it is kept in etcd."""
        return Route(self.members, self.primary)

    def validate(self) -> None:
        """Check members, primary and endpoints.

        Raises:
            InvalidField: They are malformed, out of order, or do not fit together.
        """
        for index, member in enumerate(self.members):
            with field(f"Members[{index}]"):
                member.validate()
        for index, (left, right) in enumerate(pairwise(self.members), start=1):
            if left >= right:
                raise InvalidField(
                    f"Members[{index}]",
                    f"must sort after its predecessor ({right} follows {left})",
                )
        if not NO_PRIMARY <= self.primary < len(self.members):
            raise InvalidField(
                "Primary",
                f"invalid primary ({self.primary}; expected -1 <= primary < {len(self.members)})",
            )
        self._check_endpoints()

    def _check_endpoints(self) -> None:
        if self.endpoints and len(self.endpoints) != len(self.members):
            raise InvalidField(
                "Endpoints",
                f"expected none or one per member ({len(self.endpoints)} for {len(self.members)})",
            )
        for index, endpoint in enumerate(self.endpoints):
            if endpoint:
                valid_endpoint(endpoint, context=f"Endpoints[{index}]")


Route.NONE = Route()


@dataclass(frozen=True, slots=True)
class EtcdHeader:
    """The etcd cluster and revision an answer speaks of; valid only if no part is zero."""

    cluster_id: int
    member_id: int
    revision: int
    raft_term: int

    def validate(self) -> None:
        """Check that every part is set.

        Raises:
            InvalidField: One is zero, or the revision negative.
        """
        for context, number in (
            ("ClusterId", self.cluster_id),
            ("MemberId", self.member_id),
            ("Revision", self.revision),
            ("RaftTerm", self.raft_term),
        ):
            if number <= 0:
                raise InvalidField(context, f"expected a positive number (have {number})")


@dataclass(frozen=True, slots=True)
class Header:
    """Who answers or is asked, by which route, as of which revision.

    ``process_id`` is ``None`` where any member of the route may serve.
    """

    process_id: ProcessId | None
    route: Route
    etcd: EtcdHeader

    def validate(self) -> None:
        """Check process, route and revision.

        Raises:
            InvalidField: One of them is not possible.
        """
        if self.process_id is not None:
            with field("ProcessId"):
                self.process_id.validate()
        with field("Route"):
            self.route.validate()
        with field("Etcd"):
            self.etcd.validate()
