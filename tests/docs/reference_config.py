"""The reference page of the configuration, written from its model."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from windrow.config import Config, Secret, Section
from windrow.config.layers import dotted, variable
from windrow.types import Duration

HEAD = """\
# Configuration

Every key, with its default.
Which of several sources wins is said in [Configure](../how-to/configure.md).
`windrow config show` prints the effective value of each key and where it came from.

<!-- Written by `python -m tests.docs.reference`. -->
"""

TABLE = """\
| Key | Variable | Form | Default | Meaning |
| --- | --- | --- | --- | --- |
"""
FORMS = {
    dict: "table",
    list: "list",
    Secret: 'text, `{env = "NAME"}` or `{file = "PATH"}`',
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
}


def config_page() -> str:
    """The page in Markdown, one table per section, in the order of the model."""
    return HEAD + "".join(_sections(Config(), ()))


def _sections(section: Section, path: tuple[str, ...]) -> Iterator[str]:
    values = {key: getattr(section, key) for key in type(section).model_fields}
    rows = "".join(
        _row((*path, key), info, section, meaning)
        for key, info, meaning in _keys(type(section))
        if not isinstance(values[key], Section)
    )
    if rows:
        meaning = _markdown(inspect.getdoc(section) or "")
        yield f"\n## {dotted(path)}\n\n{meaning}\n\n{TABLE}{rows}"
    for key, value in values.items():
        if isinstance(value, Section):
            yield from _sections(value, (*path, key))


def _row(path: tuple[str, ...], info: FieldInfo, section: Section, meaning: str) -> str:
    cells = (
        f"`{dotted(path)}`",
        f"`{variable(path)}`",
        _form(info),
        _shown(section.model_dump(mode="json")[path[-1]]),
        _markdown(meaning),
    )
    return f"| {' | '.join(cells)} |\n"


def _shown(default: object) -> str:
    if default in (None, "", {}, []):
        return "–"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _keys(section: type[Section]) -> Iterator[tuple[str, FieldInfo, str]]:
    """Each key with the string below it, which Python itself does not keep."""
    [tree] = ast.parse(inspect.getsource(section)).body
    assert isinstance(tree, ast.ClassDef)
    meanings = {
        key.target.id: ast.literal_eval(below.value)
        for key, below in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(key, ast.AnnAssign)
        and isinstance(key.target, ast.Name)
        and isinstance(below, ast.Expr)
    }
    for key, info in section.model_fields.items():
        yield key, info, meanings.get(key, "")


def _form(info: FieldInfo) -> str:
    if any(item in info.metadata for item in get_args(Duration)[1:]):
        return "duration"
    if get_origin(info.annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(info.annotation))
    kinds = {get_origin(info.annotation) or info.annotation, *get_args(info.annotation)}
    for kind, form in FORMS.items():
        if kind in kinds:
            return form
    return "text"


def _markdown(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")
