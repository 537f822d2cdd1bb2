"""What a database is asked for, and what is called its fault. Pure."""

from __future__ import annotations

from windrow.config.dsn import System
from windrow.outbox.table import Table, quote
from windrow.verify.errors import BadQuery
from windrow.verify.grammar import SqlSpec, TableSpec


def query_of(spec: SqlSpec | TableSpec, system: System) -> str:
    """The query that gives keys and ids, or ids alone, in their order.

    Raises:
        InvalidIdentifier: A name is none.
    """
    if isinstance(spec, SqlSpec):
        return spec.query
    table = Table.parse(spec.table)
    schema = [] if table.schema is None else [table.schema]
    columns = [spec.id] if spec.key is None else [spec.key, spec.id]
    return (
        f"SELECT {', '.join(_quoted(name, system) for name in columns)}"
        f" FROM {'.'.join(_quoted(name, system) for name in [*schema, table.name])}"
        f" ORDER BY {', '.join(_quoted(name, system) for name in spec.order.split(','))}"
    )


def check_columns(source: str, found: int) -> None:
    """See to it that a query gives one column or two.

    Raises:
        BadQuery: It gives more.
    """
    if found not in (1, 2):
        raise BadQuery(source, f"it gives {found} columns; select the key and the id, or the id")


def first_line(error: BaseException) -> str:
    """What a driver says first."""
    said = str(error.args[-1]) if error.args else str(error)
    return said.strip().partition("\n")[0] or type(error).__name__


def _quoted(name: str, system: System) -> str:
    quoted = quote(name.strip())
    if system == "postgresql":
        return quoted
    # SQLite, too: there a name in double quotes that no column has is taken for a text.
    return "`" + name.strip().replace("`", "``") + "`"
