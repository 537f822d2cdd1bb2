"""What do the options of ``windrow-outbox`` say? Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from windrow.config import Dsn
from windrow.outbox.errors import InvalidIdentifier
from windrow.outbox.table import Table
from windrow.spark.formats.options import Options
from windrow.spark.outbox.queue import ROWS_AHEAD, OutboxQueue

NAME: Final = "windrow-outbox"
OPTIONS: Final = (
    "secret_dsn",
    "table",
    "source",
    "maxRowsPerBatch",
    "numPartitions",
    "failOnDataLoss",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of the format, read and checked.

    Attributes:
        dsn: The database, with its password; shown without.
        table: The outbox in it.
        source: The ``_source`` of its messages.
        max_rows: How many one batch takes.
        parts: By how many tasks a batch is read, each with keys of its own.
        fail_on_data_loss: Whether to stop at rows that have an index and are gone.
    """

    dsn: Dsn
    table: Table
    source: str
    max_rows: int = ROWS_AHEAD
    parts: int = 1
    fail_on_data_loss: bool = True

    def open(self) -> OutboxQueue:
        """The queue, with its connection still to be made."""
        return OutboxQueue(
            self.dsn.reveal(), self.table, self.source, fail_on_data_loss=self.fail_on_data_loss
        )


def settings_of(given: Mapping[str, str]) -> Settings:
    """From the options of a reader.

    Raises:
        UnknownOption: One is not known.
        InvalidOption: One is missing, or out of its range or form.
    """
    options = Options(NAME, given)
    options.check_known(OPTIONS)
    table = _table(options)
    return Settings(
        _dsn(options),
        table,
        options.get("source") or str(table),
        options.count("maxRowsPerBatch") or ROWS_AHEAD,
        options.count("numPartitions") or 1,
        _truth(options, "failOnDataLoss"),
    )


def _dsn(options: Options) -> Dsn:
    text = options.get("secret_dsn")
    if not text:
        raise options.refused("secret_dsn", "give the address of the database")
    try:
        return Dsn(text)
    except ValueError as error:
        raise options.refused("secret_dsn", str(error)) from None


def _table(options: Options) -> Table:
    try:
        return Table.parse(options.get("table") or "outbox")
    except InvalidIdentifier as error:
        raise options.refused("table", error.reason) from error


def _truth(options: Options, name: str) -> bool:
    text = options.get(name, "true").lower()
    if text not in ("true", "false"):
        raise options.refused(name, "must be true or false")
    return text == "true"
