"""How does a message look on the way: as a row that was read, for a function, and as it is written?

A row that was read is a tuple of its columns, and becomes a ``Message`` only for a function of
messages. A message that is written is encoded for its queue at once, and stays so while it is
staged: what is fanned out later are the same bytes.
"""

from __future__ import annotations

import base64
import json
import json.encoder
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from windrow.graph.messages import (
    META_HEADER,
    TYPE_HEADER,
    Headers,
    Message,
    decode_value,
    encode_meta,
    encode_value,
    meta_as_read,
    meta_to_write,
)
from windrow.spark.chunks import headers_of
from windrow.spark.query.leg_plan import QueueForm

if TYPE_CHECKING:
    import pyarrow as pa


_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
# Without the search for circles, which end with a RecursionError all the same.
_encode: Any = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, None, json.encoder.encode_basestring, None, ":", ",", True, False, False
)


class Raw(NamedTuple):
    """A row as it was read; ``at`` is its index."""

    at: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    topic: str | None
    time: int


class Encoded(NamedTuple):
    """A message as its queue stores it."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    topic: str | None = None

    @property
    def size(self) -> int:
        """How many bytes it says, about."""
        size = len(self.value or b"") + len(self.key or b"")
        return size + sum(len(name) + len(value or b"") for name, value in self.headers)


def raw_rows(batch: pa.RecordBatch) -> Iterator[Raw]:
    """The rows of a batch of ``message_schema``."""
    column = batch.column
    times = column("time").cast("int64").to_pylist()
    return map(
        Raw,
        column("_index").to_pylist(),
        column("key").to_pylist(),
        column("value").to_pylist(),
        headers_of(column("headers")),
        column("topic").to_pylist(),
        times,
    )


def message_of(raw: Raw, queue: str, form: QueueForm) -> Message:
    """What a function gets.

    Raises:
        InvalidMessage: The value is not of the queue's form.
    """
    _, stored_key, stored, headers, topic, _ = raw
    value = from_json(stored) if form.values == "json" else decode_value(stored, form.values)
    key = None if stored_key is None else stored_key.decode("utf-8", "surrogateescape")
    if not headers:
        return Message(value, key, (), topic)
    return _with_headers(raw, value, key, queue)


def from_json(stored: bytes | None) -> Any:
    """``decode_value`` of a value of the form json, without what the general way does for each.

    Raises:
        InvalidMessage: It is not of that form.
    """
    if stored is None:
        return None
    try:
        text = stored.decode()
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except (StopIteration, ValueError):
        pass  # blanks around it, or what only the general way has a sentence for
    return decode_value(stored, "json")


def to_json(value: Any) -> bytes | None:
    """``encode_value`` of a value of the form json, with an encoder that is made once.

    Raises:
        InvalidMessage: JSON cannot hold it.
    """
    if value is None:
        return encode_value(value, "json")
    try:
        return json_text(value).encode()
    except (TypeError, ValueError, RecursionError):
        return encode_value(value, "json")  # which has the sentence


def json_text(value: Any) -> str:
    """JSON by the encoder that is made once."""
    return "".join(_encode(value, 0))


def undecoded(raw: Raw) -> Message:
    """The same with its value as it is, where that is not of the queue's form."""
    key = None if raw.key is None else raw.key.decode("utf-8", "surrogateescape")
    return Message(raw.value, key, raw.headers, raw.topic)


def _with_headers(raw: Raw, value: Any, key: str | None, queue: str) -> Message:
    kind: str | None = None
    meta: Any = None
    kept = []
    for header in raw.headers:
        name, content = header
        if name == TYPE_HEADER:
            kind = (content or b"").decode()
        elif name == META_HEADER:
            meta = decode_value(content, "json")
        else:
            kept.append(header)
    seen = meta_as_read(meta, queue, raw.at) if meta else {}
    return Message(value, key, tuple(kept), raw.topic, kind, seen)


def type_of(headers: Headers) -> str | None:
    """The type of a message, without the rest of it."""
    for name, value in headers:
        if name == TYPE_HEADER:
            return (value or b"").decode()
    return None


def encode(message: Message, queue: str, form: QueueForm, batch_time: float) -> Encoded:
    """A message as its queue stores it.

    Raises:
        InvalidMessage: The queue's form cannot hold it.
    """
    value = (
        to_json(message.value)
        if form.values == "json"
        else encode_value(message.value, form.values)
    )
    key = message.key
    headers = message.headers
    if message.type is not None:
        headers = (*headers, (TYPE_HEADER, message.type.encode()))
    if message.meta or form.meta:
        meta = meta_to_write(message.meta, form.meta, queue, batch_time)
        if meta:
            headers = (*headers, (META_HEADER, encode_meta(meta)))
    return Encoded(
        value,
        None if key is None else key.encode("utf-8", "surrogateescape"),
        headers,
        message.topic,
    )


# -- packed into one value -----------------------------------------------------------------------


def to_plain(encoded: Encoded) -> list[Any]:
    """An encoded message as JSON can hold it."""
    tree = [_text(encoded.value), _text(encoded.key)]
    if encoded.headers or encoded.topic is not None:
        tree.append(encoded.topic)
    if encoded.headers:
        tree.append([[name, _text(value)] for name, value in encoded.headers])
    return tree


def from_plain(tree: Sequence[Any]) -> Encoded:
    """What ``to_plain`` wrote."""
    value, key, *rest = tree
    topic = rest[0] if rest else None
    headers = tuple((name, _bytes(text)) for name, text in rest[1]) if len(rest) > 1 else ()
    return Encoded(_bytes(value), _bytes(key), headers, topic)


def _text(content: bytes | None) -> Any:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _bytes(text: Any) -> bytes | None:
    if text is None:
        return None
    return text.encode() if isinstance(text, str) else base64.b64decode(text["base64"])
