"""How a broker tells that an append without a status certainly wrote nothing.

On the wire an append that fails for a reason without a status is a broken call, and a client that
has sent its commit mark cannot know what became of it. Where the broker does know, it says so in
the trailing metadata of the call; stock clients ignore that.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

NOT_WRITTEN = "windrow-not-written"
"""The name of the metadata; its value is that of a failure."""


class FailureKind(Enum):
    """What is known of an append that failed without a status."""

    UNKNOWN = "unknown"
    """It may have been written, in part of the replicas or in all of them."""
    PASSING = "passing"
    """Nothing was written, for want of a disk, a replica or a route: the same may work later."""
    REFUSED = "refused"
    """Nothing was written, and the same append would be refused again."""

    @classmethod
    def of(cls, metadata: Iterable[Any] | None) -> FailureKind:
        """What the trailing metadata of a call says."""
        told = next((value for name, value in metadata or () if name == NOT_WRITTEN), None)
        return next((kind for kind in cls if kind.value == told), cls.UNKNOWN)

    def as_metadata(self) -> tuple[tuple[str, str], ...]:
        """The trailing metadata that says so; none if there is nothing to say."""
        return () if self is FailureKind.UNKNOWN else ((NOT_WRITTEN, self.value),)
