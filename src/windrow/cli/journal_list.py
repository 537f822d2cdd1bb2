"""``windrow journal list``: which journals there are, and who serves them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from windrow.cli.journal_client import (
    BrokerOption,
    Names,
    SelectorOption,
    find_brokers,
    require_all,
    selection,
)
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import Row, print_json, print_line, print_rows
from windrow.journal.client.changes import tree_of
from windrow.journal.client.requests import ListedJournal
from windrow.journal.durations import format_go_duration
from windrow.journal.process import Route
from windrow.journal.spec import Flag, JournalSpec
from windrow.journal.spec_tree import format_tree

Format = Literal["table", "yaml", "json", "proto"]


def list_journals(
    ctx: typer.Context,
    names: Names = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    broker: BrokerOption = None,
    selector: SelectorOption = None,
    format: Annotated[
        str,
        typer.Option(
            "--format", "-o", metavar="FORMAT", help="table, yaml (for apply), json or proto."
        ),
    ] = "table",
    label_columns: Annotated[
        list[str] | None,
        typer.Option(
            "--label-columns", "-L", metavar="LABEL", help="Also show it.", show_default=False
        ),
    ] = None,
    stores: Annotated[bool, typer.Option("--stores", help="Also show the stores.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print again after each change, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List journals with their replication and route; as YAML, to be changed and applied."""
    chosen = _format("json" if as_json else format)
    wanted = selection(names, selector, needed=False)
    columns = tuple(label for given in label_columns or () for label in given.split(","))
    with find_brokers(ctx, config_file, settings, broker).connect() as client:
        listing = client.list(wanted)
        if names:
            require_all(listing.journals, names, wanted)
        if not watch:
            _print(listing.journals, chosen, columns, stores)
            return
        for listing in client.watch(wanted):
            _print(listing.journals, chosen, columns, stores)


def _format(text: str) -> Format:
    if text not in ("table", "yaml", "json", "proto"):
        raise typer.BadParameter(
            f"no such format ({text}); table, yaml, json or proto", param_hint="--format"
        )
    return text  # type: ignore[return-value]  # just checked


def _print(
    journals: Sequence[ListedJournal], format: Format, columns: Sequence[str], stores: bool
) -> None:
    match format:
        case "json":
            print_json([_as_object(journal) for journal in journals])
        case "yaml":
            print_line(format_tree(tree_of(journals)).rstrip("\n"))
        case "proto":
            print_line(_as_proto(journals))
        case "table" if journals:
            print_rows([_row(journal, columns, stores) for journal in journals], as_json=False)
        case "table":
            print_line("no journals")


def _row(journal: ListedJournal, columns: Sequence[str], stores: bool) -> Row:
    spec, route = journal.spec, journal.route
    row: dict[str, object] = {
        "journal": spec.name,
        "replication": spec.replication,
        "primary": _primary(route),
        "replicas": ", ".join(_replicas(route)),
        "revision": journal.mod_revision,
    }
    if stores:
        row["stores"] = ", ".join(spec.fragment.stores)
    return row | {label: ", ".join(spec.labels.values(label)) for label in columns}


def _primary(route: Route) -> str:
    return str(route.members[route.primary]) if route.primary >= 0 else ""


def _replicas(route: Route) -> Iterable[str]:
    return (str(member) for at, member in enumerate(route.members) if at != route.primary)


def _as_object(journal: ListedJournal) -> dict[str, Any]:
    return {
        **_spec_object(journal.spec),
        "revision": journal.mod_revision,
        "create_revision": journal.create_revision,
        "primary": _primary(journal.route) or None,
        "replicas": list(_replicas(journal.route)),
        "endpoints": list(journal.route.endpoints),
    }


def _spec_object(spec: JournalSpec) -> dict[str, Any]:
    fragment = asdict(spec.fragment)
    fragment["compression_codec"] = spec.fragment.codec.name
    del fragment["codec"]
    for key in ("refresh_interval", "retention", "flush_interval"):
        fragment[key] = format_go_duration(fragment[key])
    return {
        "journal": spec.name,
        "replication": spec.replication,
        "labels": [{"name": label.name, "value": label.value} for label in spec.labels],
        "fragment": fragment,
        "flags": Flag(spec.flags).name,
        "max_append_rate": spec.max_append_rate,
        "suspend": {"level": spec.suspend.level.name, "offset": spec.suspend.offset},
    }


def _as_proto(journals: Sequence[ListedJournal]) -> str:
    from google.protobuf import text_format

    from windrow.journal.messages import spec_to_pb

    return "\n".join(text_format.MessageToString(spec_to_pb(each.spec)) for each in journals)


__all__ = ["list_journals"]
