"""What a competing relay does with its outbox, one step at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from windrow.relay.competing.contract import Burial, Retry, Suspects, Topics


@dataclass(frozen=True, slots=True)
class ClaimRows:
    """Lease so many rows; ``is_probe``: to try whether silent destinations are back."""

    limit: int
    topics: Topics
    suspects: Suspects
    is_probe: bool = False


@dataclass(frozen=True, slots=True)
class FinishRows:
    """End claims by their outcomes; ``is_repeat``: it was tried, and may have been done."""

    delivered: tuple[int, ...] = ()
    retries: tuple[Retry, ...] = ()
    burials: tuple[Burial, ...] = ()
    is_repeat: bool = False

    @property
    def ids(self) -> list[int]:
        """All the rows of it."""
        retried, buried = [row.id for row in self.retries], [row.id for row in self.burials]
        return [*self.delivered, *retried, *buried]

    def again(self) -> Self:
        """The same once more."""
        return replace(self, is_repeat=True)


@dataclass(frozen=True, slots=True)
class RenewRows:
    """Hold on to rows for longer."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReleaseRows:
    """Give rows back."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Abandon:
    """Wait no longer for the answers to these."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rest:
    """There is nothing to do before that time, unless something happens."""

    until: float


@dataclass(frozen=True, slots=True)
class End:
    """It has stopped, and holds nothing."""


StoreStep = ClaimRows | FinishRows | RenewRows | ReleaseRows
Step = StoreStep | Abandon | Rest | End
