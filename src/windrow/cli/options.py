"""The options that many commands share, with one spelling and one help text each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Read this file, TOML or YAML, instead of $WINDROW_CONFIG or ./windrow.toml.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key, as database.table=outbox."),
]
LogLevel = Annotated[
    str | None,
    typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class RootOptions:
    """What stood between ``windrow`` and the noun."""

    config_file: Path | None = None
    log_level: str | None = None
    settings: tuple[str, ...] = ()
