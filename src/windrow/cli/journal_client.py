"""How the verbs of ``windrow journal`` find the brokers, and the journals they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windrow.cli.loading import load_config
from windrow.config import Setting
from windrow.config.journal import Journal
from windrow.errors import Failed
from windrow.extras import require
from windrow.journal.client.configured import connect_to, options_of
from windrow.journal.client.requests import ListedJournal
from windrow.journal.errors import JournalNotFound
from windrow.journal.labels import Label, LabelSelector, LabelSet
from windrow.journal.names import valid_journal

if TYPE_CHECKING:
    from windrow.journal.client.client import JournalClient
    from windrow.journal.client.sync import SyncJournalClient

BrokerOption = Annotated[
    str | None,
    typer.Option(
        "--broker",
        metavar="ADDRESS",
        help="The brokers, as host:port; several with commas.",
        show_default=False,
    ),
]
SelectorOption = Annotated[
    str | None,
    typer.Option(
        "--selector",
        "-l",
        metavar="SELECTOR",
        help="Journals of these labels, as app=shop,!old or prefix=my/.",
        show_default=False,
    ),
]
FileRootOption = Annotated[
    str | None,
    typer.Option(
        "--file-root",
        metavar="DIRECTORY",
        help="Where the brokers' file:// stores lie on this machine.",
        show_default=False,
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="JOURNAL", help="Journals by name.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


class NoMatch(Failed):
    """A selector that no journal matches."""

    def __init__(self, selector: str) -> None:
        super().__init__(selector)
        self.selector = selector

    def __str__(self) -> str:
        return f'no journal matches {self.selector!r}; see "windrow journal list"'


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers that are configured."""

    config: Journal

    def connect(self) -> SyncJournalClient:
        """A blocking client of them."""
        return connect_to(self.config)

    def client(self) -> JournalClient:
        """A client of them for an event loop."""
        from windrow.journal.client.client import JournalClient

        return JournalClient(self.config.addresses, **options_of(self.config))

    @property
    def file_root(self) -> Path | None:
        """Where their ``file://`` stores lie on this machine, if they do."""
        return Path(self.config.file_root) if self.config.file_root else None


def find_brokers(
    ctx: typer.Context,
    config_file: Path | None,
    settings: Sequence[str] | None,
    broker: str | None,
    flags: Sequence[Setting] = (),
) -> Brokers:
    """The brokers of this command line.

    Raises:
        ConfigError: Something in the configuration is wrong.
        MissingExtra: What it takes to call brokers is not installed.
    """
    given = [] if broker is None else [Setting(("journal", "address"), broker, "--broker")]
    config = load_config(ctx, config_file, settings, [*given, *flags]).config
    require("grpc")
    require("google.protobuf")
    return Brokers(config.journal)


def file_root_flag(file_root: str | None) -> list[Setting]:
    """What ``--file-root`` sets."""
    if file_root is None:
        return []
    return [Setting(("journal", "file_root"), file_root, "--file-root")]


def selection(
    names: Sequence[str] | None, selector: str | None, *, needed: bool = True
) -> LabelSelector:
    """The journals that a command is about, by their names, by a selector, or by both.

    Raises:
        InvalidField: A name or the selector is none.
        BadParameter: Neither was given, and the command does not take that for all journals.
    """
    if needed and not names and selector is None:
        raise typer.BadParameter("name a journal, or choose some by --selector")
    chosen = LabelSelector.parse(selector or "")
    if not names:
        return chosen
    named = LabelSet.of([Label("name", valid_journal(name)) for name in names])
    return LabelSelector(named.union(chosen.include), chosen.exclude)


def find_journals(
    client: SyncJournalClient, names: Sequence[str] | None, selector: LabelSelector
) -> tuple[ListedJournal, ...]:
    """The journals that are meant.

    Raises:
        JournalNotFound: One was named that does not exist, or does not match the selector.
        NoMatch: None matches the selector.
    """
    return require_all(client.list(selector).journals, names, selector)


def require_all(
    found: tuple[ListedJournal, ...], names: Sequence[str] | None, selector: LabelSelector
) -> tuple[ListedJournal, ...]:
    """The journals that were found, if nothing is missing; see ``find_journals``."""
    for name in names or ():
        if name not in {journal.spec.name for journal in found}:
            raise JournalNotFound(name)
    if not found:
        raise NoMatch(str(selector))
    return found
