"""An outbox as a source: rows with an index, marked, read again, and purged when settled."""

from windrow.spark.outbox.errors import DividedOutbox, NoDatabase, RowsGone
from windrow.spark.outbox.hooks import lead, prepare_available_now, settle
from windrow.spark.outbox.open import open_outbox
from windrow.spark.outbox.queue import OutboxQueue

__all__ = [
    "DividedOutbox",
    "NoDatabase",
    "OutboxQueue",
    "RowsGone",
    "lead",
    "open_outbox",
    "prepare_available_now",
    "settle",
]
