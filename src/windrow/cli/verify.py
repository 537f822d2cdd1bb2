"""``windrow verify``: what was written against what arrived."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from windrow.cli.loading import load_config
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line, print_rows
from windrow.config import Dsn
from windrow.verify.compare import MEMORY, Progress, compare
from windrow.verify.comparison import TROUBLES, Comparison
from windrow.verify.grammar import parse_source
from windrow.verify.opening import open_source

app = typer.Typer(help="Compare what was written with what arrived.", add_completion=False)

_MIB = 1024 * 1024

EnvOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The variable that holds its DSN.", show_default=False),
]
FileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The file that holds its DSN.", show_default=False),
]


@app.command()
def verify(
    ctx: typer.Context,
    written: Annotated[
        str, typer.Option("--written", metavar="SOURCE", help="What was written, in its order.")
    ],
    arrived: Annotated[
        str, typer.Option("--arrived", metavar="SOURCE", help="What arrived, in its order.")
    ],
    config_file: ConfigFile = None,
    settings: Settings = None,
    written_dsn_env: EnvOption = None,
    written_dsn_file: FileOption = None,
    arrived_dsn_env: EnvOption = None,
    arrived_dsn_file: FileOption = None,
    order: Annotated[
        bool, typer.Option("--order/--no-order", help="Whether the order of a key counts.")
    ] = True,
    allow_repeats: Annotated[
        bool, typer.Option("--allow-repeats", help="Count what is doubled, and forgive it.")
    ] = False,
    memory: Annotated[
        int, typer.Option("--memory", metavar="MIB", min=8, help="Records held, in MiB.")
    ] = MEMORY // _MIB,
    as_json: AsJson = False,
) -> None:
    """Name what is missing, doubled, out of order or unexpected; exit 1 if anything is.

    A SOURCE is sql:QUERY, table:NAME, ledger:FILE, jsonl:FILE, kafka:TOPIC, journal:NAME or
    receiver:URL, with options as ?key=…&id=…; a query gives the key and the id, or the id alone.
    """
    wanted = parse_source(written), parse_source(arrived)
    written_dsn = _dsn("--written-dsn", written_dsn_env, written_dsn_file)
    arrived_dsn = _dsn("--arrived-dsn", arrived_dsn_env, arrived_dsn_file)
    config = load_config(ctx, config_file, settings).config
    sources = (
        open_source(wanted[0], config, written_dsn),
        open_source(wanted[1], config, arrived_dsn),
    )
    with _shown() as progress:
        found = compare(
            *sources,
            ordered=order,
            allow_repeats=allow_repeats,
            memory=memory * _MIB,
            progress=progress,
        )
    if as_json:
        print_json(found.to_json())
    else:
        _print(found, order)
    if not found.is_clean:
        raise typer.Exit(1)


def _dsn(option: str, variable: str | None, file: Path | None) -> Dsn | None:
    """The DSN that is not on the command line, for its password."""
    if variable is not None and file is not None:
        raise typer.BadParameter(f"give {option}-env or {option}-file", param_hint=option)
    if variable is not None:
        value = os.environ.get(variable)
        if not value:
            raise typer.BadParameter(f"{variable} is not set", param_hint=f"{option}-env")
        return _parsed(value, f"{option}-env")
    if file is None:
        return None
    try:
        return _parsed(file.read_text(encoding="utf-8"), f"{option}-file")
    except OSError as error:
        hint = f"{option}-file"
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint=hint) from error


def _parsed(value: str, option: str) -> Dsn:
    try:
        return Dsn(value)
    except ValueError as error:
        reason = str(error)
    raise typer.BadParameter(reason, param_hint=option)


@contextmanager
def _shown() -> Iterator[Progress | None]:
    """A line for each side while it is read, on standard error and only to a person."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn())
    with ProgressBar(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        tasks = {side: bar.add_task(side, total=None) for side in ("written", "arrived")}
        yield lambda side, records: bar.advance(tasks[side], records)


def _print(found: Comparison, order: bool) -> None:
    troubles = TROUBLES if order else tuple(name for name in TROUBLES if name != "misordered")
    print_rows([_row(found, name) for name in ("written", "arrived", *troubles)], as_json=False)
    forgiven = f", {found.forgiven:,} repeats forgiven" if found.forgiven else ""
    verdict = "clean" if found.is_clean else "BROKEN"
    print_line()
    print_line(f"verdict: {verdict}{forgiven} (in {found.seconds:.1f} s)")


def _row(found: Comparison, name: str) -> dict[str, object]:
    examples = found.examples.get(name, ())
    more = ", …" if found.count(name) > len(examples) > 0 else ""
    return {
        "": name,
        "records": f"{found.count(name):,}",
        "examples": ", ".join(map(str, examples)) + more,
    }
