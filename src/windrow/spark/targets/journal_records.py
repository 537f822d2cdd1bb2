"""How do rows become the frames of a journal? The innermost loop of the journal target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from windrow.graph.sink_rows import SinkRow
from windrow.journal.message.record import Control, Record, encode_control, encode_records
from windrow.spark.chunks import PresentRows
from windrow.spark.targets.rows import content_of, row_uuid

if TYPE_CHECKING:
    import pyarrow as pa


def encode_rows(rows: Sequence[SinkRow], writer: str, seq: int) -> bytes:
    """A head that names the writer, then the rows as records numbered from ``seq``.

    The head alone where there are no rows: an append needs content to move registers.
    """
    head = encode_control(Control(writer=writer, count=len(rows), seq=seq))
    if isinstance(rows, PresentRows):
        return b"".join([head, *_pieces(rows, seq)])
    return head + encode_records(map(_record, rows), seq)


def _pieces(rows: PresentRows, seq: int) -> Iterator[bytes | pa.Buffer]:
    from windrow.spark.queues.frame_columns import encode_piece

    for piece in rows.pieces:
        content = encode_piece(piece, seq)
        # What is too large for a frame is refused on the long way, with a sentence.
        yield encode_records(map(_record, piece.listed()), seq) if content is None else content
        seq += len(piece)


def _record(row: SinkRow) -> Record:
    content = content_of(row)
    return Record(
        row_uuid(content.delivery_hash, row.positions[0].ordinal),
        0,
        content.key,
        content.headers,
        content.value,
        content.topic or "",
        content.time,
    )
