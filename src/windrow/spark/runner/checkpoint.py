"""What does Spark remember of a query, and which of its files were cut short?

A checkpoint holds ``offsets/N`` (where batch N ends, written before it runs), ``commits/N``
(written after it), and ``metadata`` (the id of the query). Of each log the last file says it all;
one that was cut short by a crash keeps the query from starting, and only the last can be, because
the next is written after it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from windrow.errors import Failed
from windrow.graph.delivery_errors import InvalidOffsets
from windrow.graph.positions import SourceOffsets
from windrow.graph.recovery import Checkpoint
from windrow.graph.snapshot import ProcessorUid
from windrow.spark.runner.files import Files

OFFSETS, COMMITS, METADATA = "offsets", "commits", "metadata"
_VERSIONS = ("v1", "v2")
_NOTHING = "-"


class TornFile(Failed):
    """A file of a checkpoint is not whole."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f'{self.path} was cut short: {self.reason}; run "windrow graph repair"'


@dataclass(frozen=True, slots=True)
class Planned:
    """What a file of the offset log says: where each source of the query stands after a batch."""

    batch_time: int
    sources: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class SparkCheckpoint:
    """All that matters of a checkpoint.

    Attributes:
        path: Where it lies.
        query_id: The same as long as the checkpoint lives; ``None`` if it was never begun.
        planned: The number of the last batch that was planned.
        committed: The number of the last batch that was committed.
        ends: Where the last planned batch ends, and the one before it.
        torn: Files that are not whole.
        has_state: Whether it holds the state of an operator.
    """

    path: str
    query_id: str | None = None
    planned: int | None = None
    committed: int | None = None
    ends: tuple[tuple[int, SourceOffsets], ...] = ()
    torn: tuple[TornFile, ...] = ()
    has_state: bool = False

    @property
    def exists(self) -> bool:
        """Whether a query was ever started with it."""
        return self.query_id is not None or self.planned is not None

    @property
    def is_in_doubt(self) -> bool:
        """Whether Spark would repeat a batch."""
        return self.planned is not None and self.planned != self.committed

    def for_recovery(self, begin: SourceOffsets) -> Checkpoint | None:
        """As recovery wants it; ``begin`` is where the very first batch began.

        A checkpoint that knows no batch yet, or has lost one it needs, is no checkpoint.
        """
        ends = dict(self.ends)
        if self.planned is None or self.torn or self.planned not in ends:
            return None
        if not self.is_in_doubt:
            return Checkpoint(ends[self.planned])
        start = begin if self.planned == 0 else ends.get(self.planned - 1)
        return None if start is None else Checkpoint(start, ends[self.planned])


def checkpoint_path(root: str, uid: ProcessorUid) -> str:
    """Where the checkpoint of a leg lies: below that of its graph."""
    leg = f"@{uid.leg.replace('/', '@')}" if uid.leg else ""
    return f"{graph_path(root, uid.graph)}/{uid.processor.replace('/', '@')}{leg}"


def graph_path(root: str, graph: str) -> str:
    """Where all that is kept of a graph lies."""
    return f"{root.rstrip('/')}/{graph}"


def parse_offsets(path: str, content: bytes) -> Planned:
    """What a file of the offset log says.

    Raises:
        TornFile: It is not whole.
    """
    lines = _lines(path, content)
    if len(lines) < 2:
        raise TornFile(path, "it has no sources")
    metadata = _json(path, lines[0])
    sources = tuple(None if line == _NOTHING else line for line in lines[1:])
    for source in sources:
        if source is not None:
            _json(path, source)
    return Planned(int(metadata.get("batchTimestampMs", 0)), sources)


def parse_commit(path: str, content: bytes) -> None:
    """See that a file of the commit log is whole.

    Raises:
        TornFile: It is not.
    """
    for line in _lines(path, content):
        _json(path, line)


def parse_metadata(path: str, content: bytes) -> str:
    """The id of the query.

    Raises:
        TornFile: It is not whole.
    """
    try:
        return str(json.loads(content)["id"])
    except (KeyError, TypeError, ValueError) as error:
        raise TornFile(path, "it names no query") from error


def read_checkpoint(files: Files, path: str) -> SparkCheckpoint:
    """All that matters of the checkpoint of a query with one source of ours."""
    torn: list[TornFile] = []
    query_id = _read(files, f"{path}/{METADATA}", parse_metadata, torn)
    offsets, commits = _numbers(files, f"{path}/{OFFSETS}"), _numbers(files, f"{path}/{COMMITS}")
    ends: dict[int, SourceOffsets] = {}
    for number in offsets[-2:]:
        where = f"{path}/{OFFSETS}/{number}"
        planned = _read(files, where, parse_offsets, torn)
        end = None if planned is None else _source_offsets(planned)
        if end is not None:
            ends[number] = end
    for number in commits[-1:]:
        _read(files, f"{path}/{COMMITS}/{number}", parse_commit, torn)
    return SparkCheckpoint(
        path,
        query_id,
        max(offsets, default=None),
        max(commits, default=None),
        tuple(sorted(ends.items())),
        tuple(torn),
        bool(files.entries(f"{path}/state")),
    )


def companions(path: str) -> tuple[str, ...]:
    """A file of a log, and the checksum that Hadoop keeps beside it."""
    parent, _, name = path.rpartition("/")
    return path, f"{parent}/.{name}.crc"


def _read(files: Files, path: str, parse: Any, torn: list[TornFile]) -> Any:
    content = files.read(path)
    if content is None:
        return None
    try:
        return parse(path, content)
    except TornFile as error:
        torn.append(error)
        return None


def _numbers(files: Files, path: str) -> list[int]:
    return sorted(int(entry.name) for entry in files.entries(path) if entry.name.isdecimal())


def _source_offsets(planned: Planned) -> SourceOffsets | None:
    """Of a query of ours, which has one source; those of others are not told."""
    if len(planned.sources) != 1 or planned.sources[0] is None:
        return None
    try:
        return SourceOffsets.from_json(json.loads(planned.sources[0]))
    except InvalidOffsets:
        return None


def _lines(path: str, content: bytes) -> list[str]:
    if not content:
        raise TornFile(path, "it is empty")
    try:
        version, *lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise TornFile(path, "it is no text") from error
    if version not in _VERSIONS:
        raise TornFile(path, f"it begins with {version[:20]!r} and not with a version")
    return lines


def _json(path: str, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise TornFile(path, "a line of it is no JSON") from error
    return found if isinstance(found, dict) else {}
