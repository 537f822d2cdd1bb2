"""``windrow doctor``: try every configured part and say what to do about the broken ones."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

from windrow.cli.loading import load_config
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_rows
from windrow.config import Config, Database, Resolved, Setting, redact
from windrow.errors import Failed, Unreachable
from windrow.extras import require
from windrow.outbox.dialects.connecting import connected, dialect_of, version_of

app = typer.Typer(help="Try every part that is configured.", add_completion=False)

_TOLD_ALREADY = re.compile(r"^connection failed: (?:connection to server .*? failed: )?")


@app.command()
def doctor(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    dsn: Annotated[
        str | None,
        typer.Option("--dsn", metavar="DSN", help="Try this database instead.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a line per part: ok, or the problem and the next step; exit 1 if there is a problem."""
    flags = [] if dsn is None else [Setting(("database", "dsn"), dsn, "--dsn")]
    resolved = load_config(ctx, config_file, settings, flags)
    rows = [
        _examine("config", lambda: _describe_config(resolved), "windrow config check"),
        _examine(
            "database",
            lambda: _describe_database(resolved.config.database),
            "start it, or set database.dsn; see: windrow config show",
        ),
    ]
    print_rows(rows, as_json=as_json)
    if any(row["state"] != "ok" for row in rows):
        raise typer.Exit(1)


def _examine(part: str, describe: Callable[[], str], remedy: str) -> dict[str, str | None]:
    try:
        return {"part": part, "state": "ok", "detail": describe(), "next": None}
    except Failed as problem:
        return {"part": part, "state": "problem", "detail": str(problem), "next": remedy}


def _describe_config(resolved: Resolved[Config]) -> str:
    given = [key for key, origin in resolved.origin_of.items() if origin != "default"]
    return f"{len(given)} of {len(resolved.origin_of)} keys set, the others are defaults"


def _describe_database(database: Database) -> str:
    """The server's version and address.

    Raises:
        Unreachable: It refused, or did not answer within ``connect_timeout``.
    """
    dsn = database.dsn
    dialect = dialect_of(dsn)
    if dialect is not None:
        with connected(dsn, database.connect_timeout, database.answer_timeout) as connection:
            return f"{dialect.title} {version_of(connection, dialect)} at {dsn.address}"
    psycopg: Any = require("psycopg")
    try:
        # libpq counts whole seconds.
        timeout = math.ceil(database.connect_timeout)
        with psycopg.connect(dsn.reveal(), connect_timeout=timeout) as connection:
            version = connection.execute("SHOW server_version").fetchone()[0]
    except psycopg.Error as error:
        first_line = _TOLD_ALREADY.sub("", str(error)).partition("\n")[0].strip()
        reason = redact(dsn.hide_in(first_line))
    else:
        return f"PostgreSQL {version} at {dsn.address}"
    # Raised out here so that the driver's error, which may quote the password, is not its context.
    raise Unreachable("PostgreSQL", dsn.address, reason)
