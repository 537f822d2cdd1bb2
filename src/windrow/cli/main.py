"""The entry point: options of ``windrow`` itself, and the one place where errors end."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from windrow.cli.failures import INTERRUPTED, PROGRAM, tell
from windrow.cli.nouns import NounGroup
from windrow.cli.options import ConfigFile, LogLevel, RootOptions, Settings
from windrow.version import __version__

app = typer.Typer(
    name=PROGRAM,
    cls=NounGroup,
    help="Events written with the data reach their last consumer: not lost, not doubled.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # see nouns.load_noun
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{PROGRAM} {__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    log_level: LogLevel = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Keep what stands before the noun for the command that follows it."""
    ctx.obj = RootOptions(config_file, log_level, tuple(settings or ()))
    if ctx.invoked_subcommand is None:
        print(ctx.get_help(), file=sys.stderr)
        raise typer.Exit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0 ok, 1 problems found, 2 wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = typer.main.get_command(app)
    try:
        code = command.main(arguments, prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return _end_quietly()
    except Exception as error:
        return tell(error, as_json="--json" in arguments)
    return code if isinstance(code, int) else 0


def _end_quietly() -> int:
    """Whoever read our output has left: there is nobody to tell, not even at the exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
