"""From goharvest's file to the configuration a command runs with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from windrow.cli.loading import load_config
from windrow.config import Config, Setting, file_layer
from windrow.errors import UnreadableConfig
from windrow.relay.reaper_config import Translation, translate
from windrow.relay.reaper_file import parse_reaper, validate

ReaperOption = Annotated[
    Path | None,
    typer.Option(
        "-f", "--file", "-file", metavar="FILE", help="Read goharvest's reaper.yaml, unchanged."
    ),
]


def load_with_reaper(
    ctx: typer.Context,
    reaper_file: Path | None,
    config_file: Path | None = None,
    settings: Sequence[str] | None = None,
    flags: Sequence[Setting] = (),
) -> tuple[Config, Translation | None]:
    """The configuration, by goharvest's file if one is given; flags and variables go over it.

    Raises:
        ConfigError: Something in it is wrong.
    """
    if reaper_file is None:
        return load_config(ctx, config_file, settings, flags).config, None
    if config_file is not None:
        raise typer.BadParameter("stands in place of --config: give one of them", param_hint="-f")
    translation = read_reaper(reaper_file)
    layer = file_layer(str(reaper_file), translation.content)
    return load_config(ctx, None, settings, flags, base=layer).config, translation


def read_reaper(path: Path) -> Translation:
    """Read, validate and translate the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableConfig(str(path), error.strerror or type(error).__name__) from None
    except UnicodeDecodeError as error:
        raise UnreadableConfig(str(path), f"byte {error.start} is not UTF-8 text") from None
    file = parse_reaper(text, str(path))
    validate(file)
    return translate(file)
