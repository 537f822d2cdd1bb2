"""Which graph is meant, and where does it run? What the verbs of ``windrow graph`` share."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from windrow.cli.loading import load_config
from windrow.config import Config, Setting
from windrow.errors import UsageError, WindrowError
from windrow.graph.declaration import Graph
from windrow.graph.file import load_graph

DOCUMENTS = (".toml", ".yaml", ".yml")

GraphArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="A file, TOML or YAML, or Python: shop.py, shop.py:graph or a.module:graph.",
    ),
]
CheckpointOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="PATH",
        help="Where progress is kept, a directory or a URL of Spark's.",
        show_default=False,
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[2], spark://host:7077 …",
        show_default=False,
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="A setting of Spark; again for more.",
        show_default=False,
    ),
]


class UnknownGraph(UsageError):
    """A graph was named that is not there."""

    def __init__(self, reference: str, reason: str) -> None:
        super().__init__(reference, reason)
        self.reference, self.reason = reference, reason

    def __str__(self) -> str:
        return f"cannot find the graph {self.reference!r}: {self.reason}"


def find_graph(reference: str) -> Graph:
    """The graph of a file, of a module, or of the name in it.

    What it names is looked for beside the file and in the working directory, as Python itself does
    for a program that is started there.

    Raises:
        UnknownGraph: There is none.
        InvalidGraph: It cannot run.
        ConfigError: The file holds an unknown key or an invalid value.
    """
    place, separator, name = reference.partition(":")
    if separator and not name:
        raise UnknownGraph(reference, 'write it as "module:name"')
    path = Path(place)
    is_file = path.suffix in (*DOCUMENTS, ".py")
    if is_file and not path.is_file():
        raise UnknownGraph(reference, f"there is no file {place}")
    _make_importable(Path.cwd(), *([path.resolve().parent] if is_file else []))
    if path.suffix in DOCUMENTS:
        return load_graph(path)
    module = _loaded(path.stem if is_file else place, reference)
    return _graph_in(module, name, reference)


def files_of_graph(reference: str) -> list[str]:
    """The modules that workers need to know a graph, if it is one of a Python file."""
    path = Path(reference.partition(":")[0])
    return [str(path)] if path.suffix == ".py" else []


def graph_flags(
    *,
    master: str | None = None,
    conf: Sequence[str] | None = None,
    checkpoint: str | None = None,
    py_files: Sequence[str] | None = None,
    archives: Sequence[str] | None = None,
    max_rows: int | None = None,
) -> list[Setting]:
    """What the flags of a verb set.

    Raises:
        BadParameter: A setting of Spark is not written as such.
    """
    given: dict[str, object] = {
        "master": master,
        "checkpoint": checkpoint,
        "py_files": _listed(py_files),
        "archives": _listed(archives),
        "max_rows": max_rows,
    }
    flags = [
        Setting(("graph", key), value, f"--{key.replace('_', '-')}")
        for key, value in given.items()
        if value is not None
    ]
    for text in conf or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            # What was written is not repeated: it may be a secret without its key.
            raise typer.BadParameter("write it as KEY=VALUE", param_hint="--conf")
        flags.append(Setting(("graph", "conf", key.strip()), value, f"--conf {key.strip()}"))
    return flags


def graph_config(
    ctx: typer.Context,
    config_file: Path | None,
    settings: Sequence[str] | None,
    flags: Sequence[Setting] = (),
) -> Config:
    """The configuration of a verb."""
    return load_config(ctx, config_file, settings, flags).config


def _listed(values: Sequence[str] | None) -> list[str] | None:
    if not values:
        return None
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _make_importable(*folders: Path) -> None:
    """For this process, and for the workers of Spark on this machine."""
    for folder in map(str, folders):
        if folder not in sys.path:
            sys.path.insert(0, folder)
        known = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
        if folder not in known:
            os.environ["PYTHONPATH"] = os.pathsep.join([folder, *known])


def _loaded(name: str, reference: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise UnknownGraph(reference, f"it needs a module {error.name!r}") from error
        raise UnknownGraph(reference, f"there is no file and no module {name!r}") from error
    except WindrowError:
        raise
    except Exception as error:  # whatever the module does when it is imported
        told = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UnknownGraph(reference, f"it cannot be imported: {told}") from error


def _graph_in(module: ModuleType, name: str, reference: str) -> Graph:
    graphs = {key: value for key, value in vars(module).items() if isinstance(value, Graph)}
    if name:
        if name not in graphs:
            raise UnknownGraph(reference, f"it has {_names(list(graphs))}")
        return graphs[name]
    if len(graphs) != 1:
        raise UnknownGraph(reference, f"it has {_names(list(graphs))}; name one")
    return next(iter(graphs.values()))


def _names(names: list[str]) -> str:
    if not names:
        return "no graph"
    return ("the graph " if len(names) == 1 else "the graphs ") + ", ".join(sorted(names))
