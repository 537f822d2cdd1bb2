"""Whether a broker that leaves can hand its journals over at all."""

from __future__ import annotations

from windrow.coordination.mirror import Mirror
from windrow.journal.allocation.service import wire_decoders
from windrow.journal.allocation.state import StateReader
from windrow.journal.keys import Keys
from windrow.journal.spec import ProcessId


def can_be_spared(mirror: Mirror, keys: Keys, process: ProcessId, max_replication: int) -> bool:
    """Whether the others have room for what this broker holds, by the allocator's own reckoning."""
    state = StateReader(keys, wire_decoders(), max_replication).read(
        mirror.prefixed(keys.items),
        mirror.prefixed(keys.members),
        mirror.prefixed(keys.assignments),
    )
    return state.sheds.get(process, 0) > 0
