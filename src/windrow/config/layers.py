"""What was set, where, and how it was spelled there.

Every source of configuration becomes a flat list of settings, so that files, variables and flags
are merged, checked and explained by the same few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ENVIRONMENT_PREFIX = "WINDROW__"

Path = tuple[str, ...]


def dotted(path: Path) -> str:
    """The key as files, flags and messages spell it: ``database.table``."""
    return ".".join(path)


def variable(path: Path) -> str:
    """The key as the environment spells it: ``WINDROW__DATABASE__TABLE``."""
    return ENVIRONMENT_PREFIX + "__".join(path).upper()


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that someone set. The value may be a secret, so it is not in the repr."""

    path: Path
    value: Any = field(repr=False)
    origin: str


@dataclass(frozen=True, slots=True)
class Layer:
    """All that one source sets, and how that source spells a key.

    In a tree, a key that nothing reads is told once and without what is below it.
    """

    name: str
    settings: tuple[Setting, ...]
    spell: Callable[[Path], str] = dotted
    is_tree: bool = False


def file_layer(name: str, content: Mapping[Any, Any]) -> Layer:
    """The layer of a parsed file."""
    settings = tuple(Setting(path, value, name) for path, value in _flat(content))
    return Layer(name, settings, is_tree=True)


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """The layer of all variables named ``WINDROW__SECTION__KEY``."""
    names = sorted(name for name in environ if name.startswith(ENVIRONMENT_PREFIX))
    settings = (
        Setting(
            tuple(name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")),
            environ[name],
            f"environment {name}",
        )
        for name in names
    )
    return Layer("environment", tuple(settings), variable)


def flag_layer(settings: Iterable[Setting]) -> Layer:
    """The layer of the command line, where a later flag is stronger than an earlier one."""
    return Layer("flags", tuple(settings))


def _flat(content: Mapping[Any, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key, value in content.items():
        path = (*above, str(key))
        if isinstance(value, Mapping) and value:
            yield from _flat(value, path)
        else:
            yield path, value
