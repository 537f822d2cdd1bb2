"""Databases of a PostgreSQL server, made from a template and dropped again."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from windrow.extras import require

if TYPE_CHECKING:
    from psycopg.sql import Composed


def dsn_of(server_dsn: str, dbname: str) -> str:
    """The URI of another database of the same server."""
    return urlsplit(server_dsn)._replace(path="/" + quote(dbname, safe="")).geturl()


def create_database(server_dsn: str, name: str, template: str | None = None) -> str:
    """Create a database and return its URI.

    Args:
        server_dsn: The URI of any database of the server.
        name: What to call the new one.
        template: Which database to copy, schema and rows; nobody may be connected to it.
    """
    sql = require("psycopg.sql")
    _execute(
        server_dsn,
        sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(template or "template1")
        ),
    )
    return dsn_of(server_dsn, name)


def drop_database(server_dsn: str, name: str) -> None:
    """Drop a database and whatever is connected to it; does nothing if it is not there."""
    sql = require("psycopg.sql")
    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    _execute(server_dsn, statement)


def version_of(server_dsn: str) -> str:
    """What the server calls itself, as ``18.4``."""
    psycopg = require("psycopg")
    with psycopg.connect(server_dsn) as connection:
        return str(connection.info.parameter_status("server_version")).split()[0]


def _execute(server_dsn: str, statement: Composed) -> None:
    psycopg = require("psycopg")
    # Neither statement can run inside a transaction.
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(statement)
