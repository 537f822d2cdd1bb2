"""``windrow config``: what is in force, where it came from, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from windrow.cli.loading import load_config
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line, print_rows

app = typer.Typer(help="Show or check the configuration.", add_completion=False)


@app.command()
def show(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Print every key with its value and where that was set; secrets are hidden."""
    resolved = load_config(ctx, config_file, settings)
    values = dict(_flat(resolved.config.model_dump(mode="json")))
    rows = [
        {"key": key, "value": values[key], "source": origin}
        for key, origin in resolved.origin_of.items()
    ]
    print_rows(rows, as_json=as_json)


@app.command()
def check(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Find every mistake in the configuration; exit 2 if there is one."""
    resolved = load_config(ctx, config_file, settings)
    sources = sorted(set(resolved.origin_of.values()))
    if as_json:
        print_json({"ok": True, "sources": sources})
    else:
        print_line(f"configuration ok ({', '.join(sources)})")


def _flat(section: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value
