"""Names of the outbox table, of its companions and of its columns, as quoted identifiers.

Nothing from outside reaches SQL except through here: a name is checked, then quoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from windrow.outbox.errors import InvalidIdentifier

MAX_IDENTIFIER_BYTES = 63
"""PostgreSQL cuts longer names silently, and two cut names may meet."""

LONGEST_SUFFIX = "_migrations"

_PART = re.compile(r'(?:"((?:[^"]|"")*)"|([^".]*))(?=\.|\Z)')


def quote(name: str) -> str:
    """The name as a quoted SQL identifier.

    Raises:
        InvalidIdentifier: PostgreSQL would not take it as it is.
    """
    if not name:
        raise InvalidIdentifier(name, "is empty")
    if "\x00" in name:
        raise InvalidIdentifier(name, "holds the character NUL")
    if len(name.encode()) > MAX_IDENTIFIER_BYTES:
        raise InvalidIdentifier(name, f"is longer than {MAX_IDENTIFIER_BYTES} bytes")
    return '"' + name.replace('"', '""') + '"'


def in_format(sql: str) -> str:
    """The same for a driver that reads a percent sign as the beginning of a parameter."""
    return sql.replace("%", "%%")


@dataclass(frozen=True, slots=True)
class Table:
    """An outbox table, schema-qualified or left to the search path."""

    name: str = "outbox"
    schema: str | None = None

    def __post_init__(self) -> None:
        quote(self.name)
        quote(self.name + LONGEST_SUFFIX)
        if self.schema is not None:
            quote(self.schema)

    @classmethod
    def parse(cls, text: str) -> Table:
        """``outbox`` or ``schema.outbox``; quote a part that holds a dot: ``"my.schema".outbox``.

        Inside double quotes two of them stand for one, as in SQL. Case is kept either way.

        Raises:
            InvalidIdentifier: More than two parts, an empty one, or one too long.
        """
        parts = _split(text)
        if len(parts) > 2:
            raise InvalidIdentifier(text, "has more than two parts; write schema.table")
        return cls(parts[-1], parts[0] if len(parts) == 2 else None)

    @property
    def sql(self) -> str:
        """The table itself, quoted."""
        return self.companion("")

    def companion(self, suffix: str) -> str:
        """A table that goes with it, such as ``outbox_epoch``, quoted."""
        name = quote(self.name + suffix)
        return name if self.schema is None else f"{quote(self.schema)}.{name}"

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


def _split(text: str) -> list[str]:
    parts, position = [], 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            reason = 'is not of the form schema.table; write "a.b" for a name with a dot in it'
            raise InvalidIdentifier(text, reason)
        quoted, plain = match.groups()
        parts.append(plain if quoted is None else quoted.replace('""', '"'))
        position = match.end() + 1
        if position > len(text):
            return parts


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column holds what. The defaults are goharvest's names; None means there is none."""

    id: str = "id"
    topic: str = "kafka_topic"
    key: str = "kafka_key"
    value: str = "kafka_value"
    header_keys: str | None = "kafka_header_keys"
    header_values: str | None = "kafka_header_values"
    leader: str = "leader_id"
    created: str = "create_time"
    value_bytes: str | None = None
    partition: str | None = None
    timestamp: str | None = None
    attempts: str | None = None
    not_before: str | None = None
    last_error: str | None = None
    constant_headers: Mapping[str, str] = field(default_factory=dict)
    """Further columns sent as headers: header name → column, such as Debezium's ``type``."""


GOHARVEST = Columns()
"""goharvest's own table, read unchanged."""

WINDROW = Columns(
    value_bytes="kafka_value_bytes",
    partition="kafka_partition",
    timestamp="kafka_timestamp",
    attempts="attempts",
    not_before="not_before",
    last_error="last_error",
)
"""goharvest's table with what Windrow adds."""


def found(columns: Columns, present: frozenset[str]) -> Columns:
    """The mapping with the optional columns left out that the table does not have."""
    optional = ("value_bytes", "partition", "timestamp", "attempts", "not_before", "last_error")
    absent = [name for name in optional if getattr(columns, name) not in present]
    return replace(columns, **dict.fromkeys(absent))  # type: ignore[arg-type]  # names above
