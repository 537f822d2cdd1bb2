"""How long a broker waits for others, so that whoever hangs delays a journal by a bounded time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Limits on what other brokers may take. Durations are seconds."""

    peer_write: float = 5.0
    """One message to be taken by a peer's connection."""
    peer_ack: float = 5.0
    """One answer of a peer, its flush included."""
    stale_stream: float = 5.0
    """Silence after which a stream is ended that is outdated, or in the way of another."""

    @classmethod
    def of(cls, peer_timeout: float) -> Timeouts:
        """The same limit for all of them."""
        return cls(peer_write=peer_timeout, peer_ack=peer_timeout, stale_stream=peer_timeout)
