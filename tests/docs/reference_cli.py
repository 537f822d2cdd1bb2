"""The reference page of the command line, written from the commands themselves."""

from __future__ import annotations

import json
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


# Each in a fork of one process, which has loaded what all of them load.
PROGRAM = """
import json, os, sys
import rich.markdown, rich.panel, rich.table, typer.rich_utils
from windrow.cli.main import main
from windrow.cli.nouns import NOUNS, load_noun

for noun in NOUNS:
    load_noun(noun)

def print_help(words, output):
    os.dup2(output, 1)
    sys.argv = ["windrow", *words, "--help"]
    sys.exit(main())

helps = []
for words in json.load(sys.stdin):
    reading, writing = os.pipe()
    if os.fork() == 0:
        print_help(words, writing)
    os.close(writing)
    with open(reading) as said:
        helps.append(said.read())
    assert os.wait()[1] == 0, words
json.dump(helps, sys.stdout)
"""


def cli_page() -> str:
    """The page in Markdown: the help of every command, in the order of the help above it."""
    commands = list(_commands())
    return HEAD + "".join(map(_section, commands, _helps(commands)))


def _commands() -> Iterator[tuple[str, ...]]:
    yield ()
    for noun in NOUNS:
        yield (noun.name,)
        yield from _below(load_noun(noun), (noun.name,))


def _below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, subcommand in getattr(command, "commands", {}).items():
        yield (*words, name)
        yield from _below(subcommand, (*words, name))


def _section(words: tuple[str, ...], help_text: str) -> str:
    command = " ".join(("windrow", *words))
    return f"\n## {command}\n\n```text\n{help_text.strip()}\n```\n"


def _helps(commands: list[tuple[str, ...]]) -> list[str]:
    """As a reader would see them in a terminal of 80 columns without colours."""
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"},
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    helps: list[str] = json.loads(finished.stdout)
    return helps
