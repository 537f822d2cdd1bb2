"""The reference page of the command line, written from the commands themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from windrow.cli.nouns import NOUNS, load_noun

HEAD = """\
# Command line

Every command ends with one of these:

| Exit code | Meaning |
| --- | --- |
| 0 | all is well |
| 1 | it ran, and found a problem or failed |
| 2 | it was asked for something that cannot be; standard error says what to correct |
| 130 | it was interrupted |

What a program would read goes to standard output, what a person needs to know to standard error.
`--json` makes both machine-readable; a mistake is then one JSON object with an `error`.
A user's mistake is one line and never a traceback; `WINDROW_DEBUG=1` adds the traceback.
`windrow --install-completion` sets up completion for the shell it is run in.

<!-- Written by `python -m tests.docs.reference`. -->
"""


def cli_page() -> str:
    """The page in Markdown: the help of every command, in the order of the help above it."""
    return HEAD + "".join(_section(words) for words in _commands())


def _commands() -> Iterator[tuple[str, ...]]:
    yield ()
    for noun in NOUNS:
        yield (noun.name,)
        yield from _below(load_noun(noun), (noun.name,))


def _below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, subcommand in getattr(command, "commands", {}).items():
        yield (*words, name)
        yield from _below(subcommand, (*words, name))


def _section(words: tuple[str, ...]) -> str:
    command = " ".join(("windrow", *words))
    return f"\n## {command}\n\n```text\n{_help(words).strip()}\n```\n"


def _help(words: tuple[str, ...]) -> str:
    """As a reader would see it in a terminal of 80 columns without colours."""
    program = "import sys; from windrow.cli.main import main; sys.exit(main())"
    finished = subprocess.run(
        [sys.executable, "-c", program, *words, "--help"],
        env=os.environ | {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return finished.stdout
