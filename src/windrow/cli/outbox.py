"""``windrow init``, ``migrate`` and ``check``: make the outbox, bring it up to date, try it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windrow.cli import outbox_elsewhere as elsewhere
from windrow.cli.connecting import connect_postgres
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line, print_rows
from windrow.cli.reaper import ReaperOption, load_with_reaper
from windrow.config import Config, Setting
from windrow.outbox.claims.indexes import check_indexes, index_statements, make_indexes
from windrow.outbox.dialects.connecting import dialect_of
from windrow.outbox.facts import check as check_outbox
from windrow.outbox.grants import Roles, grants
from windrow.outbox.schema import Migration, migrate, pending, require_outbox, script
from windrow.outbox.table import Table
from windrow.relay.partitioning import judge_partitioner

if TYPE_CHECKING:
    pass

init_app = typer.Typer(help="Create the outbox.", add_completion=False)
migrate_app = typer.Typer(help="Bring the outbox up to date.", add_completion=False)
check_app = typer.Typer(help="Find what is off with the outbox.", add_completion=False)

DsnOption = Annotated[
    str | None, typer.Option("--dsn", metavar="DSN", help="Use this database.", show_default=False)
]
TableOption = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="TABLE", help="The outbox: outbox or schema.outbox.", show_default=False
    ),
]
CompanionsOnly = Annotated[
    bool,
    typer.Option("--companions-only", help="Leave the outbox as goharvest or Debezium made it."),
]


@init_app.command()
def init(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    dsn: DsnOption = None,
    table: TableOption = None,
    companions_only: CompanionsOnly = False,
    with_grants: Annotated[
        bool, typer.Option("--grants", help="Also make roles with the least rights for each part.")
    ] = False,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the SQL, and run nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create the outbox and the tables beside it; what is there already is kept."""
    config = _load(ctx, config_file, settings, reaper_file, dsn)
    outbox = _table(config, table)
    dialect = dialect_of(config.database.dsn)
    if dialect is not None:
        unknown = {"--companions-only": companions_only, "--grants": with_grants}
        elsewhere.refuse(unknown, dialect)
        if print_only:
            print_line(elsewhere.script(dialect, outbox))
            return
        _tell_steps(outbox, elsewhere.init(config.database, dialect, outbox), as_json=as_json)
        return
    rights = grants(outbox) if with_grants else []
    competes = config.relay.mode == "competing"
    if print_only:
        indexes = [f"{statement};" for statement in index_statements(outbox) if competes]
        parts = [script(outbox, companions_only=companions_only), *indexes, *rights]
        print_line("\n\n".join(parts))
        return
    with connect_postgres(config.database) as connection:
        steps = migrate(connection, outbox, companions_only=companions_only)
        if competes:
            make_indexes(connection, outbox)
        with connection.transaction():
            for statement in rights:
                connection.execute(statement)
    _tell_steps(outbox, steps, as_json=as_json)
    if rights and not as_json:
        roles = Roles()
        print_line(f"granted: {roles.writer}, {roles.relay}, {roles.reader}")
        print_line(f"next: GRANT {roles.writer} TO the role of your service")


@migrate_app.command("migrate")
def migrate_command(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    dsn: DsnOption = None,
    table: TableOption = None,
    companions_only: CompanionsOnly = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Apply the steps that the outbox has not had; safe while the previous release runs."""
    config = _load(ctx, config_file, settings, reaper_file, dsn)
    outbox = _table(config, table)
    dialect = dialect_of(config.database.dsn)
    if dialect is not None:
        elsewhere.refuse({"--companions-only": companions_only}, dialect)
        steps = elsewhere.migrate(config.database, dialect, outbox, dry_run=dry_run)
    else:
        with connect_postgres(config.database) as connection:
            require_outbox(connection, outbox)
            act = pending if dry_run else migrate
            steps = act(connection, outbox, companions_only=companions_only)
    _tell_steps(outbox, steps, as_json=as_json, verb="would be applied" if dry_run else "applied")


@check_app.command()
def check(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    dsn: DsnOption = None,
    table: TableOption = None,
    as_json: AsJson = False,
) -> None:
    """Print what is off and what to run next; exit 1 if something has to be done."""
    config = _load(ctx, config_file, settings, reaper_file, dsn)
    outbox = _table(config, table)
    dialect = dialect_of(config.database.dsn)
    if dialect is not None:
        findings = elsewhere.check(config.database, dialect, outbox)
    else:
        with connect_postgres(config.database) as connection:
            findings = [*check_outbox(connection, outbox), *judge_partitioner(config)]
            if config.relay.mode == "competing":
                findings += check_indexes(connection, outbox)
    rows = [asdict(finding) for finding in findings]
    if as_json or rows:
        print_rows(rows, as_json=as_json)
    else:
        print_line(f"outbox {outbox} is as it should be")
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


def _load(
    ctx: typer.Context, config_file: Any, settings: Any, reaper_file: Any, dsn: str | None
) -> Config:
    flags = [] if dsn is None else [Setting(("database", "dsn"), dsn, "--dsn")]
    return load_with_reaper(ctx, reaper_file, config_file, settings, flags)[0]


def _table(config: Config, given: str | None) -> Table:
    return Table.parse(config.database.table if given is None else given)


def _tell_steps(
    table: Table, steps: list[Migration], *, as_json: bool, verb: str = "applied"
) -> None:
    if as_json:
        print_json([{"number": step.number, "name": step.name} for step in steps])
    elif steps:
        for step in steps:
            print_line(f"{verb}: {step.number:04} {step.name}")
    else:
        print_line(f"outbox {table} is up to date")
