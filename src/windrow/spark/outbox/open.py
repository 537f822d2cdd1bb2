"""How is a queue opened that a graph declares as an outbox?"""

from __future__ import annotations

from windrow.outbox.table import Table
from windrow.spark.outbox.errors import NoDatabase
from windrow.spark.outbox.queue import ROWS_AHEAD, OutboxQueue
from windrow.spark.places import Place


def open_outbox(place: Place) -> OutboxQueue:
    """The queue, with its connection still to be made.

    Of the declared options it knows ``rows_ahead`` and ``fail_on_data_loss``.

    Raises:
        NoDatabase: None is configured.
    """
    dsn = place.connections.postgres_dsn
    if dsn is None:
        raise NoDatabase(place.queue, place.address)
    return OutboxQueue(
        dsn.reveal(),
        Table.parse(place.address),
        place.queue,
        rows_ahead=int(place.options.get("rows_ahead", ROWS_AHEAD)),
        fail_on_data_loss=bool(place.options.get("fail_on_data_loss", True)),
    )
