"""``windrow journal store-health``: can the brokers use their stores?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from windrow.cli.journal_client import (
    BrokerOption,
    SelectorOption,
    find_brokers,
    find_journals,
    selection,
)
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_line, print_rows
from windrow.journal.store_url import valid_store

if TYPE_CHECKING:
    from windrow.journal.client.sync import SyncJournalClient


def store_health(
    ctx: typer.Context,
    stores: Annotated[
        list[str] | None,
        typer.Argument(metavar="STORE", help="Stores, as file:///my/.", show_default=False),
    ] = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    broker: BrokerOption = None,
    selector: SelectorOption = None,
    check_delete: Annotated[
        bool, typer.Option("--check-delete", help="Also whether objects can be deleted.")
    ] = False,
    check_delete_prefix: Annotated[
        str,
        typer.Option("--check-delete-prefix", metavar="PATH", help="Where to try that."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Have a broker write, read and list in stores; by default in all that journals use."""
    for store in stores or ():
        valid_store(store)
    with find_brokers(ctx, config_file, settings, broker).connect() as client:
        rows = [
            {
                "store": store,
                "problem": client.store_health(
                    store,
                    check_delete=check_delete or bool(check_delete_prefix),
                    check_delete_prefix=check_delete_prefix,
                ),
            }
            for store in stores or _in_use(client, selector)
        ]
    if rows or as_json:
        print_rows(
            [{**row, "problem": row["problem"] or (None if as_json else "none")} for row in rows],
            as_json=as_json,
        )
    else:
        print_line("no journal has a store")
    if any(row["problem"] for row in rows):
        raise typer.Exit(1)


def _in_use(client: SyncJournalClient, selector: str | None) -> Sequence[str]:
    journals = find_journals(client, None, selection(None, selector, needed=False))
    return sorted({store for journal in journals for store in journal.spec.fragment.stores})
