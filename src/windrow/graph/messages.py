"""What is a message to a function, where does its provenance come from, and how is it written?

Provenance is a mapping that travels with a message and grows on the way::

    {"queue": {"orders": {"t": 12, "time": 1700000000000000}}, "tx": 12, "hash": "9f…"}

``t`` is the index on that queue, ``time`` the time of the write in microseconds since 1970, ``tx``
the index read as the number of a transaction. An index is not known before the write: it is written
as ``true`` and put in by the reader. The time is that of the batch, never of a clock, so that a
replay writes the same bytes. ``hash`` is the delivery hash; functions do not see it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from windrow.graph.errors import InvalidMessage
from windrow.graph.queues import QueueMeta, Values

Meta = Mapping[str, Any]
Headers = tuple[tuple[str, bytes | None], ...]

TYPE_HEADER = "windrow-type"
META_HEADER = "windrow-meta"
ERROR_TYPE = "windrow.error.processor"


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as functions get and give it.

    Attributes:
        value: What it says, in the form of its queue: anything JSON can hold, text or bytes.
            ``None`` is a tombstone.
        key: Messages of one key keep their order.
        headers: Names and values, in order; a name may recur.
        topic: What it is about; processors can filter by it.
        type: What kind of message it is; processors can filter by it.
        meta: Its provenance.
    """

    # The customers' data is left out of the text form, which ends up in logs.
    value: Any = field(repr=False)
    key: str | None = None
    headers: Headers = field(default=(), repr=False)
    topic: str | None = None
    type: str | None = None
    meta: Meta = field(default_factory=dict, repr=False)

    def having(self, **changes: Any) -> Self:
        """The same message but for what is named: ``order.having(value=…, type="priced")``."""
        return replace(self, **changes)


def merge_meta(metas: Iterable[Meta]) -> dict[str, Any]:
    """The provenance of several messages as one; where two disagree the later one counts."""
    merged: dict[str, Any] = {}
    for meta in metas:
        for name, value in meta.items():
            below = merged.get(name)
            both = isinstance(below, Mapping) and isinstance(value, Mapping)
            merged[name] = merge_meta((below, value)) if both else value  # type: ignore[arg-type]
    return merged


def inherit_meta(outputs: Iterable[Message], inputs: Mapping[str, Message]) -> list[Message]:
    """Each output with the provenance of all inputs below its own.

    Inputs are taken by name, so that a replay merges them in the same order.
    """
    inherited = merge_meta(inputs[name].meta for name in sorted(inputs))
    if not inherited:
        return list(outputs)
    return [output.having(meta=merge_meta((inherited, output.meta))) for output in outputs]


def meta_to_write(meta: Meta, option: QueueMeta, queue: str, batch_time: float) -> dict[str, Any]:
    """What is stored with a message on a queue; ``batch_time`` is in seconds since 1970."""
    if option == "strip":
        return {}
    if not option:
        return dict(meta)
    added: dict[str, Any] = {}
    here: dict[str, Any] = {"t": True} if "t" in option else {}
    if "time" in option:
        here["time"] = round(batch_time * 1_000_000)
    if here:
        added["queue"] = {queue: here}
    if "tx" in option:
        added["tx"] = True
    return merge_meta((meta, added))


def meta_as_read(meta: Meta, queue: str, index: int) -> dict[str, Any]:
    """What a function sees of a message read from that index: indices put in, the hash left out."""
    seen = {name: value for name, value in meta.items() if name != "hash"}
    if seen.get("tx") is True:
        seen["tx"] = index
    here = seen.get("queue", {}).get(queue, {})
    if here.get("t") is True:
        seen["queue"] = {**seen["queue"], queue: {**here, "t": index}}
    return seen


def encode_value(value: Any, values: Values) -> bytes | None:
    """The bytes of a value on a queue of that form.

    JSON is written in one way only, keys sorted and no blanks: the same value is the same bytes.

    Raises:
        InvalidMessage: The form cannot hold it.
    """
    if value is None:
        return None
    if values == "json":
        return _json_bytes(value)
    if values == "text" and isinstance(value, str):
        return _utf8(value, values)
    if values == "bytes" and isinstance(value, bytes):
        return value
    raise InvalidMessage(values, f"it is of type {type(value).__name__}")


def decode_value(stored: bytes | None, values: Values) -> Any:
    """The value that was written as those bytes.

    Raises:
        InvalidMessage: They are not of that form.
    """
    if stored is None or values == "bytes":
        return stored
    try:
        return json.loads(stored) if values == "json" else stored.decode()
    except ValueError as error:
        raise InvalidMessage(values, str(error)) from None


def encode_meta(meta: Meta) -> bytes:
    """Provenance as the value of its header."""
    return _json_bytes(meta)


def error_message(
    processor: str, config: Meta, inputs: Mapping[str, Message], cause: Meta
) -> Message:
    """What goes to the error queue in the place of an output.

    It holds the declaration of the processor, its inputs by *queue*, and the cause; it inherits the
    provenance of the inputs, as an output would, and the key if they agree on one.
    """
    keys = {message.key for message in inputs.values()}
    value = {
        "processor": processor,
        "config": dict(config),
        "messages": {queue: _plain(message) for queue, message in sorted(inputs.items())},
        "cause": dict(cause),
    }
    message = Message(value, key=keys.pop() if len(keys) == 1 else None, type=ERROR_TYPE)
    return inherit_meta([message], inputs)[0]


def _plain(message: Message) -> dict[str, Any]:
    """A message as JSON can hold it, whatever the form of its queue."""
    plain = {
        "value": _plain_value(message.value),
        "key": message.key,
        "headers": [[name, _plain_value(value)] for name, value in message.headers],
        "topic": message.topic,
        "type": message.type,
    }
    return {name: value for name, value in plain.items() if value not in (None, [])}


def _plain_value(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _json_bytes(value: Any) -> bytes:
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage("json", str(error)) from None
    return _utf8(text, "json")


def _utf8(text: str, values: Values) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidMessage(values, "it holds a lone surrogate: no UTF-8") from None
