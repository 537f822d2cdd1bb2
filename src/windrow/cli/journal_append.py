"""``windrow journal append``: put what is read from files or standard input into journals."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Annotated

import typer

from windrow.cli.journal_client import (
    BrokerOption,
    Names,
    SelectorOption,
    find_brokers,
    require_all,
    selection,
)
from windrow.cli.journal_input import PIECE, STDIN, in_background, opened
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_line, print_rows
from windrow.cli.progress import Advance, shown
from windrow.journal.client import mapping as mappings
from windrow.journal.errors import JournalNotFound
from windrow.journal.labels import LabelSelector, LabelSet
from windrow.journal.message.keyed import KeyedInput, KeyedRecord

if TYPE_CHECKING:
    from windrow.journal.client.append_service import AppendService, PendingAppend
    from windrow.journal.client.client import JournalClient

KEPT_IN_MEMORY = 16 * 1024 * 1024
UNCONFIRMED = 64 * 1024 * 1024
"""Bytes that may be on their way before reading waits for commits."""

FRAMINGS = ("none", "lines", "fixed")
MAPPINGS = ("random", "modulo", "rendezvous", "direct")


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the one append of a command insists on, and changes."""

    offset: int = 0
    check: LabelSelector | None = None
    union: LabelSet | None = None
    subtract: LabelSet | None = None

    @property
    def are_given(self) -> bool:
        """Whether there are any."""
        return bool(self.offset or self.check is not None or self.union or self.subtract)


@dataclass(slots=True)
class Appended:
    """What went into one journal."""

    journal: str
    records: int = 0
    bytes: int = 0
    begin: int = 0
    end: int = 0


