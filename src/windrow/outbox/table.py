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

_PLAIN = re.compile(r"[\w$]+")
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


def quote_text(text: str) -> str:
    """The text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


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
    def written(self) -> str:
        """As ``parse`` reads it and people write it: quoted only where it has to be."""
        parts = [self.name] if self.schema is None else [self.schema, self.name]
        return ".".join(part if _PLAIN.fullmatch(part) else quote(part) for part in parts)

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
    value: str | None = "kafka_value"
    header_keys: str | None = "kafka_header_keys"
    header_values: str | None = "kafka_header_values"
    leader: str = "leader_id"
    created: str | None = "create_time"
    value_bytes: str | None = None
    partition: str | None = None
    timestamp: str | None = None
    attempts: str | None = None
    not_before: str | None = None
    last_error: str | None = None
    topic_prefix: str = ""
    """What stands before the text of the topic column to make it a topic."""
    constant_headers: Mapping[str, str] = field(default_factory=dict)
    """Further columns sent as headers: header name → column, such as Debezium's ``type``."""

    @property
    def named(self) -> dict[str, str]:
        """The columns there are, by what they hold."""
        others = ("topic_prefix", "constant_headers")
        names = {name: getattr(self, name) for name in self.__slots__ if name not in others}
        return {name: column for name, column in names.items() if column is not None}

    @property
    def used(self) -> set[str]:
        """Every column that the table has to have."""
        return {*self.named.values(), *self.constant_headers.values()}


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


def debezium(
    order: str,
    *,
    topic_prefix: str = "outbox.event.",
    leader: str = "leader_id",
    created: str | None = None,
    is_binary: bool = False,
) -> Columns:
    """The columns of Debezium's outbox, whose events leave as its event router sends them.

    Its ids are random, so the table needs a number that tells the order, and a place for the
    relay's mark::

        ALTER TABLE outboxevent
          ADD COLUMN seq BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
          ADD COLUMN leader_id UUID;

    Args:
        order: The column with that number, here ``seq``.
        topic_prefix: What stands before ``aggregatetype`` to make it a topic.
        leader: The column for the relay's mark.
        created: The column with the time of the event, if there is one.
        is_binary: Whether the payload is BYTEA, and not JSON or text.
    """
    return Columns(
        id=order,
        topic="aggregatetype",
        key="aggregateid",
        value=None if is_binary else "payload",
        value_bytes="payload" if is_binary else None,
        header_keys=None,
        header_values=None,
        leader=leader,
        created=created,
        topic_prefix=topic_prefix,
        constant_headers={"id": "id", "eventType": "type"},
    )


def found(columns: Columns, present: frozenset[str]) -> Columns:
    """The mapping with the optional columns left out that the table does not have."""
    optional = {"value_bytes", "partition", "timestamp", "attempts", "not_before", "last_error"}
    if columns.value is None:
        optional -= {"value_bytes"}  # there is no other place for the value
    absent = [name for name in optional if getattr(columns, name) not in present]
    return replace(columns, **dict.fromkeys(absent))  # type: ignore[arg-type]  # names above
