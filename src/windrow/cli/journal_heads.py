"""``windrow journal reset-head``: let a journal go on whose brokers have lost its end."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import typer

from windrow.cli.asking import ask
from windrow.cli.journal_client import (
    BrokerOption,
    DryRun,
    Names,
    SelectorOption,
    Yes,
    find_brokers,
    find_journals,
    selection,
)
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_line, print_rows
from windrow.cli.progress import shown
from windrow.errors import Failed, WindrowError
from windrow.journal.client.errors import OffsetJump
from windrow.journal.client.requests import Committed, ListedJournal, ReadRequest
from windrow.journal.client.sequence import SEQ, RegisterRebuild
from windrow.journal.errors import IndexHasGreaterOffset, WrongAppendOffset
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.message.record import Control, encode_control
from windrow.journal.spec import SuspendControl, SuspendLevel

if TYPE_CHECKING:
    from windrow.journal.client.sync import SyncJournalClient


class NothingStored(Failed):
    """A journal of which nothing is left, neither in a store nor with a broker."""

    def __init__(self, journal: str) -> None:
        super().__init__(journal)
        self.journal = journal

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: nothing of it was stored, so it has no head to go on from;"
            ' delete it and apply it anew, by "delete: true" in "windrow journal edit"'
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """How a journal's head stands, and what is to be done about it."""

    journal: str
    head: int
    is_lost: bool
    """Its brokers do not know where it ends, and refuse appends."""
    lacks_registers: bool
    """Its writers number their appends, and the registers that they do it by are not there."""

    @property
    def needs_repair(self) -> bool:
        """Whether there is anything to do."""
        return self.is_lost or self.lacks_registers

    @property
    def action(self) -> str:
        """What will be done."""
        if self.is_lost and self.lacks_registers:
            return f"begin anew at {self.head}, with registers rebuilt from its content"
        if self.is_lost:
            return f"begin anew at {self.head}"
        return "rebuild its registers from its content" if self.lacks_registers else "nothing"


def reset_head(
    ctx: typer.Context,
    names: Names = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    broker: BrokerOption = None,
    selector: SelectorOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Have appends go on behind the last byte that is stored, once no broker can bring more.

    Bytes that only brokers now gone have held are given up, so bring back those that can come back
    first. A journal that takes appends is left alone. Of one labelled windrow.dev/sequenced the
    registers are rebuilt from its content, if they are lost.
    """
    wanted = selection(names, selector)
    with find_brokers(ctx, config_file, settings, broker).connect() as client:
        journals = {
            journal.spec.name: journal
            for journal in find_journals(client, names, wanted)
            if journal.spec.suspend.level is not SuspendLevel.FULL  # nobody serves it
        }
        findings = [inspect(client, journal) for journal in journals.values()]
        broken = [finding for finding in findings if finding.needs_repair]
        if broken and not yes and not dry_run:
            ask("; ".join(f"{each.journal}: {each.action}" for each in broken) + "?", "reset-head")
        results: dict[str, str] = {}
        failures: list[WindrowError] = []
        for each in broken if not dry_run else ():
            try:
                results[each.journal] = repair(client, each)
            except WindrowError as error:
                # The others are as much in need of it.
                results[each.journal] = "failed"
                failures.append(error)
    _tell(findings, results, as_json=as_json)
    if failures:
        raise failures[0]


def inspect(client: SyncJournalClient, journal: ListedJournal) -> Finding:
    """Find out whether a journal takes appends; changes nothing."""
    name = journal.spec.name
    try:
        barrier = client.append(name, suspend=SuspendControl.KEEP)
    except IndexHasGreaterOffset:
        # Where nothing is known any more, registers are not either.
        return Finding(name, client.write_head(name), True, journal.spec.is_sequenced)
    lacks = journal.spec.is_sequenced and barrier.end > 0 and not barrier.registers.value(SEQ)
    return Finding(name, barrier.end, False, lacks)


def repair(client: SyncJournalClient, finding: Finding) -> str:
    """Do what a finding asks for, and say how it went.

    Raises:
        NothingStored: There is nothing to go on from.
    """
    name, head = finding.journal, finding.head
    try:
        barrier = client.append(name, offset=head, suspend=SuspendControl.KEEP)
        if finding.lacks_registers and not barrier.registers.value(SEQ):
            barrier = _restore_registers(client, name, barrier.end)
    except IndexHasGreaterOffset as error:
        if head == 0:  # which as an offset means "any", and so confirms nothing
            raise NothingStored(name) from error
        raise
    except WrongAppendOffset:
        return "somebody else was quicker; run it again to see"
    return f"appends go on at {barrier.end}"


def _restore_registers(client: SyncJournalClient, journal: str, head: int) -> Committed:
    """Put rebuilt registers back by an append, since only an append can.

    Its content is a control frame that tells the sequence once more: readers pass over it, and a
    later rebuild finds there what it found here.
    """
    registers = rebuild(client, journal, head)
    seq = int(registers.value(SEQ) or 0)
    content = encode_control(Control(seq=seq))
    return client.append(journal, content, offset=head, union=registers)


def rebuild(client: SyncJournalClient, journal: str, head: int) -> LabelSet:
    """The registers that the whole content of a journal tells of.

    Whole, since a writer whose last batch is not seen would be taken for a new one.

    Raises:
        InvalidTail: There is content, and none of it is a sequenced append.
    """
    found = RegisterRebuild()
    with shown(f"read {journal}", head, in_bytes=True) as advance:
        chunks = client.chunks(ReadRequest(journal, end_offset=head))
        while True:
            try:
                chunk = next(chunks, None)
            except OffsetJump as jump:
                found.jump(jump.to)
                chunks = client.chunks(ReadRequest(journal, jump.to, end_offset=head))
                continue
            if chunk is None:
                return found.finish() if head else EMPTY
            found.feed(chunk.content)
            advance(len(chunk.content))


def _tell(findings: list[Finding], results: dict[str, str], *, as_json: bool) -> None:
    rows = [
        {**asdict(each), "action": each.action, "result": results.get(each.journal, "")}
        for each in findings
    ]
    if as_json:
        print_rows(rows, as_json=True)
        return
    for each in findings:
        if not each.needs_repair:
            print_line(f"{each.journal}: its head is at {each.head} and takes appends")
        elif each.journal in results:
            print_line(f"{each.journal}: {each.action}: {results[each.journal]}")
        else:
            print_line(f"{each.journal}: would {each.action}")
