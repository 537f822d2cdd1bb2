"""How do MySQL and SQLite write names, parameters and moments? Pure.

Moments are UTC in both: a ``DATETIME(6)`` of MySQL's, and text that sorts as it reads in SQLite.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from windrow.outbox.table import Table, in_format

COMPANIONS = ("dead", "source", "migrations")


@dataclass(frozen=True, slots=True)
class Dialect:
    """One of the two.

    Attributes:
        system: Its name in an address.
        title: Its name for people.
        mark: What stands for a parameter.
        now: The moment of the statement.
        later: So much later; the parameter is made by ``delay``.
        lock: What a SELECT ends with that takes rows for itself and steps over others'.
        hold: The same, waiting for others.
        by_due: What makes a statement walk the index of what is due.
        by_topic: What makes one walk that of what is due of a topic.
        by_id: What makes one find its rows by id. A scan of a small table, which planners prefer,
            would wait for every row that somebody else has locked.
    """

    system: Literal["mysql", "sqlite"]
    title: str
    mark: str
    now: str
    later: str
    lock: str = ""
    hold: str = ""
    by_due: str = ""
    by_topic: str = ""
    by_id: str = ""

    def quote(self, name: str) -> str:
        """The name as a quoted identifier."""
        sign = "`" if self.system == "mysql" else '"'
        return sign + name.replace(sign, 2 * sign) + sign

    def table(self, table: Table, suffix: str = "") -> str:
        """The outbox, or a table beside it, quoted."""
        name = self.quote(table.name + suffix)
        return name if table.schema is None else f"{self.quote(table.schema)}.{name}"

    def parametrised(self, table: Table, suffix: str = "") -> str:
        """The same for a statement with parameters."""
        name = self.table(table, suffix)
        return in_format(name) if self.mark == "%s" else name

    def marks(self, values: Iterable[object]) -> str:
        """As many parameters as there are values, with commas."""
        return ", ".join(self.mark for _ in values)

    def delay(self, seconds: float) -> int | str:
        """The parameter of ``later``."""
        if self.system == "mysql":
            return round(seconds * 1_000_000)
        return f"{seconds:+.3f} seconds"


_SQLITE_MOMENT = "'%Y-%m-%d %H:%M:%f', 'now'"

MYSQL = Dialect(
    "mysql",
    "MariaDB or MySQL",
    "%s",
    "UTC_TIMESTAMP(6)",
    "UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND",
    lock="FOR UPDATE SKIP LOCKED",
    hold="FOR UPDATE",
    by_due="FORCE INDEX (due)",
    by_topic="FORCE INDEX (topics)",
    by_id="FORCE INDEX (PRIMARY)",
)
SQLITE = Dialect(
    "sqlite", "SQLite", "?", f"strftime({_SQLITE_MOMENT})", f"strftime({_SQLITE_MOMENT}, ?)"
)
