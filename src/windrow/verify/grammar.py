"""The text that names a source on a command line, and what it means. Pure.

::

    sql:SELECT key, id FROM … ORDER BY …        or one column: the ids alone
    table:[SCHEMA.]NAME[?key=…&id=…&order=…]    columns; key=none for ids alone
    ledger:PATH                                 what a writer noted, by windrow.verify.Ledger
    jsonl:PATH[?key=/…&id=/…]                   a line of JSON each; - is standard input
    kafka:TOPIC[?key=PICK&id=PICK]              everything committed up to now
    journal:NAME[?key=PICK&id=PICK]             everything up to now; NAME/ is all below it
    receiver:URL[?key=/…&id=/…]                 what GET URL/messages lists

A PICK is ``key``, ``value``, ``header:NAME``, ``json:/POINTER`` (or ``/POINTER``) or, for keys,
``none``. Unless it is said otherwise, a key is where keys are, and the id is the member ``/id`` of
the value; a receiver's messages have no keys, and are compared by their ids alone.

An option's value is percent-decoded, and so is a path or a name before its ``?``; an SQL query is
taken as it is.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from windrow.verify.errors import BadSource
from windrow.verify.picking import Pick, parse_pick

KINDS: Final = ("sql", "table", "ledger", "jsonl", "kafka", "journal", "receiver")

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class SqlSpec:
    """A query of one or two columns."""

    text: str
    query: str


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table; without ``key`` all records are of one key."""

    text: str
    table: str
    key: str | None
    id: str
    order: str


@dataclass(frozen=True, slots=True)
class FileSpec:
    """A file of lines, with where to find what in a line; a ledger's lines are known."""

    text: str
    path: str
    key: Pick | None = None
    id: Pick | None = None


@dataclass(frozen=True, slots=True)
class KafkaSpec:
    """A topic."""

    text: str
    topic: str
    key: Pick
    id: Pick


@dataclass(frozen=True, slots=True)
class JournalSpec:
    """A journal, or all whose names begin so; what is not said depends on what is in them."""

    text: str
    name: str
    is_prefix: bool
    key: Pick | None
    id: Pick | None


@dataclass(frozen=True, slots=True)
class ReceiverSpec:
    """A receiver of the play-pen."""

    text: str
    url: str
    key: Pick
    id: Pick


SourceSpec = SqlSpec | TableSpec | FileSpec | KafkaSpec | JournalSpec | ReceiverSpec


def parse_source(text: str) -> SourceSpec:
    """What a text names.

    Raises:
        BadSource: It is not of the grammar.
    """
    kind, colon, rest = text.partition(":")
    if not colon or kind not in KINDS:
        raise BadSource(text, _unknown(kind))
    if not rest.strip():
        raise BadSource(text, f"nothing follows {kind}:")
    if kind == "sql":
        return SqlSpec(text, _query(text, rest))
    place, _, options = rest.partition("?")
    return _PARSERS[kind](text, place, _Options(text, options))


def _unknown(kind: str) -> str:
    nearest = difflib.get_close_matches(kind, KINDS, n=1)
    hint = f' (did you mean "{nearest[0]}:"?)' if nearest else ""
    return f"it begins with none of {', '.join(f'{known}:' for known in KINDS)}{hint}"


def _query(text: str, rest: str) -> str:
    query = rest.strip().rstrip(";").strip()
    if not re.match(r"(?:select|with|values|table)\b|\(", query, re.IGNORECASE):
        raise BadSource(text, "it must be a query that begins with SELECT, WITH or VALUES")
    return query


class _Options:
    """What follows the ``?``; each option may be asked for once, and all must be."""

    def __init__(self, text: str, options: str) -> None:
        self._text = text
        self._values: dict[str, str] = {}
        for pair in filter(None, options.split("&")):
            name, equals, value = pair.partition("=")
            if not equals or not value or name in self._values:
                raise BadSource(text, f"{pair!r} is not an option; write it as id=…, each once")
            self._values[name] = unquote(value)

    def take(self, name: str, default: str) -> str:
        return self._values.pop(name, default)

    def pick(self, name: str, default: str) -> Pick:
        given = self.take(name, default)
        try:
            pick = parse_pick(given)
        except ValueError as error:
            raise BadSource(self._text, f"{name}: {error}") from None
        if name == "id" and pick.where == "none":
            raise BadSource(self._text, "id: records without an id cannot be compared")
        return pick

    def pick_or_none(self, name: str) -> Pick | None:
        return self.pick(name, "") if name in self._values else None

    def json_pick(self, name: str, default: str = "") -> Pick:
        pick = self.pick(name, default or f"/{name}")
        if pick.where not in ("json", "none"):
            raise BadSource(self._text, f"{name}: a line has members only; write it as /order/id")
        return pick

    def end(self) -> None:
        if self._values:
            raise BadSource(self._text, f"it takes no option {next(iter(self._values))!r}")


def _table(text: str, place: str, options: _Options) -> SourceSpec:
    key, id = options.take("key", "key"), options.take("id", "id")
    order = options.take("order", id)
    options.end()
    return TableSpec(text, unquote(place), None if key == "none" else key, id, order)


def _ledger(text: str, place: str, options: _Options) -> SourceSpec:
    options.end()
    return FileSpec(text, unquote(place))


def _jsonl(text: str, place: str, options: _Options) -> SourceSpec:
    spec = FileSpec(text, unquote(place), options.json_pick("key"), options.json_pick("id"))
    options.end()
    return spec


def _kafka(text: str, place: str, options: _Options) -> SourceSpec:
    if not _TOPIC.fullmatch(place):
        raise BadSource(text, f"{place!r} is not the name of a topic")
    key, id = options.pick("key", "key"), options.pick("id", "/id")
    options.end()
    return KafkaSpec(text, place, key, id)


def _journal(text: str, place: str, options: _Options) -> SourceSpec:
    key, id = options.pick_or_none("key"), options.pick_or_none("id")
    options.end()
    return JournalSpec(text, unquote(place), place.endswith("/"), key, id)


def _receiver(text: str, place: str, options: _Options) -> SourceSpec:
    parts = urlsplit(place)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadSource(text, "write it as receiver:http://host:port")
    if parts.username or parts.password:
        raise BadSource("receiver:…", "a password does not belong on a command line")
    key, id = options.json_pick("key", "none"), options.json_pick("id")
    options.end()
    url = place.rstrip("/")
    return ReceiverSpec(text, url if parts.path.strip("/") else f"{url}/messages", key, id)


_PARSERS: Final = {
    "table": _table,
    "ledger": _ledger,
    "jsonl": _jsonl,
    "kafka": _kafka,
    "journal": _journal,
    "receiver": _receiver,
}
