"""Which value wins, where it came from, and everything that is wrong with it.

Pure: layers in, configuration out. Files and variables are read by the caller; what a secret refers
to is read by a function that the caller hands in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Generic, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from windrow.config.errors import SeveralMistakes
from windrow.config.layers import Layer, Path, Setting, dotted
from windrow.config.redaction import HIDDEN, redact
from windrow.config.secrets import SECRET_FORMS, Secret
from windrow.errors import ConfigError, InvalidValue, UnknownKey
from windrow.types import WRITTEN

M = TypeVar("M", bound=BaseModel)

DEFAULT_ORIGIN = "default"
_NEAR_ENOUGH = 0.6
_LONGEST_SHOWN = 60

ReadReference = Callable[[str, str], str]
"""Gives what ``{env = NAME}`` or ``{file = PATH}`` refers to; raises ValueError with a reason."""


@dataclass(frozen=True, slots=True)
class Resolved(Generic[M]):
    """The effective configuration, and for each key where its value came from."""

    config: M
    origin_of: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Winner:
    value: Any
    origin: str


def no_references(kind: str, name: str) -> str:
    """Refuse to follow a reference: for configuration that must stand for itself."""
    raise ValueError("a reference is not followed here; write the value itself")


def resolve(
    model: type[M], layers: Sequence[Layer], read_reference: ReadReference = no_references
) -> Resolved[M]:
    """Merge the layers, the strongest first, and validate the result.

    A stronger layer replaces a value whole; within a layer the later setting wins.

    Raises:
        ConfigError: A key is unknown, a value invalid or a reference leads nowhere; with more
            than one mistake, ``SeveralMistakes``. No message holds a secret.
    """
    leaves = dict(_leaves(model))
    mistakes: list[ConfigError] = []
    winners: dict[Path, _Winner] = {}
    for layer in layers:
        for path, winner in _of_layer(layer, leaves, mistakes).items():
            winners.setdefault(path, winner)
    winners = _follow_references(winners, leaves, read_reference, mistakes)
    config = _validate(model, winners, leaves, mistakes)
    if config is None or mistakes:
        raise mistakes[0] if len(mistakes) == 1 else SeveralMistakes(tuple(mistakes))
    closed = [path for path, info in leaves.items() if not _is_table(info)]
    origins = dict.fromkeys(closed, DEFAULT_ORIGIN) | {p: w.origin for p, w in winners.items()}
    return Resolved(config, {dotted(path): origin for path, origin in origins.items()})


def _leaves(model: type[BaseModel], above: Path = ()) -> Iterator[tuple[Path, FieldInfo]]:
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from _leaves(info.annotation, (*above, name))
        else:
            yield (*above, name), info


def _of_layer(
    layer: Layer, leaves: Mapping[Path, FieldInfo], mistakes: list[ConfigError]
) -> dict[Path, _Winner]:
    found: dict[Path, _Winner] = {}
    for setting in layer.settings:
        leaf = next((p for p in _prefixes(setting.path) if p in leaves), None)
        rest = setting.path[len(leaf) :] if leaf else ()
        if leaf and rest and _is_table(leaves[leaf]):
            entry, value = _entry(leaves[leaf], rest, setting.value)
            found[(*leaf, *entry)] = _Winner(value, setting.origin)
        elif leaf and not rest:
            found[leaf] = _Winner(setting.value, setting.origin)
        elif leaf and rest in (("env",), ("file",)) and _is_secret(leaves[leaf]):
            found[leaf] = _Winner(_Reference(rest[0], setting.value), setting.origin)
        elif leaf and _is_secret(leaves[leaf]):
            # In YAML the unquoted password {abc} is a mapping, and its key must not be told.
            mistakes.append(InvalidValue(dotted(leaf), HIDDEN, setting.origin, SECRET_FORMS))
        else:
            mistake = _misplaced(setting, layer, leaves)
            if str(mistake) not in map(str, mistakes):
                mistakes.append(mistake)
    return found


@dataclass(frozen=True, slots=True)
class _Reference:
    kind: str
    name: Any


def _entry(info: FieldInfo, rest: Path, value: Any) -> tuple[Path, Any]:
    """Where a setting belongs in a table whose keys anybody may choose, and hold dots.

    So what is left of the path is one key, but for what the table's values are known to have: the
    field of a section, or the ``env`` or ``file`` of a reference.
    """
    section = get_args(info.annotation)[1]
    if isinstance(section, type) and issubclass(section, BaseModel):
        return (dotted(rest[:-1]), rest[-1]), value
    if len(rest) > 1 and rest[-1] in ("env", "file"):
        return (dotted(rest[:-1]),), _Reference(rest[-1], value)
    return (dotted(rest),), value


def _misplaced(setting: Setting, layer: Layer, leaves: Mapping[Path, FieldInfo]) -> ConfigError:
    inside = [leaf for leaf in leaves if leaf[: len(setting.path)] == setting.path]
    if inside:
        # The value is not shown: a whole DSN may have been written where a section belongs.
        return InvalidValue(
            layer.spell(setting.path),
            f"of type {type(setting.value).__name__}",
            setting.origin,
            f"it is a section; set {layer.spell(inside[0])}",
        )
    known = {prefix for leaf in leaves for prefix in _prefixes(leaf)}
    unknown = setting.path
    if layer.is_tree:
        unknown = next(prefix for prefix in _prefixes(setting.path) if prefix not in known)
    nearest = _nearest(unknown, sorted(known if layer.is_tree else leaves))
    return UnknownKey(layer.spell(unknown), layer.name, layer.spell(nearest) if nearest else None)


def _nearest(path: Path, known: Sequence[Path]) -> Path | None:
    def likeness(candidate: Path) -> float:
        whole = SequenceMatcher(None, dotted(path), dotted(candidate)).ratio()
        # A right name in the wrong section is a good guess, yet not as good as a near whole.
        last = SequenceMatcher(None, path[-1], candidate[-1]).ratio()
        return max(whole, 0.9 * last)

    best = max(known, key=likeness, default=None)
    return best if best is not None and likeness(best) >= _NEAR_ENOUGH else None


def _follow_references(
    winners: Mapping[Path, _Winner],
    leaves: Mapping[Path, FieldInfo],
    read_reference: ReadReference,
    mistakes: list[ConfigError],
) -> dict[Path, _Winner]:
    followed = {}
    for path, winner in winners.items():
        reference = winner.value
        if not isinstance(reference, _Reference):
            followed[path] = winner
            continue
        name = str(reference.name)
        try:
            value = read_reference(reference.kind, name)
        except ValueError as error:
            mistakes.append(
                InvalidValue(
                    dotted(path), f"{reference.kind} {name}", winner.origin, redact(str(error))
                )
            )
        else:
            # In a table nothing else says that it is a secret; a field knows by itself.
            kept = value if path in leaves else Secret(value)
            followed[path] = _Winner(kept, f"{winner.origin} ({reference.kind} {name})")
    return followed


def _validate(
    model: type[M],
    winners: Mapping[Path, _Winner],
    leaves: Mapping[Path, FieldInfo],
    mistakes: list[ConfigError],
) -> M | None:
    try:
        return model.model_validate(
            _nested({path: winner.value for path, winner in winners.items()}), context=WRITTEN
        )
    except ValidationError as error:
        # Only the parts are kept: the error itself holds every value it saw.
        details = error.errors(include_url=False, include_context=False, include_input=False)
    seen: set[Path] = set()
    for detail in details:
        path, mistake = _invalid(detail, winners, leaves)
        if path not in seen:
            mistakes.append(mistake)
        seen.add(path)
    return None


def _invalid(
    detail: ErrorDetails, winners: Mapping[Path, _Winner], leaves: Mapping[Path, FieldInfo]
) -> tuple[Path, ConfigError]:
    location = tuple(str(part) for part in detail["loc"])
    path = next((p for p in _prefixes(location) if p in winners or p in leaves), location)
    reason = detail["msg"].removeprefix("Value error, ")
    reason = redact(reason[:1].lower() + reason[1:])
    if path in winners:
        winner = winners[path]
        is_open = path in leaves and not _is_secret(leaves[path])
        value = _shown(winner.value) if is_open else HIDDEN
        return path, InvalidValue(dotted(path), value, winner.origin, reason)
    set_within = [w.origin for p, w in winners.items() if p[: len(path)] == path]
    origin = ", ".join(dict.fromkeys(set_within)) or DEFAULT_ORIGIN
    return path, InvalidValue(dotted(path), "not consistent", origin, reason)


def _shown(value: Any) -> str:
    text = redact(json.dumps(value, default=str, ensure_ascii=False))
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _is_table(info: FieldInfo) -> bool:
    return get_origin(info.annotation) is dict


def _is_secret(info: FieldInfo) -> bool:
    return any(
        isinstance(part, type) and issubclass(part, Secret)
        for part in (info.annotation, *get_args(info.annotation))
    )


def _nested(flat: Mapping[Path, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        section = nested
        for name in path[:-1]:
            section = section.setdefault(name, {})
        section[path[-1]] = value
    return nested


def _prefixes(path: Path) -> Iterator[Path]:
    return (path[:length] for length in range(1, len(path) + 1))
