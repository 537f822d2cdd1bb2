"""Appends as their writers know them, against a journal as it was read back. Pure.

The writers' lines, each a JSON list that begins with what happened::

    ["maybe", journal, writer, number, SHA-1]           about to be sent
    ["acked", journal, writer, number, SHA-1, begin, end]  as the broker answered
    ["refused", journal, writer, number]                certainly not written

One that stays a maybe is unknown: it may be in the journal, but once at most. What counts:

============  ======================================================================
lost          acknowledged, and not in the journal
misplaced     acknowledged, and whole elsewhere than where the answer said
doubled       in the journal more than once
wrong sum     acknowledged with another SHA-1 than that of the bytes sent, or found there
torn          bytes of the journal that are no whole append: cut off, or interleaved
unexpected    in the journal though it was refused, given up, or never sent
misordered    behind a later append of the same writer, who sends one after the other
============  ======================================================================
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha1

from windrow.verify.journal_contents import Found, Torn, find_contents

EXAMPLES = 10
"""How many places are named for each kind of trouble."""

Name = tuple[str, int]
"""Writer and number."""


class Outcome(StrEnum):
    """What a writer knows of an append."""

    MAYBE = "maybe"
    ACKED = "acked"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Append:
    """One append. ``begin``, ``end`` and ``reported`` are the broker's answer, if it was acked."""

    writer: str
    number: int
    sum: bytes
    """SHA-1 of what was sent."""
    outcome: Outcome = Outcome.MAYBE
    begin: int = 0
    end: int = 0
    reported: bytes = b""

    @property
    def name(self) -> Name:
        """Who wrote it, and which of theirs it is."""
        return self.writer, self.number


Ledger = Mapping[str, Mapping[Name, Append]]
"""The appends of each journal, in the order in which they were begun."""


def maybe_line(journal: str, append: Append) -> str:
    """To be written before the append is sent."""
    return json.dumps(["maybe", journal, append.writer, append.number, append.sum.hex()])


def acked_line(journal: str, append: Append, begin: int, end: int, reported: bytes) -> str:
    """To be written once the broker has answered."""
    return json.dumps(["acked", journal, append.writer, append.number, reported.hex(), begin, end])


def refused_line(journal: str, append: Append) -> str:
    """To be written once it is certain that nothing was written."""
    return json.dumps(["refused", journal, append.writer, append.number])


def read_lines(lines: Iterable[str]) -> dict[str, dict[Name, Append]]:
    """The ledger that these lines tell; a torn last one is left out."""
    ledger: dict[str, dict[Name, Append]] = defaultdict(dict)
    for line in lines:
        if not line.endswith("\n"):
            continue
        what, journal, writer, number, *rest = json.loads(line)
        known = ledger[journal]
        if what == Outcome.MAYBE:
            known[writer, number] = Append(writer, number, bytes.fromhex(rest[0]))
            continue
        sent = known[writer, number].sum
        if what == Outcome.ACKED:
            reported, begin, end = rest[:3]
            answer = (int(begin), int(end), bytes.fromhex(reported))
            known[writer, number] = Append(writer, number, sent, Outcome.ACKED, *answer)
        else:
            known[writer, number] = Append(writer, number, sent, Outcome.REFUSED)
    return dict(ledger)


@dataclass(frozen=True)
class JournalVerdict:
    """What is wrong with a journal, and up to ten places for each kind of it."""

    acked: int = 0
    unknown: int = 0
    refused: int = 0
    found: int = 0
    """Whole contents in the journal."""
    troubles: dict[str, int] = field(default_factory=dict)
    examples: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Whether every append is where it belongs, and nothing else is there."""
        return not self.troubles

    def count(self, trouble: str) -> int:
        """How often: ``lost``, ``doubled``, … as above."""
        return self.troubles.get(trouble, 0)

    def __str__(self) -> str:
        counts = (
            f"acked {self.acked}, unknown {self.unknown}, refused {self.refused},"
            f" found {self.found}"
        )
        kinds = "".join(f", {kind} {number}" for kind, number in self.troubles.items())
        named = "".join(f"\n  {kind}: {'; '.join(e)}" for kind, e in self.examples.items())
        return counts + kinds + named


def check_journal(appends: Mapping[Name, Append], content: bytes) -> JournalVerdict:
    """Judge the content of a journal, read from offset 0 to its write head."""
    check = _Check(appends, content)
    for part in find_contents(content):
        if isinstance(part, Torn):
            check.note("torn", f"[{part.begin}, {part.end})")
        else:
            check.on_found(part)
    for append in appends.values():
        check.on_append(append)
    return check.verdict()


class _Check:
    """The running comparison of one journal."""

    def __init__(self, appends: Mapping[Name, Append], content: bytes) -> None:
        self.appends, self.content = appends, content
        self.found: dict[Name, list[Found]] = defaultdict(list)
        self.latest: dict[str, int] = {}
        self.troubles: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = defaultdict(list)

    def note(self, trouble: str, where: str) -> None:
        self.troubles[trouble] += 1
        if len(self.examples[trouble]) < EXAMPLES:
            self.examples[trouble].append(where)

    def on_found(self, part: Found) -> None:
        name = (part.writer, part.number)
        places = self.found[name]
        places.append(part)
        append = self.appends.get(name)
        if append is None or append.outcome is Outcome.REFUSED:
            why = "never sent" if append is None else "refused"
            self.note("unexpected", f"{_called(name)} at {part.begin}, which was {why}")
        if len(places) > 1:
            self.note("doubled", f"{_called(name)} at {places[0].begin} and {part.begin}")
        elif part.number < self.latest.get(part.writer, -1):
            self.note("misordered", f"{_called(name)} at {part.begin}")
        else:
            self.latest[part.writer] = part.number

    def on_append(self, append: Append) -> None:
        if append.outcome is not Outcome.ACKED:
            return
        called, span = _called(append.name), f"[{append.begin}, {append.end})"
        places = self.found.get(append.name, [])
        if not places:
            self.note("lost", f"{called}, acked at {span}")
        elif not any((place.begin, place.end) == (append.begin, append.end) for place in places):
            self.note("misplaced", f"{called}, acked at {span}, is at {places[0].begin}")
        lies_there = sha1(self.content[append.begin : append.end], usedforsecurity=False).digest()
        if append.reported != append.sum:
            self.note("wrong sum", f"{called}: answered {append.reported.hex()}")
        elif lies_there != append.sum:
            self.note("wrong sum", f"{called}: {span} has {lies_there.hex()}")

    def verdict(self) -> JournalVerdict:
        outcomes = Counter(append.outcome for append in self.appends.values())
        return JournalVerdict(
            acked=outcomes[Outcome.ACKED],
            unknown=outcomes[Outcome.MAYBE],
            refused=outcomes[Outcome.REFUSED],
            found=sum(map(len, self.found.values())),
            troubles=dict(self.troubles),
            examples={kind: tuple(places) for kind, places in self.examples.items()},
        )


def _called(name: Name) -> str:
    return f"{name[0]}/{name[1]}"
