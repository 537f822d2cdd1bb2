"""``windrow journal read``: the content of journals, once or for as long as it comes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from windrow.cli.journal_client import (
    BrokerOption,
    FileRootOption,
    Names,
    SelectorOption,
    file_root_flag,
    find_brokers,
    require_all,
    selection,
)
from windrow.cli.journal_offsets import load_offsets, save_offsets
from windrow.cli.journal_printing import Printer, printer_of
from windrow.cli.moments import unix_seconds
from windrow.cli.options import ConfigFile, Settings
from windrow.journal.client.errors import OffsetJump
from windrow.journal.client.requests import ListedJournal, ReadRequest
from windrow.journal.errors import JournalNotFound, OffsetNotYetAvailable, Suspended
from windrow.journal.labels import LabelSelector
from windrow.telemetry import get_logger

if TYPE_CHECKING:
    from windrow.journal.client.client import JournalClient

_log = get_logger("windrow.journal.read")


def read(
    ctx: typer.Context,
    names: Names = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    broker: BrokerOption = None,
    selector: SelectorOption = None,
    block: Annotated[
        bool, typer.Option("--block", "-b", help="Wait for more at the end, until Ctrl-C.")
    ] = False,
    tail: Annotated[
        bool, typer.Option("--tail", help="Begin at the write head instead of the begin.")
    ] = False,
    offsets: Annotated[
        Path | None,
        typer.Option(
            "--offsets",
            metavar="FILE",
            help="Begin at these, JSON of journal to offset.",
            show_default=False,
        ),
    ] = None,
    offsets_out: Annotated[
        Path | None,
        typer.Option(
            "--offsets-out",
            metavar="FILE",
            help="Write there where each read ended.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Leave out fragments stored before; 1h is ago.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write there, and not to standard output.",
            show_default=False,
        ),
    ] = None,
    records: Annotated[
        bool, typer.Option("--records", "--json", help="Decode records, each as a line of JSON.")
    ] = False,
    direct: Annotated[
        bool, typer.Option("--direct", help="Fetch stored fragments from their store.")
    ] = False,
    file_root: FileRootOption = None,
) -> None:
    """Print content as it is, one journal after the other; with --block, as it arrives."""
    wanted = selection(names, selector)
    plan = Plan(block, tail, unix_seconds(since, "--from"), records, direct)
    begins = load_offsets(offsets)
    brokers = find_brokers(ctx, config_file, settings, broker, file_root_flag(file_root))

    async def work() -> None:
        async with brokers.client() as client:
            found = (await client.list(wanted)).journals
            journals = require_all(found, names, wanted)
            with _output(output) as file:
                reading = Reading(client, plan, begins, file)
                try:
                    if block:
                        await _until_stopped(reading.follow(wanted))
                    else:
                        await reading.read_all(journals)
                finally:
                    if offsets_out is not None:
                        save_offsets(offsets_out, {**begins, **reading.ends})

    asyncio.run(work())


class Plan:
    """How to read."""

    def __init__(
        self, block: bool, tail: bool, begin_mod_time: int, records: bool, direct: bool
    ) -> None:
        self.block, self.tail, self.begin_mod_time = block, tail, begin_mod_time
        self.records, self.direct = records, direct


class Reading:
    """Reads journals and prints them; ``ends`` says how far each was printed."""

    def __init__(
        self, client: JournalClient, plan: Plan, begins: dict[str, int], output: IO[bytes]
    ) -> None:
        self.ends: dict[str, int] = {}
        self._client, self._plan, self._begins = client, plan, begins
        self._output = output

    async def read_all(self, journals: Sequence[ListedJournal]) -> None:
        """One journal after the other, each to its write head."""
        for journal in journals:
            await self._read(journal, is_alone=True)

    async def follow(self, selector: LabelSelector) -> None:
        """All that match, now or later, at the same time and without end."""
        readers: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            async for listing in self._client.watch(selector):
                found = {journal.spec.name: journal for journal in listing.journals}
                for name in readers.keys() - found.keys():
                    readers.pop(name).cancel()
                # One that was suspended may have been resumed by what has changed.
                readers = {name: task for name, task in readers.items() if not task.done()}
                for name in found.keys() - readers.keys():
                    work = self._read(found[name], is_alone=False)
                    readers[name] = group.create_task(work)

    async def _read(self, journal: ListedJournal, *, is_alone: bool) -> None:
        name, plan = journal.spec.name, self._plan
        try:
            offset = self.ends.setdefault(name, await self._begin(name))
            request = ReadRequest(
                name, offset, plan.block, begin_mod_time=plan.begin_mod_time, direct=plan.direct
            )
            printer = printer_of(journal.spec, offset, is_alone=is_alone, as_records=plan.records)
            await self._print(request, printer)
        except Suspended:
            pass  # without a replica, since it has no content
        except JournalNotFound:
            if not plan.block:
                raise
            _log.warning("the journal is gone", journal=name)

    async def _begin(self, journal: str) -> int:
        if journal in self._begins:
            return self._begins[journal]
        return await self._client.write_head(journal) if self._plan.tail else 0

    async def _print(self, request: ReadRequest, printer: Printer) -> None:
        async with self._client.retry_reader(request) as reader:
            while True:
                try:
                    chunk = await reader.next()
                except OffsetJump as jump:
                    self._on_jump(jump, printer)
                    continue
                except OffsetNotYetAvailable:
                    return
                if chunk is None:
                    return
                printed, self.ends[request.journal] = printer.feed(chunk)
                self._output.write(printed)
                self._output.flush()

    def _on_jump(self, jump: OffsetJump, printer: Printer) -> None:
        printer.jump(jump.to)
        self.ends[jump.journal] = jump.to
        if not self._plan.begin_mod_time:  # by which jumps were asked for
            _log.warning(
                "this content is not there any more",
                journal=jump.journal,
                begin=jump.offset,
                end=jump.to,
            )


async def _until_stopped(work: Any) -> None:
    """Do the work until SIGTERM, which ends it as well as it could end."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await task
        if task.cancelled() and (current := asyncio.current_task()) and current.cancelling():
            raise asyncio.CancelledError  # by Ctrl-C, which somebody else answers for
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


@contextlib.contextmanager
def _output(path: Path | None) -> Iterator[IO[bytes]]:
    if path is None:
        yield sys.stdout.buffer
        return
    try:
        file = path.open("wb")
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write {path}: {error.strerror}", param_hint="--output"
        ) from error
    with file:
        yield file
