"""``windrow journal apply``: create, change and delete journals by a file of their specs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windrow.cli.journal_client import BrokerOption, DryRun, find_brokers
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line, print_rows
from windrow.journal.client.changes import Judged, StaleRevisions, changes_of, judge, names_of
from windrow.journal.client.requests import Change
from windrow.journal.errors import EtcdTransactionFailed, InvalidField
from windrow.journal.labels import EMPTY, Label, LabelSelector, LabelSet
from windrow.journal.spec_tree import parse_tree

if TYPE_CHECKING:
    from windrow.journal.client.sync import SyncJournalClient

STDIN = "-"


def apply(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    broker: BrokerOption = None,
    specs: Annotated[
        str, typer.Option("--specs", metavar="FILE", help="The specs, YAML; - is standard input.")
    ] = STDIN,
    max_txn_size: Annotated[
        int,
        typer.Option(
            "--max-txn-size", min=0, help="So many journals at a time; 0 is all or nothing."
        ),
    ] = 0,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make journals as a file says; each has to be at the revision that the file names."""
    changes = read_changes(_read(specs), "standard input" if specs == STDIN else specs)
    with find_brokers(ctx, config_file, settings, broker).connect() as client:
        if dry_run:
            tell(refuse_stale(judged(client, changes)), None, as_json=as_json)
        else:
            made, revision = apply_changes(client, changes, max_txn_size)
            tell(made, revision, as_json=as_json)


def read_changes(text: str, source: str) -> tuple[Change, ...]:
    """The changes that a text asks for.

    Raises:
        InvalidField: It is no tree of specs, or one without a journal.
    """
    try:
        changes = changes_of(parse_tree(text)) if text.strip() else ()
    except InvalidField as error:
        message = " ".join(error.message.split())  # of a parser, which draws an arrow below
        context = f"{source}: {error.context}" if error.context else source
        raise InvalidField(context, message) from error
    if not changes:
        raise InvalidField(source, "names no journal")
    return changes


def apply_changes(
    client: SyncJournalClient, changes: Sequence[Change], batch: int = 0
) -> tuple[list[Judged], int]:
    """Make the changes; returns what they were and the revision that has them.

    Raises:
        StaleRevisions: Journals are not at the revisions that were expected.
    """
    made = refuse_stale(judged(client, changes))
    wanted = [
        change
        for change, each in zip(changes, made, strict=True)
        if each.action != "unchanged"  # a new revision would make those that others know stale
    ]
    if not wanted:
        return made, 0
    try:
        return made, client.apply(wanted, batch=batch)
    except EtcdTransactionFailed:
        if not batch:
            refuse_stale(judged(client, changes))  # which tells it better
        raise


def judged(client: SyncJournalClient, changes: Sequence[Change]) -> list[Judged]:
    """What the changes come to, given the journals there are now."""
    named = LabelSet.of([Label("name", name) for name in names_of(changes)])
    return judge(changes, client.list(LabelSelector(named, EMPTY)).journals)


def refuse_stale(changes: list[Judged]) -> list[Judged]:
    """The changes, if every journal is at the revision that is expected."""
    stale = [(each.journal, each.expected, each.present) for each in changes if each.is_stale]
    if stale:
        raise StaleRevisions(stale)
    return changes


def tell(made: Sequence[Judged], revision: int | None, *, as_json: bool) -> None:
    """Say what was done; without a revision, what would be."""
    rows = [
        {key: value for key, value in asdict(each).items() if key in ("journal", "action")}
        for each in made
    ]
    if as_json:
        print_json({"revision": revision, "dry_run": revision is None, "changes": rows})
        return
    print_rows(rows, as_json=False)
    if revision is None:
        print_line("nothing was changed (--dry-run)")
    elif revision:
        print_line(f"applied at revision {revision}")


def _read(specs: str) -> str:
    try:
        return sys.stdin.read() if specs == STDIN else Path(specs).read_text(encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(
            f"cannot read {specs}: {error.strerror}", param_hint="--specs"
        ) from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{specs} is not UTF-8 text", param_hint="--specs") from error
