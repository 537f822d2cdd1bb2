"""What do the options of a source say? Pure.

Spark gives their names in lower case. An option that nobody reads is an error: most often it is
one that was meant to be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal

from windrow.graph.delivery_errors import InvalidOffsets
from windrow.graph.planning import UNLIMITED, Limits
from windrow.graph.positions import SourceOffsets
from windrow.spark.formats.errors import InvalidOption, UnknownOption
from windrow.spark.places import Place

ROWS_PER_PARTITION: Final = 100_000
SHARED: Final = (
    "inputs",
    "source",
    "startingOffsets",
    "endingOffsets",
    "maxRowsPerBatch",
    "maxBytesPerBatch",
    "rowsPerPartition",
    "partitions",
)
"""Of every source of queues."""

Bound = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The options of a source, read and checked.

    Attributes:
        format: What the source is called.
        places: Its inputs, by name.
        starting: Where a new query, or a batch read, begins.
        ending: Where a batch read ends.
        limits: How much one batch of a stream takes.
        rows_per_partition: The most rows that one task reads.
    """

    format: str
    places: Mapping[str, Place]
    starting: Bound | SourceOffsets = "earliest"
    ending: Bound | SourceOffsets = "latest"
    limits: Limits = UNLIMITED
    rows_per_partition: int = ROWS_PER_PARTITION


class Options:
    """Options under the names that are documented; remembers nothing, and checks everything."""

    def __init__(self, format: str, given: Mapping[str, str]) -> None:
        self.format = format
        self._given = {name.lower(): value for name, value in given.items()}

    def get(self, name: str, default: str = "") -> str:
        """An option, or the default if it is not there."""
        return self._given.get(name.lower(), default)

    def under(self, prefix: str) -> dict[str, str]:
        """All options that begin with a prefix, without it."""
        return {
            name[len(prefix) :]: value
            for name, value in self._given.items()
            if name.startswith(prefix.lower()) and len(name) > len(prefix)
        }

    def refused(self, name: str, reason: str) -> InvalidOption:
        """That an option is wrong; what is secret is not told."""
        shown = "***" if "secret" in name.lower() else repr(self.get(name) or "not set")
        return InvalidOption(self.format, name, shown, reason)

    def count(self, name: str) -> int | None:
        """A whole number of at least 1, or nothing."""
        text = self.get(name)
        if not text:
            return None
        if not text.isdecimal() or int(text) < 1:
            raise self.refused(name, "must be a whole number of at least 1")
        return int(text)

    def json(self, name: str) -> Any:
        """A JSON object, or nothing."""
        text = self.get(name)
        if not text:
            return None
        try:
            value = json.loads(text)
        except ValueError as error:
            raise self.refused(name, f"is no JSON: {error}") from error
        if not isinstance(value, dict):
            raise self.refused(name, "must be a JSON object")
        return value

    def bound(self, name: str, default: Bound) -> Bound | SourceOffsets:
        """A place to begin or to end at."""
        text = self.get(name) or default
        if text == "earliest" or text == "latest":
            return "earliest" if text == "earliest" else "latest"
        try:
            return SourceOffsets.from_json(self.json(name))
        except InvalidOffsets as error:
            reason = "must be earliest, latest, or offsets as a query's progress shows them"
            raise self.refused(name, reason) from error

    def check_known(self, names: Iterable[str], prefixes: Iterable[str] = ()) -> None:
        """See that nothing was given that nobody reads.

        Raises:
            UnknownOption: Something was.
        """
        known = {name.lower(): name for name in names}
        beginnings = tuple(prefix.lower() for prefix in prefixes)
        for name in self._given:
            if name not in known and not (beginnings and name.startswith(beginnings)):
                near = get_close_matches(name, known, 1)
                raise UnknownOption(self.format, name, known[near[0]] if near else None)


def inputs_of(options: Options, kind: str) -> dict[str, tuple[str, int | None]]:
    """The inputs of a source by name: where each lives, and how many partitions it has.

    Several are given as JSON, ``{"name": "place"}`` or ``{"name": {"<kind>": "place", "partitions":
    2}}``; or as options ``<kind>.<name>``, whose names Spark makes lower case. A single one is the
    option ``<kind>``, called by the option ``source`` or like its place.

    Raises:
        InvalidOption: There is none, or one has no place.
    """
    tree, named, single = options.json("inputs"), options.under(f"{kind}."), options.get(kind)
    if tree is not None and (named or single):
        raise options.refused("inputs", f'give either "inputs" or "{kind}", not both')
    if single:
        named = {**named, options.get("source") or single: single}
    if not (tree or named):
        raise options.refused("inputs", 'give what to read, as {"name": "place"}')
    partitions = options.count("partitions")
    return {
        name: _input_of(options, kind, name, value, partitions)
        for name, value in (tree or named).items()
    }


def _input_of(
    options: Options, kind: str, name: str, value: Any, partitions: int | None
) -> tuple[str, int | None]:
    if isinstance(value, str) and value:
        return value, partitions
    if isinstance(value, dict) and set(value) <= {kind, "partitions"}:
        address, count = value.get(kind), value.get("partitions", partitions)
        is_count = isinstance(count, int) and not isinstance(count, bool) and count >= 1
        if isinstance(address, str) and address and (count is None or is_count):
            return address, count
    form = f'"place" or {{"{kind}": "place", "partitions": 2}}'
    raise options.refused("inputs", f'input "{name}" must be {form}')


def settings_of(options: Options, places: Mapping[str, Place]) -> SourceSettings:
    """What is shared by all sources of queues.

    Raises:
        InvalidOption: An option is out of its range or form.
    """
    return SourceSettings(
        options.format,
        places,
        options.bound("startingOffsets", "earliest"),
        options.bound("endingOffsets", "latest"),
        Limits(options.count("maxRowsPerBatch"), options.count("maxBytesPerBatch")),
        options.count("rowsPerPartition") or ROWS_PER_PARTITION,
    )
