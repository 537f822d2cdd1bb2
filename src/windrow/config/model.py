"""Everything that can be configured, with its default. A new part adds its section here."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from windrow.config.dsn import Dsn
from windrow.config.graph import Graph
from windrow.config.journal import Journal
from windrow.config.relay import Kafka, Relay
from windrow.config.secrets import Secret
from windrow.config.section import Section
from windrow.types import Duration

_NAME = r'(?:[A-Za-z_][A-Za-z0-9_$]{0,62}|"(?:[^"\x00\n]|""){1,63}")'
_TABLE = re.compile(rf"{_NAME}(\.{_NAME})?")


def _table_name(name: str) -> str:
    # It becomes part of SQL statements, so nothing but a plain name may pass.
    if not _TABLE.fullmatch(name):
        raise ValueError('not a table name; write it as outbox, schema.outbox or "any name"')
    return name


class Database(Section):
    """The database that holds the outbox."""

    password: Secret | None = None
    """Kept apart from the DSN, it replaces the password there."""
    dsn: Annotated[Dsn, Field(validate_default=True)] = Dsn("postgresql://localhost/postgres")
    """Where the database is, as a URI or in libpq's key=value form; for competing relays also
    ``mysql://…`` and ``sqlite:///…``."""
    table: Annotated[str, AfterValidator(_table_name)] = "outbox"
    """The outbox table, with its schema if it is not on the search path."""
    connect_timeout: Annotated[Duration, Field(gt=0)] = 5.0
    """How long to wait for a connection."""
    answer_timeout: Annotated[Duration, Field(gt=0)] = 10.0
    """How long to wait for the answer to a statement before the connection is given up."""

    @field_validator("dsn")
    @classmethod
    def _put_password_in(cls, dsn: Dsn, info: ValidationInfo) -> Dsn:
        password = info.data.get("password")
        return dsn if password is None else dsn.with_password(password)


class Log(Section):
    """What is logged, and how it looks."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe level that is written."""
    format: Literal["console", "json"] = "console"
    """For people, or one JSON object per line."""


class Http(Section):
    """Where ``/metrics``, ``/healthz`` and ``/readyz`` are served."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """The address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """The port to listen on; 0 is off."""


class Config(Section):
    """The whole configuration."""

    database: Database = Database()
    log: Log = Log()
    http: Http = Http()
    kafka: Kafka = Kafka()
    relay: Relay = Relay()
    journal: Journal = Journal()
    graph: Graph = Graph()
