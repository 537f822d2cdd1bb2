"""How do the rows of a frame become rows of a sink, outside a graph?

A frame names the position of each row in the columns ``_source``, ``_incarnation``, ``_partition``
and ``_index``, and in ``_ordinal`` if several were made from one message: as the formats of Windrow
give them. Without positions nothing could be recognised on a replay, so such frames are refused.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windrow.extras import require
from windrow.graph.positions import Position
from windrow.graph.routing import RoutingPin
from windrow.graph.sink_rows import SinkRow
from windrow.graph.snapshot import DeliveryHasher, ProcessorUid
from windrow.spark.columns import HASH, ORDINAL, POSITION_COLUMNS, TARGET
from windrow.spark.stores import Content
from windrow.spark.targets.errors import (
    PositionRepeated,
    PositionsMissing,
    TargetOutOfRange,
    ValueMissing,
)

if TYPE_CHECKING:
    import pyarrow as pa

GIVEN = "given-1"
"""The routing of rows that name their target in the column ``_target``."""


@dataclass(frozen=True, slots=True)
class FrameForm:
    """What a frame has.

    Attributes:
        uid: By which its writer is known.
        routing: Where rows go.
        has_value: Whether there is a column ``value``; else it is made of all the others.
    """

    uid: ProcessorUid
    routing: RoutingPin
    has_value: bool

    @classmethod
    def of(
        cls, uid: ProcessorUid, names: Sequence[str], targets: int, makes_values: bool
    ) -> FrameForm:
        """The form of a frame with these columns.

        Args:
            uid: By which its writer is known.
            names: Its columns.
            targets: How many there are.
            makes_values: Whether the value may be made of all columns that mean nothing else.

        Raises:
            PositionsMissing: It does not say where its rows come from.
            ValueMissing: It has no column ``value``.
        """
        missing = [name for name in POSITION_COLUMNS if name not in names]
        if missing:
            raise PositionsMissing(tuple(missing))
        has_value = "value" in names
        if not has_value and not makes_values:
            raise ValueMissing(tuple(names))
        routing = RoutingPin(targets, GIVEN) if TARGET in names else RoutingPin(targets)
        return cls(uid, routing, has_value)

    def by_target(self, batches: Iterable[pa.RecordBatch]) -> dict[int, list[SinkRow]]:
        """The rows of a frame, by the target that they go to.

        Raises:
            PositionRepeated: Two of them have the same position.
            TargetOutOfRange: One names a target that there is not.
        """
        found: dict[int, list[SinkRow]] = defaultdict(list)
        seen: set[Position] = set()
        for batch in batches:
            for target, row in self._rows(batch):
                (at,) = row.positions
                if at in seen:
                    raise PositionRepeated(at.source, at.partition, at.index, at.ordinal)
                seen.add(at)
                found[target].append(row)
        return dict(found)

    def _rows(self, batch: pa.RecordBatch) -> Iterator[tuple[int, SinkRow]]:
        columns = _Columns(batch)
        contents = self._contents(columns)
        hasher = DeliveryHasher(self.uid)
        names = (*POSITION_COLUMNS, ORDINAL, HASH, TARGET)
        heads = zip(*map(columns.get, names), contents, strict=True)
        for source, incarnation, partition, index, nth, digest, target, content in heads:
            if index is None or partition is None or source is None or incarnation is None:
                raise PositionsMissing(POSITION_COLUMNS)
            at = Position(source, incarnation, partition, index, nth or 0)
            origin = Position(source, incarnation, partition, index)
            named = content(digest or hasher.hash([origin]))
            yield self._target(target, named, at), SinkRow((at,), named)

    def _target(self, given: int | None, content: Content, at: Position) -> int:
        if self.routing.function != GIVEN:
            return self.routing.route(content.key, at)
        if given is None or not 0 <= given < self.routing.targets:
            raise TargetOutOfRange(given, self.routing.targets)
        return given

    def _contents(self, columns: _Columns) -> Iterator[Callable[[str], Content]]:
        values = columns.texts("value") if self.has_value else columns.made_values()
        parts = zip(
            values,
            columns.texts("key"),
            columns.headers(),
            columns.get("topic"),
            columns.times(),
            strict=True,
        )
        for value, key, headers, topic, time in parts:
            yield _named(value, key, headers, topic, time)


def _named(
    value: bytes | None,
    key: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
    topic: str | None,
    time: int,
) -> Callable[[str], Content]:
    return lambda digest: Content(value, key, headers, topic, time, digest)


class _Columns:
    """The columns of one batch, as lists; one that is absent is full of nothing."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._names = frozenset(batch.schema.names)

    def get(self, name: str) -> list[Any]:
        if name not in self._names:
            return [None] * len(self._batch)
        return list(self._batch.column(name).to_pylist())

    def texts(self, name: str) -> list[bytes | None]:
        """As bytes, whether they are text or binary."""
        return [value.encode() if isinstance(value, str) else value for value in self.get(name)]

    def times(self) -> list[int]:
        """In microseconds since 1970."""
        if "time" not in self._names:
            return [0] * len(self._batch)
        arrow = require("pyarrow")
        stamps = self._batch.column("time").cast(arrow.timestamp("us", tz="UTC"))
        return [value or 0 for value in stamps.cast(arrow.int64()).to_pylist()]

    def headers(self) -> Iterator[tuple[tuple[str, bytes | None], ...]]:
        """As pairs; the name may be called ``key``, as in Spark's own connector."""
        for given in self.get("headers"):
            yield tuple(map(_header, given)) if given else ()

    def made_values(self) -> Iterator[bytes]:
        """All columns that mean nothing else, as JSON."""
        names = [name for name in self._batch.schema.names if _is_plain(name)]
        for row in self._batch.select(names).to_pylist():
            yield json.dumps(row, ensure_ascii=False, default=_plain).encode()


def _is_plain(name: str) -> bool:
    return not name.startswith("_")


def _header(given: Mapping[str, Any] | tuple[str, Any]) -> tuple[str, bytes | None]:
    if isinstance(given, Mapping):
        name, value = given.get("name", given.get("key")), given["value"]
    else:
        name, value = given
    return str(name), value.encode() if isinstance(value, str) else value


def _plain(value: Any) -> str:
    """What JSON has no form for, as PostgreSQL reads it."""
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
