"""From the options of a command to the configuration it runs with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import typer

from windrow.cli.options import RootOptions
from windrow.config import Config, Layer, Resolved, Setting, load
from windrow.telemetry import logs


def load_config(
    ctx: typer.Context,
    config_file: Path | None = None,
    settings: Sequence[str] | None = None,
    flags: Sequence[Setting] = (),
    base: Layer | None = None,
) -> Resolved[Config]:
    """The effective configuration of this command, with logging set up by it.

    Args:
        ctx: The command's context; ``windrow``'s own options are found through it.
        config_file: The command's ``--config``.
        settings: The command's ``--set``.
        flags: What the command's own flags set, stronger than ``--set``.
        base: What to take in place of any configuration file.

    Raises:
        ConfigError: Something in it is wrong.
    """
    root = ctx.find_root().obj or RootOptions()
    level = [] if root.log_level is None else [_setting("log.level", root.log_level, "--log-level")]
    given = [*_parse(root.settings), *level, *_parse(settings or ()), *flags]
    resolved = load(config_file or root.config_file, given, base=base)
    logs.configure(resolved.config.log.level, resolved.config.log.format)
    return resolved


def _parse(settings: Iterable[str]) -> Iterable[Setting]:
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            # What was written is not repeated: it may be a secret without its key.
            raise typer.BadParameter("write it as KEY=VALUE", param_hint="--set")
        yield _setting(key.strip(), value, f"--set {key.strip()}")


def _setting(key: str, value: str, origin: str) -> Setting:
    return Setting(tuple(key.split(".")), value, origin)
