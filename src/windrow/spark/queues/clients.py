"""Clients that all queues of one process share.

A task is over in a moment, and a connection takes longer than many a batch: so connections stay for
as long as the worker process does. A process that was forked never uses those of its parent.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from windrow.config.journal import Journal
from windrow.journal.client.configured import connect_to

if TYPE_CHECKING:
    from windrow.journal.client.sync import SyncJournalClient

_journal_clients: dict[tuple[int, Journal], SyncJournalClient] = {}


def journal_client(config: Journal) -> SyncJournalClient:
    """The client of these brokers; leave it open, others use it too.

    Raises:
        MissingExtra: What it takes to call brokers is not installed.
        InvalidValue: A file that is named cannot be read.
    """
    key = os.getpid(), config
    client = _journal_clients.get(key)
    if client is None:
        client = _journal_clients[key] = connect_to(config)
    return client


def close_clients() -> None:
    """Close every client of this process; the next one that is asked for is a new one."""
    mine = [key for key in _journal_clients if key[0] == os.getpid()]
    for key in mine:
        _journal_clients.pop(key).close()
