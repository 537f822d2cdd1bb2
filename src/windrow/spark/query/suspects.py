"""Which message was being run when the worker died? A note in a journal, made before each call.

Notes are made only once a batch has failed as often as its processor allows, and by one task alone:
so the last note names the message whose worker did not live to make the next one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from windrow.journal.client.sequence import SEQ
from windrow.journal.errors import JournalNotFound
from windrow.journal.labels import LabelSet
from windrow.journal.message.record import Record, decode_records, encode_records

if TYPE_CHECKING:
    from windrow.journal.client.sync import SyncJournalClient

NOTE: Final = "windrow.dev/note"


class JournalSuspects:
    """Notes in a journal; a register holds where the last one begins.

    Args:
        client: Who to ask; it is left open.
        journal: The journal; it need not be there as long as nothing is noted.
    """

    def __init__(self, client: SyncJournalClient, journal: str) -> None:
        self._client = client
        self._journal = journal

    def note(self, delivery_hash: str, position: str) -> None:
        """Write down, durably, what is about to be run; an empty position for nothing."""
        head = self._client.append(self._journal)
        seq = int(head.registers.value(SEQ) or 0)
        text = json.dumps([delivery_hash, position]).encode()
        content = encode_records([Record(value=text)], seq)
        moved = LabelSet.of({SEQ: str(seq + 1), NOTE: str(head.end)})
        self._client.append(self._journal, content, union=moved)

    def read(self, delivery_hash: str) -> str:
        """What was written down last, if it was for that snapshot."""
        try:
            head = self._client.append(self._journal)
        except JournalNotFound:
            return ""
        begin = head.registers.value(NOTE)
        if begin is None:
            return ""
        content = self._client.read(self._journal, int(begin), head.end)
        noted, position = json.loads(decode_records(content, int(begin))[-1].value or b'["",""]')
        return str(position) if noted == delivery_hash else ""
