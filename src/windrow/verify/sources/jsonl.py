"""Lines of JSON: by Arrow's reader, or line by line where that does not know what to make of them.

Arrow is told which type the first line has, so that it reads just the two members. A block in which
another type comes up, or a number beyond 64 bits, is read by Python instead.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from windrow.verify.columns.batches import column_of, make_batch
from windrow.verify.errors import UnreadableSource
from windrow.verify.picking import Pick, follow

BLOCK: Final = 8 * 1024 * 1024


class LineParser:
    """Makes batches of blocks of whole lines.

    Args:
        source: What to call the source in errors.
        key: Which member is the key.
        id: Which member is the id.
    """

    def __init__(self, source: str, key: Pick, id: Pick) -> None:
        self._source = source
        self._picks = {"key": key, "id": id}
        self._lines = self._records = 0

    def batch(self, block: bytes) -> pa.RecordBatch:
        """The records of the next lines.

        Raises:
            UnreadableSource: A line is no JSON object.
            NoId: One has no id.
        """
        keys, ids = parse_lines(block, self._picks) or self._one_by_one(block)
        batch = make_batch(self._source, self._records, keys, ids)
        self._lines += block.count(b"\n")
        self._records += len(batch)
        return batch

    def _one_by_one(self, block: bytes) -> tuple[pa.Array | None, pa.Array | None]:
        documents: list[dict[str, Any]] = []
        for number, line in enumerate(block.split(b"\n"), start=self._lines + 1):
            if not line.strip():
                continue
            try:
                document = json.loads(line)
            except ValueError:
                document = None
            if not isinstance(document, dict):
                raise UnreadableSource(self._source, f"line {number} is no JSON object")
            documents.append(document)
        return picked(documents, self._picks)


class JsonLines:
    """A file of lines, each a JSON object.

    Args:
        path: The file; ``-`` is standard input.
        key: Which member is the key.
        id: Which member is the id.
        name: What to call it in errors.
    """

    def __init__(self, path: str, key: Pick, id: Pick, name: str) -> None:
        self._path, self._name = path, name
        self._picks = key, id

    def __str__(self) -> str:
        return self._name

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records of each block.

        Raises:
            UnreadableSource: The file cannot be read, or a line of it is no JSON object.
        """
        parser = LineParser(self._name, *self._picks)
        try:
            with self._open() as file:
                for block in _blocks(file):
                    yield parser.batch(block)
        except OSError as error:
            raise UnreadableSource(self._name, error.strerror or str(error)) from error

    def _open(self) -> AbstractContextManager[IO[bytes]]:
        return nullcontext(sys.stdin.buffer) if self._path == "-" else Path(self._path).open("rb")


def picked(
    documents: list[dict[str, Any]], picks: dict[str, Pick]
) -> tuple[pa.Array | None, pa.Array | None]:
    """The columns of keys and ids of documents, by Python."""
    keys, ids = (
        None
        if pick.where == "none"
        else column_of([follow(document, pick.path) for document in documents])
        for pick in (picks["key"], picks["id"])
    )
    return keys, ids


def parse_lines(
    block: bytes, picks: dict[str, Pick]
) -> tuple[pa.Array | None, pa.Array | None] | None:
    """The columns of keys and ids of whole lines, by Arrow; None if it cannot tell them surely."""
    paths = {name: pick.path for name, pick in picks.items() if pick.where == "json"}
    schema = _schema(block, paths)
    if schema is None:
        return None
    try:
        table = arrow_json.read_json(
            io.BytesIO(block),
            read_options=arrow_json.ReadOptions(block_size=len(block) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    found = {name: _member(table, path) for name, path in paths.items()}
    return found.get("key"), found.get("id")


def _schema(block: bytes, paths: dict[str, tuple[str, ...]]) -> pa.Schema | None:
    """The two members with the types of the first line, if those are of the usual ones."""
    try:
        first = json.loads(block[: block.find(b"\n") + 1] or block)
    except ValueError:
        return None
    tree: dict[str, Any] = {}
    for path in paths.values():
        kind = {str: pa.string(), int: pa.int64()}.get(type(follow(first, path)))
        if kind is None:
            return None
        inner = tree
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                return None
        if path[-1] in inner and inner[path[-1]] != kind:
            return None
        inner[path[-1]] = kind
    return pa.schema(_fields(tree))


def _fields(tree: dict[str, Any]) -> list[pa.Field]:
    return [
        pa.field(name, pa.struct(_fields(inner)) if isinstance(inner, dict) else inner)
        for name, inner in tree.items()
    ]


def _member(table: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray:
    column = table.column(path[0])
    for part in path[1:]:
        column = pc.struct_field(column, part)
    return column


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Content in pieces that end with a line."""
    rest = b""
    while content := file.read(BLOCK):
        end = content.rfind(b"\n") + 1
        if end:
            yield rest + content[:end]
            rest = content[end:]
        else:
            rest += content
    if rest.strip():
        yield rest + b"\n"
