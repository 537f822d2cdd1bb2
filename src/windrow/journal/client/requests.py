"""What is asked of a journal and what comes back, as plain values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from windrow.journal.fragment import Fragment
from windrow.journal.labels import EMPTY, LabelSelector, LabelSet
from windrow.journal.process import Header, Route
from windrow.journal.spec import JournalSpec, SuspendControl

Registers = LabelSet | Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class AppendRequest:
    """All of an append but its content. Appends of equal requests may travel together."""

    journal: str
    offset: int = 0
    """The write head the append insists on; 0 is wherever the head is."""
    check: LabelSelector | None = None
    union: LabelSet = EMPTY
    subtract: LabelSet = EMPTY
    suspend: SuspendControl = SuspendControl.RESUME
    do_not_proxy: bool = False

    @property
    def changes_registers(self) -> bool:
        """Whether it can be made only with content."""
        return bool(self.union or self.subtract)


@dataclass(frozen=True, slots=True)
class Committed:
    """An append that is on every replica: its span, and the registers after it."""

    fragment: Fragment
    registers: LabelSet
    revision: int = 0
    """The etcd revision at which the broker answered."""

    @property
    def begin(self) -> int:
        """Offset of its first byte; for an append of nothing, the write head."""
        return self.fragment.begin

    @property
    def end(self) -> int:
        """Offset behind its last byte."""
        return self.fragment.end


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Where to read, and what to do at the end."""

    journal: str
    offset: int = 0
    """-1 is the write head."""
    block: bool = False
    end_offset: int = 0
    """Read up to here; 0 is as far as there is."""
    begin_mod_time: int = 0
    metadata_only: bool = False
    direct: bool = False
    """Fetch stored fragments from their store instead of through a broker."""


class Chunk(NamedTuple):
    """Some content and where it begins."""

    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class ListedJournal:
    """A journal, who serves it, and the revisions of its spec."""

    spec: JournalSpec
    mod_revision: int
    create_revision: int
    route: Route


@dataclass(frozen=True, slots=True)
class Listing:
    """The journals that match a selector, sorted by name, as of one revision."""

    header: Header
    journals: tuple[ListedJournal, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(journal.spec.name for journal in self.journals)


@dataclass(frozen=True, slots=True)
class Upsert:
    """Make or change a journal; a revision of 0 insists that it is new, -1 on nothing."""

    spec: JournalSpec
    expect_mod_revision: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a journal at a revision; -1 at whichever it has."""

    journal: str
    expect_mod_revision: int = -1


Change = Upsert | Delete


@dataclass(frozen=True, slots=True)
class ListedFragment:
    """A fragment, and a URL to fetch it from if one was asked for."""

    fragment: Fragment
    signed_url: str = ""


def as_labels(labels: Registers) -> LabelSet:
    """Labels as a set, however they were given."""
    if labels is None:
        return EMPTY
    return labels if isinstance(labels, LabelSet) else LabelSet.of(labels)
