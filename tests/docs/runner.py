"""Run or parse one code block, and fail with the place it stands at."""

from __future__ import annotations

import doctest
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.docs.blocks import Action, Block, console_steps

BLOCK_TIMEOUT = 300.0
"""Ends a block that hangs; one that starts Spark takes its time on a busy machine."""
# As in doctest: ... stands for whatever differs from run to run, and columns may be wider.
_AS_SHOWN = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class BlockFailed(AssertionError):
    """A block of the documentation does not do what it says."""


def perform(block: Block, directory: Path) -> None:
    """Do what the block's language asks for, with ``directory`` as the working directory."""
    match block.action:
        case Action.RUN_PYTHON:
            _run(block, [sys.executable, "-c", block.code], directory)
        case Action.RUN_BASH:
            _run(block, ["bash", "-euo", "pipefail", "-c", block.code], directory)
        case Action.RUN_CONSOLE:
            _run_console(block, directory)
        case Action.PARSE_TOML | Action.PARSE_YAML | Action.PARSE_JSON:
            _parse(block)
        case Action.SHOW:
            pass


def _run_console(block: Block, directory: Path) -> None:
    for step in console_steps(block):
        printed = _run(block, ["bash", "-euo", "pipefail", "-c", step.command], directory)
        if not doctest.OutputChecker().check_output(step.output, printed, _AS_SHOWN):
            raise BlockFailed(
                f"{block.place}: `{step.command}` is said to print\n{step.output}"
                f"but prints\n{printed}"
            )


_PARSER_OF: dict[Action, Callable[[str], object]] = {
    Action.PARSE_TOML: tomllib.loads,
    Action.PARSE_YAML: yaml.safe_load,
    Action.PARSE_JSON: json.loads,
}


def _parse(block: Block) -> None:
    try:
        _PARSER_OF[block.action](block.code)
    except (ValueError, yaml.YAMLError) as error:
        raise BlockFailed(f"{block.place}: not {block.language}: {error}") from error


def _run(block: Block, command: list[str], directory: Path) -> str:
    """What it printed, both streams together; a group of its own, so that nothing outlives it."""
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=BLOCK_TIMEOUT)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = process.communicate()
        raise BlockFailed(
            f"{block.place}: not done within {BLOCK_TIMEOUT:.0f} s; so far\n{printed}"
        ) from error
    if process.returncode != 0:
        raise BlockFailed(f"{block.place}: exit {process.returncode}\n{printed}")
    return printed


def _environment() -> dict[str, str]:
    """What a reader would have: the package's commands, no colours, no settings of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WINDROW_")}
    commands = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return kept | {"PATH": commands, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
