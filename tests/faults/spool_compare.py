"""The spool files of stopped brokers, compared with each other by way of the journal's content.

A snapshot is taken while all brokers are down, before any of them starts again. What each member
of the journal's head has on its disk must be the journal up to its last acknowledged byte, from the
beginning of the head's term on; beyond that lies what was acknowledged to nobody.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha1
from itertools import pairwise
from pathlib import Path

from windrow.journal.broker.head import Head
from windrow.journal.fragment import Fragment
from windrow.journal.fragments.recover import SpoolOnDisk, inspect_file
from windrow.journal.fragments.spool_file import SUFFIX, escaped

REPLICATION = 2
Span = tuple[int, int]


@dataclass(frozen=True)
class Snapshot:
    """What was on disk and in etcd at one moment, with nobody running."""

    spools: Mapping[str, Path]
    """By member, as heads name them, a copy of its spool files."""
    heads: Mapping[str, Head]
    stored: Mapping[str, tuple[Fragment, ...]]
    acked: Mapping[str, list[Span]]
    """What clients had been told of by then, merged."""
    is_quiet: bool
    """Whether nothing was on its way when the brokers stopped."""


def copy_spools(data: Path, to: Path) -> Path:
    """A copy that outlives the next start of the broker."""
    shutil.copytree(data / "spools", to)
    return to


def stored_fragments(root: Path, journal: str) -> tuple[Fragment, ...]:
    """What a file store has of a journal, by its names."""
    home = root / journal
    names = (path.name for path in home.iterdir()) if home.is_dir() else iter(())
    return tuple(
        Fragment.parse_name(journal, name) for name in sorted(names) if not name.startswith(".")
    )


def compare(snapshot: Snapshot, journal: str, content: bytes) -> list[str]:
    """What is wrong with the replicas of a journal, given its content as read in the end."""
    head = snapshot.heads[journal]
    acked = snapshot.acked[journal]
    acked_end = acked[-1][1] if acked else 0
    problems = [
        f"stored {fragment.content_name()} differs from the journal"
        for fragment in snapshot.stored[journal]
        if _sum(content[fragment.begin : fragment.end]) != fragment.sum
    ]
    stored = [(fragment.begin, fragment.end) for fragment in snapshot.stored[journal]]
    held = {}
    for member, directory in snapshot.spools.items():
        spools = list(_spools(directory, journal))
        is_member = member in head.members
        problems += [
            f"{member}: {problem}"
            for spool in spools
            for problem in _compare_spool(spool, head, is_member, acked_end, content)
        ]
        held[member] = [
            (spool.record.fragment.begin, _true_end(spool, head, is_member, acked_end))
            for spool in spools
        ]
        # A member that came with the head's term has nothing of what was before it.
        if is_member and (covered := _covered_to(stored + held[member], head.end)) < acked_end:
            problems.append(f"{member} ends at {covered}, and {acked_end} was acknowledged")
    problems += _compare_ends(snapshot, journal, head) if snapshot.is_quiet else []
    return problems + _count_copies(stored, list(held.values()), acked_end)


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same bytes in as few spans as there are gaps."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _count_copies(stored: list[Span], held: list[list[Span]], acked_end: int) -> list[str]:
    """Whatever lies before an acknowledged byte is in the store or on two disks.

    Be it acknowledged itself or not: readers may have seen it, and it must not vanish with a disk.
    """
    edges = {edge for spans in [stored, *held] for span in spans for edge in span}
    problems = []
    bounds = sorted({0, acked_end, *(edge for edge in edges if 0 < edge < acked_end)})
    for begin, end in pairwise(bounds):
        copies = sum(_holds(spans, begin, end) for spans in held)
        if not _holds(stored, begin, end) and copies < REPLICATION:
            problems.append(f"[{begin}, {end}) is not stored, and on {copies} disks")
    return problems


def _holds(spans: list[Span], begin: int, end: int) -> bool:
    return any(low <= begin and end <= high for low, high in spans)


def _spools(directory: Path, journal: str) -> Iterator[SpoolOnDisk]:
    home = directory / escaped(journal)
    paths = sorted(home.iterdir()) if home.is_dir() else []
    found = (inspect_file(path) for path in paths if path.name.endswith(SUFFIX))
    return (spool for spool in found if spool is not None)


def _compare_spool(
    spool: SpoolOnDisk, head: Head, is_member: bool, acked_end: int, content: bytes
) -> Iterator[str]:
    """Whether one file holds the journal, as far as it must."""
    record, begin = spool.record, spool.record.fragment.begin
    end = _true_end(spool, head, is_member, acked_end)
    if end > begin:
        held = spool.content.read_at(begin, end - begin)
        if held != content[begin:end]:
            state = "sealed" if record.is_sealed else f"term {record.term:x}"
            yield f"[{begin}, {end}) of its spool ({state}) differs from the journal"


def _true_end(spool: SpoolOnDisk, head: Head, is_member: bool, acked_end: int) -> int:
    """Up to where a file's bytes must be the journal's."""
    record = spool.record
    if record.is_sealed:
        return record.fragment.end
    if is_member and head.term in (record.term, record.agreed_term):
        return min(record.fragment.end, acked_end)
    return min(record.fragment.end, head.end_of(record.term))


def _compare_ends(snapshot: Snapshot, journal: str, head: Head) -> list[str]:
    """With nothing on its way, all members hold the very same fragment and registers."""
    currents = {}
    for member in head.members:
        spools = [s for s in _spools(snapshot.spools[member], journal) if not s.record.is_sealed]
        last = spools[-1].record if spools else None
        currents[member] = (last.fragment, last.registers) if last else None
    if len(set(map(str, currents.values()))) > 1:
        return [f"members differ: {currents}"]
    return []


def _covered_to(spans: list[Span], begin: int) -> int:
    """Where the first gap is."""
    covered = begin
    for low, high in sorted(spans):
        if low > covered:
            break
        covered = max(covered, high)
    return covered


def _sum(content: bytes) -> bytes:
    return sha1(content, usedforsecurity=False).digest()
