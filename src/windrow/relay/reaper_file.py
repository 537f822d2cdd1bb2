"""goharvest's own ``reaper.yaml``: its fields, defaults and rules, word for word. Pure.

A file is read in three steps, as goharvest's: strictly parsed, completed with defaults, validated.
Durations are nanoseconds here, as in Go, since ``1ns`` and ``0`` have to be told apart. What the
fields mean to this relay is the business of :mod:`~windrow.relay.reaper_config`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import yaml

from windrow.errors import InvalidValue, UnknownKey, UnreadableConfig
from windrow.go_duration import (
    MILLISECOND,
    SECOND,
    format_go_duration,
    parse_go_duration,
)
from windrow.relay.election.errors import ForcedProperty
from windrow.relay.errors import InvalidReaperFile

DATA_SOURCE = "host=localhost port=5432 user=postgres password= dbname=postgres sslmode=disable"
BOOTSTRAP = "localhost:9092"
LEVELS = ("All", "Trace", "Debug", "Info", "Warn", "Error", "Off")
GROUP = "reaper"
"""goneli takes the name of the program, and goharvest's is called so."""

FORCED_ON_PRODUCER = ("enable.idempotence",)
FORCED_ON_ELECTION = (
    "group.id",
    "enable.auto.commit",
    "session.timeout.ms",
    "delivery.timeout.ms",
    "linger.ms",
)

_KAFKA_NAME = re.compile(r"[a-zA-Z0-9._-]*")


class Limit(NamedTuple):
    """A field under ``limits``: how it is called, and goharvest's rules for it."""

    name: str
    go_name: str
    kind: Literal["duration", "count"]
    default: int | None = None
    is_required: bool = False
    least: int | None = None


LIMITS = {
    limit.name: limit
    for limit in (
        Limit("ioErrorBackoff", "IOErrorBackoff", "duration", 500 * MILLISECOND, least=0),
        Limit("pollDuration", "PollDuration", "duration"),
        Limit("minPollInterval", "MinPollInterval", "duration"),
        Limit("maxPollInterval", "MaxPollInterval", "duration", None, True, MILLISECOND),
        Limit("heartbeatTimeout", "HeartbeatTimeout", "duration", 5 * SECOND),
        Limit("drainInterval", "DrainInterval", "duration", None, True, MILLISECOND),
        Limit("queueTimeout", "QueueTimeout", "duration", 30 * SECOND, True, MILLISECOND),
        Limit("markBackoff", "MarkBackoff", "duration", 10 * MILLISECOND, least=0),
        Limit("maxInFlightRecords", "MaxInFlightRecords", "count", 1000, True, 1),
        Limit("sendConcurrency", "SendConcurrency", "count", 8, True, 1),
        Limit("sendBuffer", "SendBuffer", "count", 10, least=0),
        Limit("markQueryRecords", "MarkQueryRecords", "count", 100, True, 1),
        Limit("minMetricsInterval", "MinMetricsInterval", "duration", 5 * SECOND, least=0),
    )
}
ELECTION_DEFAULTS = {"pollDuration": MILLISECOND, "minPollInterval": 100 * MILLISECOND}
"""What goneli puts where goharvest leaves nothing."""

_TEXTS = ("leaderTopic", "leaderGroupID", "dataSource", "outboxTable", "name")
_MAPS = ("baseKafkaConfig", "producerKafkaConfig")
_HARVEST = (*_MAPS, *_TEXTS, "limits")


@dataclass(frozen=True, slots=True)
class ReaperFile:
    """A file of goharvest's with its defaults filled in. Secrets are in it: not in its repr."""

    origin: str
    base_kafka: Mapping[str, Any] = field(repr=False)
    producer_kafka: Mapping[str, Any] = field(repr=False)
    leader_topic: str
    leader_group: str
    data_source: str = field(repr=False)
    outbox_table: str
    limits: Mapping[str, int | None]
    name: str
    level: str
    given: frozenset[str]
    """The limits that the file itself names."""


# -- reading -------------------------------------------------------------------------------------


def parse_reaper(text: str, origin: str) -> ReaperFile:
    """The file with goharvest's defaults for what it leaves out.

    Args:
        text: What is in it.
        origin: What it is called, for messages.

    Raises:
        UnreadableConfig: It is not YAML.
        UnknownKey: It has a key that goharvest does not know.
        InvalidValue: A value is of the wrong kind.
    """
    content = _mapping(_yaml(text, origin), "the file", origin)
    _refuse_unknown(content, ("harvest", "logging"), origin)
    harvest = _mapping(content.get("harvest"), "harvest", origin)
    _refuse_unknown(harvest, _HARVEST, origin, "harvest.")
    logging = _mapping(content.get("logging"), "logging", origin)
    _refuse_unknown(logging, ("level",), origin, "logging.")
    texts = {name: _text(harvest.get(name), f"harvest.{name}", origin) for name in _TEXTS}
    base, producer = (_mapping(harvest.get(name), f"harvest.{name}", origin) for name in _MAPS)
    limits = _limits(_mapping(harvest.get("limits"), "harvest.limits", origin), origin)
    group = texts["leaderGroupID"] or GROUP
    return ReaperFile(
        origin=origin,
        base_kafka={"bootstrap.servers": BOOTSTRAP, **base},
        producer_kafka=producer,
        leader_topic=texts["leaderTopic"] or f"{group}.neli",
        leader_group=group,
        data_source=texts["dataSource"] or DATA_SOURCE,
        outbox_table=texts["outboxTable"] or "outbox",
        limits=with_defaults(limits),
        name=texts["name"],
        level=_level(logging.get("level"), origin),
        given=frozenset(limits),
    )


