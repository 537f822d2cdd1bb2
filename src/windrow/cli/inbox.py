"""``windrow inbox``: make the table in which consumers note what they took, and keep it small."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from windrow.cli.connecting import connect_postgres
from windrow.cli.foreground import stopped_by_signals
from windrow.cli.loading import load_config
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line
from windrow.config import Database
from windrow.inbox.claiming import BATCH, Inbox
from windrow.inbox.postgres_answers import purge_answers
from windrow.inbox.schema import migrate, plain_schema, schema_sql
from windrow.outbox.dialects.connecting import connected, dialect_of
from windrow.outbox.table import Table
from windrow.types import parse_duration

app = typer.Typer(
    help="Make and purge the inbox of consumers.", add_completion=False, no_args_is_help=True
)

TableOption = Annotated[
    str, typer.Option("--table", metavar="TABLE", help="The inbox: inbox or schema.inbox.")
]


@app.command()
def init(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    table: TableOption = "inbox",
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the SQL, and run nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create the inbox in the configured database; what is there already is kept."""
    database = load_config(ctx, config_file, settings).config.database
    inbox, dialect = Table.parse(table), dialect_of(database.dsn)
    if print_only:
        print_line(schema_sql(inbox, database.dsn.system).rstrip())
        return
    with _connect(database, create=True) as connection:
        if dialect is None:
            steps = [step.name for step in migrate(connection, inbox)]
        else:
            steps = []
            for statement in plain_schema(dialect, inbox):
                connection.cursor().execute(statement)
    if as_json:
        print_json({"inbox": str(inbox), "applied": steps})
    else:
        print_line(f"inbox {inbox} is up to date")


@app.command()
def purge(
    ctx: typer.Context,
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="AGE", help="Claims older than this go, as 7d."),
    ],
    config_file: ConfigFile = None,
    settings: Settings = None,
    table: TableOption = "inbox",
    batch: Annotated[int, typer.Option("--batch", min=1, help="So many at a time.")] = BATCH,
    every: Annotated[
        str | None,
        typer.Option(
            "--every",
            metavar="TIME",
            help="Go on until stopped, once in so long.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Delete old claims and answers, in batches; a message that comes again after that is new."""
    age = _duration(older_than, "--older-than")
    pause = None if every is None else _duration(every, "--every")
    database = load_config(ctx, config_file, settings).config.database
    inbox = Table.parse(table)
    stopping = threading.Event()
    with stopped_by_signals(lambda again: stopping.set()):
        while True:
            with _connect(database) as connection:
                counts = _purge(connection, database, inbox, age, batch, stopping.is_set)
            _tell(counts, as_json=as_json)
            if pause is None or stopping.wait(pause):
                return


def _purge(
    connection: Any,
    database: Database,
    inbox: Table,
    age: float,
    batch: int,
    is_stopping: Callable[[], bool],
) -> dict[str, int]:
    """How many went; each batch is a transaction of its own."""
    counts = {"claims": 0, "answers": 0}
    acts: dict[str, Callable[[], int]] = {
        "claims": lambda: Inbox(inbox).purge(connection, age, batch)
    }
    if dialect_of(database.dsn) is None:
        acts["answers"] = lambda: purge_answers(connection, inbox, age, batch)
    for name, act in acts.items():
        while not is_stopping():
            gone = act()
            counts[name] += gone
            if gone < batch:
                break
    return counts


def _tell(counts: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        print_json(counts)
    else:
        print_line(f"purged: {counts['claims']} claims, {counts['answers']} answers")


def _duration(text: str, option: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    if seconds <= 0:
        raise typer.BadParameter("has to be longer than nothing", param_hint=option)
    return seconds


@contextmanager
def _connect(database: Database, *, create: bool = False) -> Iterator[Any]:
    """A connection in autocommit; what the driver or the server says is told in a line.

    Raises:
        Unreachable: It refused, or did not answer within ``connect_timeout``.
        DatabaseFailed: A statement failed.
    """
    if dialect_of(database.dsn) is not None:
        timeouts = database.connect_timeout, database.answer_timeout
        with connected(database.dsn, *timeouts, create=create) as connection:
            yield connection
        return
    with connect_postgres(database) as connection:
        yield connection
