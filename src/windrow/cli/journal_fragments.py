"""``windrow journal fragments``: which pieces of journals lie where."""

from __future__ import annotations

from typing import Annotated

import typer

from windrow.cli.journal_client import (
    BrokerOption,
    Names,
    SelectorOption,
    find_brokers,
    find_journals,
    selection,
)
from windrow.cli.moments import shown_moment, unix_seconds
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import Row, print_line, print_rows
from windrow.journal.client.requests import ListedFragment
from windrow.journal.spec import SuspendLevel
from windrow.types import parse_duration


def fragments(
    ctx: typer.Context,
    names: Names = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    broker: BrokerOption = None,
    selector: SelectorOption = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Stored then or later; 1h is ago.", show_default=False
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="Stored then or before.", show_default=False),
    ] = None,
    url_ttl: Annotated[
        str | None,
        typer.Option(
            "--url-ttl",
            metavar="DURATION",
            help="With URLs to fetch them, valid for so long.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List fragments: their offsets, when and where they were stored; the live one is in none."""
    moments = {
        "begin_mod_time": unix_seconds(begin, "--from"),
        "end_mod_time": unix_seconds(end, "--to"),
    }
    lifetime = _seconds(url_ttl)
    wanted = selection(names, selector, needed=False)
    rows: list[Row] = []
    with find_brokers(ctx, config_file, settings, broker).connect() as client:
        for journal in find_journals(client, names, wanted):
            if journal.spec.suspend.level is SuspendLevel.FULL:
                continue  # it has no content, and nobody who could say so
            listed = client.fragments(journal.spec.name, signature_ttl=lifetime, **moments)
            rows += [_row(each, with_url=lifetime > 0) for each in listed]
    if rows or as_json:
        print_rows(rows, as_json=as_json)
    else:
        print_line("no fragments")


def _seconds(text: str | None) -> float:
    try:
        return 0.0 if text is None else parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url-ttl") from error


def _row(listed: ListedFragment, *, with_url: bool) -> Row:
    fragment = listed.fragment
    row = {
        "journal": fragment.journal,
        "begin": fragment.begin,
        "end": fragment.end,
        "bytes": fragment.length,
        "stored": shown_moment(fragment.mod_time),
        "codec": fragment.codec.name,
        "sha1": fragment.sum.hex(),
        "store": fragment.backing_store,
    }
    return row | {"url": listed.signed_url} if with_url else row