def with_defaults(given: Mapping[str, int]) -> dict[str, int | None]:
    """All limits: those given, and goharvest's defaults, some of which follow from others."""
    fixed = {name: limit.default for name, limit in LIMITS.items() if limit.default is not None}
    limits = {**fixed, **given}
    limits.setdefault("maxPollInterval", limits["heartbeatTimeout"] // 2)
    limits.setdefault("drainInterval", min(limits["maxPollInterval"], limits["queueTimeout"]))
    return {name: limits.get(name) for name in LIMITS}


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that is there twice, as goharvest's parser does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if name in seen:
                problem = f"the key {name} is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def _yaml(text: str, origin: str) -> Any:
    # Go's parser lets a line end in a tab; this one does not.
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    try:
        return yaml.load(lines, _StrictLoader)
    except yaml.MarkedYAMLError as error:
        # What stands in quotes may be half a password.
        reason = re.sub(r"""'.*'|".*\"""", "…", error.problem or "not YAML")
        mark = error.problem_mark
        place = f" (at line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    except yaml.YAMLError:
        reason, place = "it has characters that YAML does not allow", ""
    raise UnreadableConfig(origin, reason + place)


def _mapping(value: Any, key: str, origin: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidValue(key, f"of type {type(value).__name__}", origin, "must be a mapping")
    return {str(name): entry for name, entry in value.items()}


def _refuse_unknown(
    content: Mapping[str, Any], known: Sequence[str], origin: str, above: str = ""
) -> None:
    for name in content:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UnknownKey(above + name, origin, above + near[0] if near else None)


def _text(value: Any, key: str, origin: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValue(key, f"of type {type(value).__name__}", origin, "must be text")
    return str(value)


def _level(value: Any, origin: str) -> str:
    # To YAML the word is a boolean; Go knows that text was wanted.
    level = "Off" if value is False else _text(value, "logging.level", origin) or "Debug"
    if level not in LEVELS:
        raise InvalidValue("logging.level", repr(level), origin, f"one of {', '.join(LEVELS)}")
    return level


def _limits(content: Mapping[str, Any], origin: str) -> dict[str, int]:
    _refuse_unknown(content, tuple(LIMITS), origin, "harvest.limits.")
    given = {name: value for name, value in content.items() if value is not None}
    return {name: _limit(LIMITS[name], value, origin) for name, value in given.items()}


def _limit(limit: Limit, value: Any, origin: str) -> int:
    key = f"harvest.limits.{limit.name}"
    if isinstance(value, int) and not isinstance(value, bool):
        return value  # nanoseconds, if it is a duration
    if limit.kind == "duration" and isinstance(value, str):
        try:
            return parse_go_duration(value)
        except ValueError as error:
            raise InvalidValue(key, repr(value), origin, str(error)) from None
    wanted = "a duration such as 250ms" if limit.kind == "duration" else "a whole number"
    raise InvalidValue(key, repr(value), origin, f"must be {wanted}")


# -- validating ----------------------------------------------------------------------------------


def validate(file: ReaperFile) -> None:
    """See that goharvest would start with it.

    Raises:
        InvalidReaperFile: A rule is broken; the message is goharvest's.
        ForcedProperty: It sets a property of Kafka's client that only the relay may.
    """
    mistakes = limit_mistakes(file.limits)
    if mistakes:
        raise InvalidReaperFile(file.origin, f"Limits: ({_sentence(mistakes)}).")
    for key in FORCED_ON_PRODUCER:
        if key in file.base_kafka or key in file.producer_kafka:
            raise ForcedProperty(key)
    mistakes = election_mistakes(file)
    if mistakes:
        raise InvalidReaperFile(file.origin, _sentence(mistakes))
    for key in FORCED_ON_ELECTION:
        if key in file.base_kafka:
            raise ForcedProperty(key)


def limit_mistakes(limits: Mapping[str, int | None]) -> dict[str, str]:
    """What is wrong with the limits, by goharvest's names for them."""
    found = {}
    for limit in LIMITS.values():
        least = limit.least
        if limit.name == "maxPollInterval" and limits["minPollInterval"] is not None:
            least = limits["minPollInterval"]
        mistake = _mistake(limit, limits[limit.name], limit.is_required, least)
        if mistake:
            found[limit.go_name] = mistake
    return found


def election_mistakes(file: ReaperFile) -> dict[str, str]:
    """What goneli would refuse, by its names."""
    found = {}
    for go_name, text in (("LeaderTopic", file.leader_topic), ("LeaderGroupID", file.leader_group)):
        if not _KAFKA_NAME.fullmatch(text):
            found[go_name] = "must be in a valid format"
    if "%" in file.name:  # it ends the time in a heartbeat
        found["Name"] = "must be in a valid format"
    for name in ("pollDuration", "minPollInterval", "heartbeatTimeout"):
        value = file.limits[name]
        value = ELECTION_DEFAULTS.get(name) if value is None else value
        mistake = _mistake(LIMITS[name], value, True, MILLISECOND)
        if mistake:
            found[LIMITS[name].go_name] = mistake
    return found


def _mistake(limit: Limit, value: int | None, is_required: bool, least: int | None) -> str | None:
    if not value:
        # A least value is not asked of zero: that is what "required" is for.
        return "cannot be blank" if is_required else None
    if least is None or value >= least:
        return None
    is_plain = limit.kind == "count" or least == 0
    return f"must be no less than {least if is_plain else format_go_duration(least)}"


def _sentence(mistakes: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {mistakes[name]}" for name in sorted(mistakes)) + "."
