"""How several relays share one outbox: which generation of shards holds, who takes how many. Pure.

The plan, a generation and its number of shards, lives beside the epochs in the outbox database and
nowhere else; what a configuration says is a proposal. A new generation raises the epochs of all
shards in one transaction, so that no leader of an older one marks anything more. Then it *settles*:
whoever leads shard 0 waits until nothing of the old leaders can arrive any more, or shuts them out
of the target and finds out what they committed. Only then may the other shards be led::

    settled, n shards ──a proposal of m, and no other──▶ unsettled, m shards ──▶ settled, m shards
                                                          (shard 0 alone is led)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """How the outbox is divided."""

    generation: int = 1
    shards: int = 1
    unsettled: int = 0
    """How many shards of earlier generations are not settled yet; 0 once all is."""

    @property
    def is_settled(self) -> bool:
        """Whether every shard may be led."""
        return self.unsettled == 0


WHOLE = Plan()
"""An outbox that nobody has ever divided."""


@dataclass(frozen=True, slots=True)
class Census:
    """What one look at the outbox database tells a relay."""

    plan: Plan
    members: int = 1
    """How many relays are alive, this one included."""
    proposals: frozenset[int] = frozenset()
    """The numbers of shards that any of them asks for."""
    free: tuple[int, ...] = ()
    """Shards whose lease anybody may take."""


def proposal_due(census: Census, wanted: int | None) -> int | None:
    """The number of shards to begin a new generation with, if it is time to.

    While relays disagree nothing is changed, or they would take turns at changing it; and one
    change is brought to its end before the next.
    """
    if wanted is None or wanted == census.plan.shards or not census.plan.is_settled:
        return None
    return wanted if census.proposals <= {wanted} else None


def quota(plan: Plan, members: int) -> int:
    """How many shards one relay takes at the most: nobody hoards.

    Rounded up, so that all are taken; with 4 shards and 3 relays one may have none, which leaves
    the most that anybody has as it is.
    """
    return -(-plan.shards // max(1, members)) if plan.is_settled else 1


def wanted_shards(census: Census, held: Collection[int]) -> list[int]:
    """The free shards to stand for."""
    if not census.plan.is_settled:
        return [0] if 0 in census.free and 0 not in held else []
    room = quota(census.plan, census.members) - len(held)
    return [shard for shard in census.free if shard not in held][: max(0, room)]


def surplus_shards(census: Census, held: Collection[int]) -> list[int]:
    """The shards to hand over, because others are there to take them."""
    if not census.plan.is_settled:
        return []
    excess = len(held) - quota(census.plan, census.members)
    return sorted(held)[-excess:] if excess > 0 else []
