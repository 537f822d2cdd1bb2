"""Small graphs to strike at, and what every queue of them must hold in the end.

A message says where it comes from and its number there; what becomes of it follows from the number
alone, so that nobody has to run anything to know what is to be expected.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from windrow.graph.context import Context
from windrow.graph.declaration import Graph
from windrow.graph.messages import Message
from windrow.graph.policies import Retry
from windrow.graph.processors import Processor, Source, declare
from windrow.graph.queues import Queue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = 5
EFFECTS = "effects"
"""The queue that is none: lines in a file, one for each effect."""

Inputs = Mapping[str, int]
"""How many messages each source was given."""
Expected = dict[str, list[tuple[str, str]]]
"""What each queue must hold: keys and what their messages say, in the order of each key."""


def key_of(source: str, number: int) -> str:
    return f"{source}-{number % KEYS}"


def value_of(source: str, number: int) -> dict[str, Any]:
    return {"from": source, "n": number}


def is_dropped(number: int) -> bool:
    return number % 7 == 3


def is_bad(number: int) -> bool:
    return number % 7 == 5


# -- functions -------------------------------------------------------------------------------------


def copy(msgs: Mapping[str, Message], ctx: Context) -> Message | None:
    """The message as it is, or nothing."""
    (message,) = msgs.values()
    _obey(message.value["n"], ctx)
    return None if is_dropped(message.value["n"]) else message


def copy_all(msgs: Mapping[str, Message], ctx: Context) -> Message:
    (message,) = msgs.values()
    _obey(message.value["n"], ctx)
    return message


def nothing(msgs: Mapping[str, Message], ctx: Context) -> Message | None:
    """Takes all of the first input, and gives nothing for it."""
    return msgs.get("b")


def pair(msgs: Mapping[str, Message], ctx: Context) -> Message:
    a, b = msgs["a"].value, msgs["b"].value
    assert a["n"] == b["n"], "paired by position"
    return msgs["a"].having(value={"from": "ab", "n": a["n"]})


def fork(msgs: Mapping[str, Message], ctx: Context) -> dict[str, Any]:
    """Both get it, or the left one twice, or nobody; or it fails."""
    message, number = pair(msgs, ctx), msgs["a"].value["n"]
    _obey(number, ctx)
    if is_bad(number):
        raise ValueError(f"number {number} is bad")
    if is_dropped(number):
        return {}
    twice = [message, message.having(value={"from": "ab", "n": number, "again": True})]
    return {"left": twice if number % 3 == 0 else [message], "right": [message]}


def split(msgs: Mapping[str, Message], ctx: Context) -> dict[str, Message]:
    message = pair(msgs, ctx)
    return {"left": message, "right": message}


def guess(msgs: Mapping[str, Message], ctx: Context) -> Message:
    """Another result each time it is run, and another key: another partition, too."""
    (message,) = msgs.values()
    guessed = uuid4().hex
    return message.having(key=guessed, value={**message.value, "guess": guessed})


def dedupe(messages: DataFrame) -> DataFrame:
    """Each value once: what came before is state, which Spark keeps in its checkpoint."""
    return messages.dropDuplicates(["value"])


def act(msgs: Mapping[str, Message], ctx: Context) -> None:
    """An effect: a line in a file, with the hash by which it is known again."""
    (message,) = msgs.values()
    line = f"{message.key} {message.value['from']}{message.value['n']} {ctx.delivery_hash}\n"
    with Path(ctx.system["effects"]).open("ab", buffering=0) as effects:
        effects.write(line.encode())
    _obey(message.value["n"], ctx)


def _obey(number: int, ctx: Context) -> None:
    """Fail, or die, at a number for as long as a file says so."""
    switches = ctx.system.get("switches")
    if switches and (switch := Path(switches, str(number))).exists():
        match switch.read_text():
            case "raise":
                raise ValueError(f"number {number} is switched off")
            case "exit":
                os.kill(os.getpid(), signal.SIGKILL)


# -- graphs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """A kind of graph.

    Attributes:
        processors: Its processors, those that come first first.
        sources: What is filled from outside.
        outputs: Every queue that is compared.
        partitions: Of queues that have several.
        errors: The error queue, if it has one.
        expect: What the outputs must hold.
        is_ordered: Whether messages of one key keep their order.
    """

    processors: Sequence[Processor]
    sources: tuple[str, ...]
    outputs: tuple[str, ...]
    expect: Callable[[Inputs], Expected]
    partitions: Mapping[str, int] = field(default_factory=dict)
    errors: str | None = None
    is_ordered: bool = True

    def graph(self, name: str, options: Mapping[str, Any]) -> Graph:
        """The graph under that name.

        Args:
            name: Of the graph.
            options: What deviates: ``system``, ``kafka``, ``partitions``, ``on_error``, ``retry``,
                ``settings`` of every processor, and ``sources`` by which it reads others.
        """
        settings = options.get("settings", {})
        changed = [declare(each, **_settings_of(each, settings)) for each in self.processors]
        partitions = {**self.partitions, **options.get("partitions", {})}
        sources = options.get("sources", self.sources)
        names = {*sources, *self.outputs, *partitions} - {EFFECTS}
        if self.errors:
            names.add(self.errors)
        return Graph(
            name,
            [*map(Source, sources), *changed],
            queues=[
                _queue(name, each, partitions.get(each), bool(options.get("kafka")))
                for each in sorted(names)
            ],
            errors=self.errors,
            on_error=options.get("on_error"),
            system=options.get("system", {}),
            retry=Retry(**options.get("retry", {"attempts": 50, "backoff": 0.0})),
        )


def _settings_of(processor: Processor, changes: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        name: getattr(processor, name)
        for name in (
            "id",
            "reads",
            "alts",
            "writes",
            "many",
            "deterministic",
            "version",
            "form",
            "state",
        )
    }
    if processor.strategy is not None:
        kept["strategy"] = processor.strategy
    given = dict(changes)
    given.pop("function", None)
    return {**{name: value for name, value in kept.items() if value}, **given}


def _queue(graph: str, name: str, partitions: int | None, on_kafka: bool) -> Queue:
    if not on_kafka:
        return Queue(name, partitions=partitions)
    # To be joined by position: offsets of a topic have gaps.
    numbered = {"positions": "sequence"}
    return Queue(name, kafka=f"{graph}-{name}", partitions=partitions, options=numbered)


def _kept(source: str, count: int) -> list[tuple[str, str]]:
    return [(key_of(source, n), f"{source}{n}") for n in range(count) if not is_dropped(n)]


def _pairs(inputs: Inputs) -> range:
    return range(min(inputs["a"], inputs["b"]))


def _joined(inputs: Inputs) -> list[tuple[str, str]]:
    return [(key_of("a", n), f"ab{n}") for n in _pairs(inputs)]


def _forked(inputs: Inputs) -> Expected:
    left, right, errors = [], [], []
    for n in _pairs(inputs):
        key = key_of("a", n)
        if is_bad(n):
            errors.append((f"error{n}", f"error{n}"))
        elif not is_dropped(n):
            left.append((key, f"ab{n}"))
            right.append((key, f"ab{n}"))
            if n % 3 == 0:
                left.append((key, f"ab{n}again"))
    return {"left": left, "right": right, "errors": errors}


def _all(source: str, count: int) -> list[tuple[str, str]]:
    return [(key_of(source, n), f"{source}{n}") for n in range(count)]


def _of_each(function: Callable[[str, int], list[tuple[str, str]]], queue: str) -> Any:
    def expect(inputs: Inputs) -> Expected:
        return {
            queue: [each for source in sorted(inputs) for each in function(source, inputs[source])]
        }

    return expect


SHAPES: dict[str, Shape] = {
    "pipe": Shape(
        [declare(copy, reads="a", writes="out", deterministic=True)],
        ("a",), ("out",), _of_each(_kept, "out"), {"out": 3},
    ),
    "narrow": Shape(
        [declare(copy, reads="a", writes="out", deterministic=True)],
        ("a",), ("out",), _of_each(_kept, "out"),
    ),
    "nil": Shape(
        [declare(nothing, alts=("a", "b"), writes="out", deterministic=True)],
        ("a", "b"), ("out",), lambda inputs: {"out": _all("b", inputs["b"])},
    ),
    "alts": Shape(
        [declare(copy, alts=("a", "b"), writes="out", deterministic=True)],
        ("a", "b"), ("out",), _of_each(_kept, "out"), {"out": 2},
    ),
    "join": Shape(
        [declare(pair, reads=("a", "b"), writes="out", deterministic=True)],
        ("a", "b"), ("out",), lambda inputs: {"out": _joined(inputs)}, {"out": 2},
    ),
    "fork": Shape(
        [declare(fork, reads=("a", "b"), writes=("left", "right"), many=True)],
        ("a", "b"), ("left", "right", "errors"), _forked, {"left": 2}, errors="errors",
    ),
    "guess": Shape(
        [declare(guess, reads="a", writes="out")],
        ("a",), ("out",), _of_each(_all, "out"), {"out": 3}, is_ordered=False,
    ),
    "dedupe": Shape(
        [declare(dedupe, reads="a", writes="out", form="dataframe", state="stateful")],
        ("a",), ("out",), _of_each(_all, "out"), is_ordered=False,
    ),
    "once": Shape(
        [declare(act, reads="a", strategy="at-most-once")],
        ("a",), (EFFECTS,), _of_each(_all, EFFECTS),
    ),
    "effects": Shape(
        [declare(act, reads="a")],
        ("a",), (EFFECTS,), _of_each(_all, EFFECTS),
    ),
    "stress": Shape(
        [
            declare(split, reads=("a", "b"), writes=("left", "right")),
            declare(copy_all, id="count-left", reads="left", writes="lefts", deterministic=True),
            declare(copy_all, id="count-right", reads="right", writes="rights", deterministic=True),
        ],
        ("a", "b"), ("left", "right", "lefts", "rights"),
        lambda inputs: dict.fromkeys(("left", "right", "lefts", "rights"), _joined(inputs)),
        {"lefts": 2},
    ),
}  # fmt: skip


def said(key: str | None, value: Mapping[str, Any]) -> tuple[str, str]:
    """A message as the expectation names it."""
    if value.get("cause"):
        (bad,) = {each["value"]["n"] for each in value["messages"].values()}
        return f"error{bad}", f"error{bad}"
    what = f"{value['from']}{value['n']}"
    return key or "", f"{what}again" if value.get("again") else what


def effects_in(path: Path) -> Iterable[tuple[str, str, str]]:
    """Every effect: the key, what was done, and under which hash."""
    if path.exists():
        for line in path.read_text().splitlines():
            key, what, digest = line.split()
            yield key, what, digest
