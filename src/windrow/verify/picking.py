"""Which piece of a message is its key, and which its id. Pure.

=====================  =============================================================
``none``               nothing: one key for all
``key``                the key of the message
``value``              its value as a whole
``header:NAME``        the first header of that name
``json:/POINTER``      a member of its value, which is JSON, as ``json:/order/id``
``/POINTER``           the same, short
=====================  =============================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Where = Literal["none", "key", "value", "header", "json"]

FORMS = "key, value, header:NAME, json:/POINTER or none"


@dataclass(frozen=True, slots=True)
class Pick:
    """One choice of the table above; ``path`` is the members to go through for ``json``."""

    where: Where
    name: str = ""
    path: tuple[str, ...] = ()


def parse_pick(text: str) -> Pick:
    """A choice from its text.

    Raises:
        ValueError: It is none of them.
    """
    if text in ("none", "key", "value"):
        return Pick(text)  # type: ignore[arg-type]  # the three of them
    kind, colon, rest = text.partition(":")
    if kind == "header" and rest:
        return Pick("header", name=rest)
    pointer = rest if kind == "json" and colon else text
    if pointer.startswith("/"):
        return Pick("json", path=parse_pointer(pointer))
    raise ValueError(f"{text!r} is not one of {FORMS}")


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """The members that a JSON pointer goes through, by RFC 6901."""
    parts = pointer.split("/")[1:]
    if not all(parts):
        raise ValueError(f"{pointer!r} has an empty part; write it as /order/id")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)


def follow(document: Any, path: tuple[str, ...]) -> Any:
    """The member at the end of the path; None if there is none."""
    for part in path:
        document = document.get(part) if isinstance(document, dict) else None
    return document
