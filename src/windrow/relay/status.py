"""How an outbox stands: who leads, what waits, what is blocked. Never what is in a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from windrow.relay.desk import Desk

QUERIES = "status.sql"

COUNT_LIMIT = 100_000
SAMPLE = 10_000
TOP = 10
TOP_BLOCKED = 100


@dataclass(frozen=True, slots=True)
class Leader:
    """Who led a shard last."""

    shard: int
    name: str | None
    """None if nobody ever did, or if it has said good-bye."""
    epoch: int
    since: datetime | None
    elected_by: str | None
    """``lease``, ``neli``, ``single``, or None if nobody ever was."""
    lease_remaining: float | None
    leads: bool | None
    """Whether it still does; None if that cannot be seen from here."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A key, a topic or the whole relay that waits."""

    what: str
    name: str
    reason: str
    note: str | None
    since: datetime
    rows: int
    """How many of the first rows of the outbox wait with it."""


@dataclass(frozen=True, slots=True)
class Hot:
    """A key, and how many of the first rows are its."""

    key: str
    rows: int


@dataclass(frozen=True, slots=True)
class Status:
    """All of it, as it was at one moment."""

    leaders: tuple[Leader, ...]
    backlog: int
    backlog_is_bounded: bool
    """Whether there is more than was counted."""
    oldest_age: float | None
    in_flight: int
    """Rows that are marked; the ``diff`` reader marks none."""
    blocked: tuple[Wait, ...]
    blocked_by_reason: dict[str, int]
    hottest: tuple[Hot, ...]
    dead_letters: int
    last_dead_letter: datetime | None
    generation: int = 1
    shards: int = 1
    """How many relays may share the outbox, by key."""
    is_settled: bool = True
    """Whether all that an earlier number of shards left is seen to."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What is too much."""

    max_age: float | None = None
    max_backlog: int | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last sign of life of a leader whom Kafka elected."""

    name: str
    is_fresh: bool


def read_status(
    desk: Desk,
    *,
    elected_by: str = "lease",
    count_limit: int = COUNT_LIMIT,
    find_heartbeat: Callable[[int], Heartbeat | None] = lambda shard: None,
) -> Status:
    """Look once, with a few bounded statements.

    Args:
        desk: An open desk; a role that may read no payload is enough.
        elected_by: How leaders are elected: ``lease``, ``neli`` or ``single``.
        count_limit: How far rows are counted.
        find_heartbeat: Asks Kafka about the leader that it has elected for a shard.
    """
    ((backlog, oldest_age, in_flight),) = desk.read("backlog", limit=count_limit)
    ((generation, shards, unsettled),) = desk.read("plan")
    ((dead, last_dead),) = desk.read("dead_letters", limit=count_limit)
    return Status(
        leaders=tuple(_leader(elected_by, find_heartbeat, *row) for row in desk.read("leaders")),
        backlog=backlog,
        backlog_is_bounded=backlog >= count_limit,
        oldest_age=oldest_age,
        in_flight=in_flight,
        blocked=tuple(Wait(*row) for row in desk.read("blocked", top=TOP_BLOCKED, sample=SAMPLE)),
        blocked_by_reason=dict(desk.read("blocked_by_reason")),
        hottest=tuple(Hot(*row) for row in desk.read("hottest", top=TOP, sample=SAMPLE)),
        dead_letters=dead,
        last_dead_letter=last_dead,
        generation=generation,
        shards=shards,
        is_settled=not unsettled,
    )


def _leader(
    elected_by: str,
    find_heartbeat: Callable[[int], Heartbeat | None],
    shard: int,
    epoch: int,
    name: str | None,
    since: datetime,
    has_leases: bool,
    remaining: float | None,
) -> Leader:
    left: float | None = None
    leads: bool | None = None
    if epoch == 0:
        return Leader(shard, None, 0, None, None, None, False)
    if name is None:
        leads = False  # it has said good-bye
    elif elected_by == "lease" and has_leases:
        left = remaining if remaining is not None and remaining > 0 else None
        leads = left is not None
    elif elected_by == "neli":
        heartbeat = find_heartbeat(shard)
        leads = None if heartbeat is None else heartbeat.is_fresh and heartbeat.name == name
    return Leader(shard, name, epoch, since, elected_by, left, leads)


def find_problems(status: Status, thresholds: Thresholds) -> list[str]:
    """What somebody should be woken for."""
    problems = []
    for leader in status.leaders:
        if leader.leads is False and status.backlog:
            last = f"the last was {leader.name}; " if leader.name else ""
            what = f" shard {leader.shard}" if status.shards > 1 else ""
            problems.append(f"nobody leads{what}, though rows wait; {last}run: windrow relay")
    max_age, max_backlog = thresholds.max_age, thresholds.max_backlog
    if max_age is not None and (status.oldest_age or 0.0) > max_age:
        problems.append(
            f"the oldest row has waited {status.oldest_age:.1f} s, more than {max_age:g} s"
        )
    if max_backlog is not None and status.backlog > max_backlog:
        more = "or more " if status.backlog_is_bounded else ""
        problems.append(f"{status.backlog} rows {more}wait, more than {max_backlog}")
    return problems
