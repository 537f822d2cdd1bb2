"""``windrow journal prune``: delete stored fragments that are past their journal's retention."""

from __future__ import annotations

import time
from collections.abc import Iterable

import typer

from windrow.cli.journal_client import (
    BrokerOption,
    Brokers,
    DryRun,
    FileRootOption,
    Names,
    SelectorOption,
    file_root_flag,
    find_brokers,
    find_journals,
    selection,
)
from windrow.cli.moments import shown_moment
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import Row, print_json, print_line, print_rows
from windrow.cli.progress import shown
from windrow.errors import WindrowError
from windrow.journal.client.requests import ListedJournal
from windrow.journal.fragment import Fragment
from windrow.journal.retention import Pruning, plan_pruning
from windrow.journal.spec import SuspendLevel


def prune(
    ctx: typer.Context,
    names: Names = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    broker: BrokerOption = None,
    selector: SelectorOption = None,
    file_root: FileRootOption = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete fragments older than the retention of their journal; a retention of 0 keeps all.

    The objects are deleted from here, so the stores have to be within reach. What is live, and the
    last stored fragment of each journal, always stay.
    """
    wanted = selection(names, selector)
    brokers = find_brokers(ctx, config_file, settings, broker, file_root_flag(file_root))
    with brokers.connect() as client:
        plans = [
            plan_pruning(
                (listed.fragment for listed in client.fragments(journal.spec.name)),
                journal.spec.fragment.retention,
                time.time(),
            )
            for journal in find_journals(client, names, wanted)
            if _has_fragments(journal)
        ]
    kept = sum(len(plan.kept) for plan in plans)
    pruned: list[Fragment] = []
    try:
        _remove(brokers, plans, pruned, dry_run)
    except WindrowError:
        if pruned:
            _tell(pruned, kept, dry_run, as_json)  # what is gone is told all the same
        raise
    _tell(pruned, kept, dry_run, as_json)


def _has_fragments(journal: ListedJournal) -> bool:
    return journal.spec.suspend.level is not SuspendLevel.FULL


def _remove(
    brokers: Brokers, plans: Iterable[Pruning], pruned: list[Fragment], dry_run: bool
) -> None:
    """Delete what may go, and note in ``pruned`` what has gone."""
    from windrow.journal.fragments.stores import Stores

    stores = Stores(brokers.file_root)
    prunable = [fragment for plan in plans for fragment in plan.prunable]
    for url in {fragment.backing_store for fragment in prunable}:
        stores.open(url)  # one that we cannot use is found out before anything is deleted
    with shown("prune", len(prunable)) as advance:
        # From the begin on, so that an end in the middle leaves no hole.
        for fragment in prunable:
            if not dry_run:
                stores.open(fragment.backing_store).remove(fragment.content_path())
            pruned.append(fragment)
            advance(1)


def _tell(pruned: list[Fragment], kept: int, dry_run: bool, as_json: bool) -> None:
    rows = [_row(fragment) for fragment in pruned]
    total = sum(fragment.length for fragment in pruned)
    if as_json:
        print_json({"pruned": rows, "kept": kept, "bytes": total, "dry_run": dry_run})
        return
    if rows:
        print_rows(rows, as_json=False)
    would = "would prune" if dry_run else "pruned"
    print_line(f"{would} {len(rows)} fragments of {total} bytes; {kept} are kept")


def _row(fragment: Fragment) -> Row:
    return {
        "journal": fragment.journal,
        "begin": fragment.begin,
        "end": fragment.end,
        "stored": shown_moment(fragment.mod_time),
        "store": fragment.backing_store,
        "path": fragment.content_path(),
    }
