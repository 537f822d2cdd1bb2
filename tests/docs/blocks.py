"""Which fenced code blocks does a Markdown page hold, and what is to be done with each?

Pure: takes text, returns blocks. `runner.py` performs what is decided here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*?)[ \t]*$")
_NO_RUN = re.compile(r"(?:^|[ \t])no-run\b(?P<reason>.*)$")
_PROMPT = "$ "


class Action(Enum):
    """What is done with a block."""

    RUN_PYTHON = "run with python"
    RUN_BASH = "run with bash"
    RUN_CONSOLE = "run what follows a prompt and compare what it prints"
    PARSE_TOML = "parse as TOML"
    PARSE_YAML = "parse as YAML"
    PARSE_JSON = "parse as JSON"
    SHOW = "nothing: it is a picture or a sample of output"


ACTION_OF = {
    "python": Action.RUN_PYTHON,
    "bash": Action.RUN_BASH,
    "shell": Action.RUN_BASH,
    "console": Action.RUN_CONSOLE,
    "toml": Action.PARSE_TOML,
    "yaml": Action.PARSE_YAML,
    "json": Action.PARSE_JSON,
    "text": Action.SHOW,
}


class BlockError(ValueError):
    """A fence that nobody can tell what to do with."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True)
class Block:
    """One fenced block; ``line`` is that of its opening fence."""

    page: str
    line: int
    language: str
    code: str
    no_run: str | None = None

    @property
    def place(self) -> str:
        """Where it stands, in a form editors can open."""
        return f"{self.page}:{self.line}"

    @property
    def action(self) -> Action:
        """What its language asks for, whether or not it is excepted."""
        return ACTION_OF[self.language]


@dataclass(frozen=True)
class Step:
    """One command of a console block and what it is said to print."""

    command: str
    output: str


def extract(page: str, text: str) -> list[Block]:
    """The fenced blocks of a page, in order.

    Raises:
        BlockError: A fence has no language or an unknown one, excepts itself without a reason,
            or is never closed.
    """
    blocks: list[Block] = []
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        opening = _FENCE.match(line)
        if opening is None:
            continue
        place = f"{page}:{number}"
        language, no_run = _read_info(opening["info"], place)
        code: list[str] = []
        for _, inside in lines:
            if _closes(inside, opening["fence"]):
                break
            code.append(_without_indent(inside, opening["indent"]))
        else:
            raise BlockError(place, f"the fence {opening['fence']} is never closed")
        blocks.append(Block(page, number, language, "".join(f"{c}\n" for c in code), no_run))
    return blocks


def console_steps(block: Block) -> list[Step]:
    """The commands of a console block, each with the output printed below it.

    Raises:
        BlockError: It does not begin with a prompt.
    """
    steps: list[Step] = []
    for line in block.code.splitlines():
        if line.startswith(_PROMPT):
            steps.append(Step(line.removeprefix(_PROMPT), ""))
        elif steps:
            last = steps[-1]
            steps[-1] = Step(last.command, f"{last.output}{line}\n")
        else:
            raise BlockError(block.place, f"a console block begins with {_PROMPT!r}, not {line!r}")
    return steps


def _read_info(info: str, place: str) -> tuple[str, str | None]:
    excepted = _NO_RUN.search(info)
    language = (info[: excepted.start()] if excepted else info).split(" ")[0]
    if language not in ACTION_OF:
        known = ", ".join(ACTION_OF)
        found = f"unknown language {language!r}" if language else "no language"
        raise BlockError(place, f"{found}; write one of {known}")
    if excepted is None:
        return language, None
    reason = excepted["reason"].removeprefix(":").strip()
    if not reason or not excepted["reason"].startswith(":"):
        raise BlockError(place, "an exception needs a reason; write no-run: and the reason")
    return language, reason


def _closes(line: str, fence: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(fence) and set(stripped) == {fence[0]}


def _without_indent(line: str, indent: str) -> str:
    """The line as the fence's own indentation leaves it, as Markdown would."""
    return line[len(indent) :] if line.startswith(indent) else line.lstrip()