def append(
    ctx: typer.Context,
    names: Names = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    broker: BrokerOption = None,
    selector: SelectorOption = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="Read it; again for more. Standard input by default.",
            show_default=False,
        ),
    ] = None,
    framing: Annotated[
        str,
        typer.Option(
            "--framing", "-f", metavar="KIND", help="none (one append of all), lines or fixed."
        ),
    ] = "none",
    mapping: Annotated[
        str,
        typer.Option(
            "--mapping",
            "-m",
            metavar="KIND",
            help="random; or, with a key before each record, modulo, rendezvous or direct.",
        ),
    ] = "random",
    is_base64: Annotated[
        bool, typer.Option("--base64", help="Keys before lines are base64.")
    ] = False,
    offset: Annotated[
        int, typer.Option("--offset", min=0, help="Only if the write head is there; 0 is anywhere.")
    ] = 0,
    check_registers: Annotated[
        str | None,
        typer.Option(
            "--check-registers",
            metavar="SELECTOR",
            help="Only if the registers match.",
            show_default=False,
        ),
    ] = None,
    union_registers: Annotated[
        str | None,
        typer.Option(
            "--union-registers",
            metavar="LABELS",
            help="Set registers, as owner=anna.",
            show_default=False,
        ),
    ] = None,
    subtract_registers: Annotated[
        str | None,
        typer.Option(
            "--subtract-registers",
            metavar="LABELS",
            help="Remove registers.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Append the input: as a whole, or record by record to journals chosen by each one's key.

    An append as a whole is there once or not at all. Records are sent in batches, and a batch whose
    answer was lost is sent again.
    """
    conditions = Conditions(
        offset,
        None if check_registers is None else LabelSelector.parse(check_registers),
        _registers(union_registers, "--union-registers"),
        _registers(subtract_registers, "--subtract-registers"),
    )
    _check_usage(framing, mapping, is_base64, conditions)
    wanted = selection(names, selector)
    brokers = find_brokers(ctx, config_file, settings, broker)

    async def work() -> list[Appended]:
        async with brokers.client() as client:
            listing = await client.list(wanted)
            journals = [each.spec.name for each in require_all(listing.journals, names, wanted)]
            with opened(inputs or [STDIN]) as pieces, shown("append", in_bytes=True) as advance:
                if framing == "none":
                    journal = _only(journals) if conditions.are_given else secrets.choice(journals)
                    return [await _append_whole(client, journal, conditions, pieces, advance)]
                records = KeyedInput(
                    "lines" if framing == "lines" else "fixed",
                    has_keys=mapping != "random",
                    is_base64=is_base64,
                )
                chosen = Journals(journals, mapping)
                return await _append_records(client, chosen, records, pieces, advance)

    _tell(asyncio.run(work()), as_json=as_json)


def _check_usage(framing: str, mapping: str, is_base64: bool, conditions: Conditions) -> None:
    if framing not in FRAMINGS:
        raise typer.BadParameter(f"no such framing ({framing}); {', '.join(FRAMINGS)}")
    if mapping not in MAPPINGS:
        raise typer.BadParameter(f"no such mapping ({mapping}); {', '.join(MAPPINGS)}")
    if framing == "none" and mapping != "random":
        raise typer.BadParameter(f"mapping {mapping} goes by keys: give --framing lines or fixed")
    if is_base64 and (framing != "lines" or mapping == "random"):
        raise typer.BadParameter("--base64 is for keys before lines")
    if conditions.are_given and framing != "none":
        raise typer.BadParameter(
            "an offset or registers are for one append of all: leave out --framing"
        )


def _registers(text: str | None, flag: str) -> LabelSet | None:
    if text is None:
        return None
    selector = LabelSelector.parse(text)
    if selector.exclude or any(label.prefix for label in selector.include):
        raise typer.BadParameter(
            f"write registers as name=value,name=value ({text})", param_hint=flag
        )
    return selector.include


def _only(journals: Sequence[str]) -> str:
    if len(journals) > 1:
        raise typer.BadParameter(
            f"an offset or registers are of one journal, and {len(journals)} match"
        )
    return journals[0]


async def _append_whole(
    client: JournalClient,
    journal: str,
    conditions: Conditions,
    pieces: Iterator[bytes],
    advance: Advance,
) -> Appended:
    """All of the input as one append.

    It is gathered first: an append holds its journal, and a pipe that waits for a person would hold
    it for as long.
    """
    with tempfile.SpooledTemporaryFile(max_size=KEPT_IN_MEMORY) as gathered:
        for piece in pieces:
            gathered.write(piece)
        length = gathered.tell()
        gathered.seek(0)
        if length <= KEPT_IN_MEMORY:
            content: bytes | Iterator[bytes] = gathered.read()  # which can be sent again
        else:
            content = _pieces_of(gathered, advance)
            if not conditions.offset:
                await client.append(journal)  # a barrier: when it is done, one try will do
        committed = await client.append(
            journal,
            content,
            offset=conditions.offset,
            check=conditions.check,
            union=conditions.union,
            subtract=conditions.subtract,
        )
    return Appended(journal, 1, committed.end - committed.begin, committed.begin, committed.end)


def _pieces_of(gathered: IO[bytes], advance: Advance) -> Iterator[bytes]:
    while piece := gathered.read(PIECE):
        yield piece
        advance(len(piece))


class Journals:
    """Which journal a record goes to."""

    def __init__(self, names: Sequence[str], mapping: str) -> None:
        self._names = sorted(names)
        self._mapping = mapping

    def journal_of(self, record: KeyedRecord) -> str:
        """The journal of one record.

        Raises:
            JournalNotFound: Its key names a journal that is not one of those selected.
        """
        match self._mapping:
            case "modulo":
                return mappings.modulo(record.key, self._names)
            case "rendezvous":
                return mappings.rendezvous(record.key, self._names)
            case "direct":
                return self._named(record.key.decode("utf-8", "backslashreplace"))
        return secrets.choice(self._names)

    def _named(self, name: str) -> str:
        if name not in self._names:
            raise JournalNotFound(name, "it is not among those selected")
        return name


async def _append_records(
    client: JournalClient,
    journals: Journals,
    records: KeyedInput,
    pieces: Iterator[bytes],
    advance: Advance,
) -> list[Appended]:
    """Every record as an append of its own, many of them on the way at a time."""
    from windrow.journal.client.append_service import AppendService

    async with AppendService(client) as service:
        sending = Sending(client, service)
        async for piece in in_background(pieces):
            for record in records.feed(piece):
                await sending.send(journals.journal_of(record), record.record)
            advance(len(piece))
        for record in records.finish():
            await sending.send(journals.journal_of(record), record.record)
        await sending.confirm_all()
    return sending.appended


class Sending:
    """What is on its way, and what has arrived."""

    def __init__(self, client: JournalClient, service: AppendService) -> None:
        self._client, self._service = client, service
        self._appended: dict[str, Appended] = {}
        self._unconfirmed: dict[PendingAppend, int] = {}
        self._unconfirmed_bytes = 0

    @property
    def appended(self) -> list[Appended]:
        """What has arrived, by journal."""
        return [self._appended[name] for name in sorted(self._appended)]

    async def send(self, journal: str, content: bytes) -> None:
        """Append to a journal; waits while too much is on its way."""
        if journal not in self._appended:
            # The service tries without end: what can never work is found out by a barrier.
            await self._client.append(journal)
            self._appended[journal] = Appended(journal, begin=-1)
        pending = await self._service.enqueue(journal, content)
        self._unconfirmed[pending] = self._unconfirmed.get(pending, 0) + len(content)
        self._unconfirmed_bytes += len(content)
        appended = self._appended[journal]
        appended.records, appended.bytes = appended.records + 1, appended.bytes + len(content)
        while self._unconfirmed:
            oldest = next(iter(self._unconfirmed))
            if not oldest.is_done and self._unconfirmed_bytes <= UNCONFIRMED:
                break
            await self._confirm(oldest)

    async def confirm_all(self) -> None:
        """Wait until everything has arrived."""
        for pending in list(self._unconfirmed):
            await self._confirm(pending)

    async def _confirm(self, pending: PendingAppend) -> None:
        committed = await pending
        self._unconfirmed_bytes -= self._unconfirmed.pop(pending)
        appended = self._appended[pending.request.journal]
        appended.begin = committed.begin if appended.begin < 0 else appended.begin
        appended.end = committed.end


def _tell(appended: list[Appended], *, as_json: bool) -> None:
    if appended or as_json:
        print_rows([asdict(each) for each in appended], as_json=as_json)
    else:
        print_line("the input holds no record")
