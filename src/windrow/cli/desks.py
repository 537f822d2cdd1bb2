"""From the options of a command to the desk at which a person works."""

from __future__ import annotations

import getpass
import socket

from windrow.cli.output import print_json, print_line
from windrow.config import Config
from windrow.outbox.dialects.connecting import dialect_of
from windrow.outbox.table import Table
from windrow.relay.desk import Desk, Outcome
from windrow.relay.desk_elsewhere import DeskElsewhere


def open_desk(config: Config, *files: str) -> Desk:
    """A desk at the configured outbox, with the statements of these files ready.

    Raises:
        Unreachable: The database gives no answer.
        WrongSchema: There is no outbox, or it has not been migrated.
    """
    desk = Desk(
        config.database.dsn.reveal(),
        Table.parse(config.database.table),
        who=_who(),
        connect_timeout=config.database.connect_timeout,
        pooler=config.relay.pooler,
    )
    try:
        return desk.open(*files)
    except BaseException:
        desk.close()
        raise


def desk_elsewhere(config: Config) -> DeskElsewhere | None:
    """A desk at an outbox in MySQL or SQLite, to be entered; None if it is in PostgreSQL."""
    database = config.database
    dialect = dialect_of(database.dsn)
    if dialect is None:
        return None
    return DeskElsewhere(
        database.dsn,
        dialect,
        Table.parse(database.table),
        connect_timeout=database.connect_timeout,
        answer_timeout=database.answer_timeout,
    )


def tell(outcome: Outcome, *, as_json: bool, dry_run: bool) -> None:
    """Say what was done, or would be."""
    if as_json:
        print_json(
            {
                "action": outcome.action,
                "subject": outcome.subject,
                "changed": outcome.changed and not dry_run,
                "would_change": outcome.changed,
                "detail": outcome.detail,
            }
        )
    elif not outcome.changed:
        print_line(f"nothing to do for {outcome.subject}: {outcome.detail}")
    else:
        would = "would " if dry_run else ""
        print_line(f"{would}{outcome.action} {outcome.subject}: {outcome.detail}")


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user has no name
        user = "somebody"
    return f"{user}@{socket.gethostname()}"
