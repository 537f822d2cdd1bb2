"""Path postfix templates: where below its journal a fragment is kept, such as one folder a day.

::

    date={{ .Spool.FirstAppendTime.Format "2006-01-02" }}/{{ .Spool.Begin }}

The language is the part of Go's templates that such paths need: fields and their methods, strings
and whole numbers, pipes, ``if``/``else``/``end``, ``eq``, ``ne``, ``printf`` with ``%s``, ``%d``
and ``%v``, trimming by ``{{-`` and ``-}}``, and comments. What a template can see:

- ``.Spool``: ``Journal``, ``Begin``, ``End``, ``FirstAppendTime``, ``Registers``;
- ``.JournalSpec``: ``Name``, ``Replication``, ``LabelSet``;
- of a label set ``ValueOf "name"``, of a time ``Format "layout"`` and ``Unix``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windrow.journal.errors import InvalidField
from windrow.journal.fragment import Fragment
from windrow.journal.fragments.errors import InvalidTemplate
from windrow.journal.fragments.go_time import format_time, moment_of
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.names import valid_path
from windrow.journal.spec import JournalSpec


@dataclass(frozen=True, slots=True)
class TemplateSpool:
    """What a template sees as ``.Spool``."""

    fragment: Fragment
    first_append_time: float = 0.0
    registers: LabelSet = EMPTY


def evaluate(template: str, spool: TemplateSpool, spec: JournalSpec) -> str:
    """The postfix of a fragment's path; empty if the template is.

    Raises:
        InvalidTemplate: It cannot be parsed, names what there is not, or gives no clean path.
    """
    if not template:
        return ""
    try:
        postfix = _Parser(template).parse().render(_data(spool, spec))
    except (_Fault, RecursionError) as fault:
        raise InvalidTemplate(template, str(fault)) from None
    if postfix:
        try:
            valid_path(postfix, 1, 512)
        except InvalidField as error:
            raise InvalidTemplate(template, f"gives {postfix!r}: {error}") from error
    return postfix


def check_template(template: str) -> None:
    """Evaluate it on zero values, as a spec is checked before any fragment exists.

    Raises:
        InvalidTemplate: It cannot be used. What it gives for zero values need not be a path,
            unless it gives the same for all.
    """
    nothing = TemplateSpool(Fragment("")), JournalSpec("")
    if "{{" not in template:
        evaluate(template, *nothing)
    try:
        _Parser(template).parse().render(_data(*nothing))
    except (_Fault, RecursionError) as fault:
        raise InvalidTemplate(template, str(fault)) from None


class _Fault(Exception):
    """What is wrong with the template; the caller adds which template it is."""


# -- what a template sees --------------------------------------------------------------------------


def _data(spool: TemplateSpool, spec: JournalSpec) -> dict[str, Any]:
    fragment = spool.fragment
    return {
        "Spool": {
            "Journal": fragment.journal,
            "Begin": fragment.begin,
            "End": fragment.end,
            "FirstAppendTime": moment_of(spool.first_append_time),
            "Registers": spool.registers,
        },
        "JournalSpec": {
            "Name": spec.name,
            "Replication": spec.replication,
            "LabelSet": spec.labels,
        },
    }


def _unix(moment: datetime) -> int:
    return int(moment.timestamp())


_METHODS: dict[tuple[type, str], tuple[int, Callable[..., Any]]] = {
    (datetime, "Format"): (1, format_time),
    (datetime, "Unix"): (0, _unix),
    (LabelSet, "ValueOf"): (1, lambda labels, name: labels.value(name) or ""),
}


def _printf(layout: str, *values: Any) -> str:
    verbs = re.findall(r"%[^sdv]*[sdv]", layout)
    if len(verbs) != len(values):
        raise _Fault(f"printf {layout!r} wants {len(verbs)} values and is given {len(values)}")
    try:
        return re.sub(r"(%[^sdv]*)v", r"\1s", layout) % values
    except (TypeError, ValueError) as error:
        raise _Fault(f"printf {layout!r}: {error}") from error


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "eq": lambda first, *others: first in others,
    "ne": lambda first, other: first != other,
    "printf": _printf,
}


# -- rendering -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Text:
    text: str

    def render(self, data: Any) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _Value:
    pipeline: Sequence[Sequence[str]]

    def render(self, data: Any) -> str:
        value = _run(self.pipeline, data)
        if not isinstance(value, str | int):
            raise _Fault(f"{_written(self.pipeline)} is no text or number; call a method of it")
        return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class _If:
    pipeline: Sequence[Sequence[str]]
    then: _Body
    otherwise: _Body

    def render(self, data: Any) -> str:
        then, otherwise = self.then.render(data), self.otherwise.render(data)
        return then if _run(self.pipeline, data) else otherwise


@dataclass(frozen=True, slots=True)
class _Body:
    nodes: Sequence[_Text | _Value | _If]

    def render(self, data: Any) -> str:
        return "".join(node.render(data) for node in self.nodes)


def _run(pipeline: Sequence[Sequence[str]], data: Any) -> Any:
    piped: list[Any] = []
    for command in pipeline:
        piped = [_call(command, piped, data)]
    return piped[0]


def _call(command: Sequence[str], piped: list[Any], data: Any) -> Any:
    head, arguments = command[0], [_operand(word, data) for word in command[1:]] + piped
    if head in _FUNCTIONS:
        try:
            return _FUNCTIONS[head](*arguments)
        except TypeError as error:
            raise _Fault(f"{head} cannot take {len(arguments)} values") from error
    if head.startswith((".", "$")):
        return _chain(head, arguments, data)
    if arguments:
        raise _Fault(f"{head} is not a function; known are {', '.join(_FUNCTIONS)}")
    return _operand(head, data)


def _operand(word: str, data: Any) -> Any:
    if word.startswith((".", "$")):
        return _chain(word, [], data)
    if word.startswith('"'):
        return json.loads(word)
    if word.startswith("`"):
        return word[1:-1]
    if re.fullmatch(r"-?[0-9]+", word):
        return int(word)
    raise _Fault(f"{word!r} is neither a field, a string nor a number")


def _chain(path: str, arguments: list[Any], data: Any) -> Any:
    """Follow fields, and let the last of them, if it is a method, have the arguments."""
    value, names = data, path.lstrip("$").removeprefix(".").split(".")
    for number, name in enumerate(names):
        given = arguments if number == len(names) - 1 else []
        value = _member(value, name, given, path)
    return value


def _member(value: Any, name: str, arguments: list[Any], path: str) -> Any:
    if isinstance(value, dict) and name in value:
        if arguments:
            raise _Fault(f"{path} is no method and takes no arguments")
        return value[name]
    method = next(
        (m for (kind, n), m in _METHODS.items() if n == name and isinstance(value, kind)), None
    )
    if method is None:
        raise _Fault(f"{path}: there is no {name!r}")
    wanted, function = method
    if len(arguments) != wanted or not all(isinstance(a, str) for a in arguments):
        raise _Fault(f"{path} takes {wanted} strings as arguments")
    return function(value, *arguments)


def _written(pipeline: Sequence[Sequence[str]]) -> str:
    return " | ".join(" ".join(command) for command in pipeline)


# -- parsing ---------------------------------------------------------------------------------------

_ACTION = re.compile(r"\{\{(-\s)?(.*?)(\s-)?\}\}", re.DOTALL)
_WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|`[^`]*`|\||[^\s|"`]+)')


class _Parser:
    def __init__(self, template: str) -> None:
        self._pieces = _split(template)

    def parse(self) -> _Body:
        body, ending = self._body()
        if ending is not None:
            raise _Fault(f"{ending!r} without an if")
        return body

    def _body(self) -> tuple[_Body, str | None]:
        """Nodes up to the end of the template (None), an ``else`` or an ``end``."""
        nodes: list[_Text | _Value | _If] = []
        while self._pieces:
            is_action, piece = self._pieces.pop(0)
            words = _words(piece) if is_action else []
            if not is_action:
                nodes.append(_Text(piece))
            elif words in (["else"], ["end"]):
                return _Body(nodes), words[0]
            elif words[0] == "if":
                nodes.append(self._if(_pipeline(words[1:])))
            else:
                nodes.append(_Value(_pipeline(words)))
        return _Body(nodes), None

    def _if(self, pipeline: Sequence[Sequence[str]]) -> _If:
        then, ending = self._body()
        otherwise = _Body([])
        if ending == "else":
            otherwise, ending = self._body()
        if ending != "end":
            raise _Fault("an if has no end")
        return _If(pipeline, then, otherwise)


def _split(template: str) -> list[tuple[bool, str]]:
    """Text and actions in turn, with the white space trimmed that a dash asks for."""
    pieces: list[tuple[bool, str]] = []
    at, trims = 0, False
    for found in _ACTION.finditer(template):
        text = template[at : found.start()]
        text = text.lstrip() if trims else text
        pieces.append((False, text.rstrip() if found.group(1) else text))
        inner = found.group(2).strip()
        if not (inner.startswith("/*") and inner.endswith("*/")):
            pieces.append((True, inner))
        at, trims = found.end(), bool(found.group(3))
    rest = template[at:].lstrip() if trims else template[at:]
    pieces.append((False, rest))
    for is_action, piece in pieces:
        if not is_action and ("{{" in piece or "}}" in piece):
            raise _Fault(f"an action is not closed, or closed without being opened, in {piece!r}")
    return pieces


def _words(action: str) -> list[str]:
    words, at = [], 0
    while at < len(action):
        found = _WORD.match(action, at)
        if found is None:
            raise _Fault(f"cannot read {action[at:]!r}")
        words.append(found.group(1))
        at = found.end()
    if not words:
        raise _Fault("an action is empty")
    return words


def _pipeline(words: list[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            commands.append([])
        else:
            commands[-1].append(word)
    if not all(commands):
        raise _Fault("a pipe has nothing on one side")
    return commands
