"""``windrow journal suspend``: give up the replicas of journals that nobody writes to."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from windrow.cli.journal_client import (
    BrokerOption,
    Names,
    SelectorOption,
    find_brokers,
    find_journals,
    selection,
)
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_rows
from windrow.journal.client.requests import ListedJournal
from windrow.journal.errors import Suspended
from windrow.journal.spec import SuspendControl, SuspendLevel

if TYPE_CHECKING:
    from windrow.journal.client.sync import SyncJournalClient


def suspend(
    ctx: typer.Context,
    names: Names = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    broker: BrokerOption = None,
    selector: SelectorOption = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Also those whose content is not all stored yet.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Suspend journals: idle ones keep one replica, empty ones none; an append resumes them."""
    wanted = selection(names, selector)
    control = SuspendControl.NOW if force else SuspendControl.IF_FLUSHED
    with find_brokers(ctx, config_file, settings, broker).connect() as client:
        found = find_journals(client, names, wanted)
        for journal in found:
            _suspend(client, journal, control)
        now = find_journals(client, names, wanted)
    rows = [
        {
            "journal": journal.spec.name,
            "level": journal.spec.suspend.level.name,
            "offset": journal.spec.suspend.offset,
        }
        for journal in now
    ]
    print_rows(rows, as_json=as_json)


def _suspend(client: SyncJournalClient, journal: ListedJournal, control: SuspendControl) -> None:
    if journal.spec.suspend.level is SuspendLevel.FULL:
        return
    with contextlib.suppress(Suspended):  # which is what was asked for
        client.append(journal.spec.name, suspend=control)
