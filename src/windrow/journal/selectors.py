"""The text of a label selector, taken apart into terms and put together again.

A comma list of terms; single spaces may stand around operators and commas:

- ``a=b`` or ``a==b``, ``a!=b``
- ``a in (x,y)``, ``a notin (x,y)`` or ``a not in (x,y)``
- ``a`` (there is such a label), ``!a`` (there is none)

A name may carry ``:prefix``; its values then stand for everything they begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from windrow.journal.errors import InvalidField

# Alphabets are checked with the labels; here it is enough to know where a word ends.
_WORD = r"[^\s,()=!:]+"
_VALUE = r"[^\s,()!:]+"
_NAME = rf"(?P<name>{_WORD})(?P<prefix>:prefix)?"
_VALUES = rf"\( ?(?P<values>{_VALUE}(?: ?, ?{_VALUE})*) ?\)"
_END = r" ?(?:,|$)"

_FORMS = [
    (re.compile(rf" ?{_NAME} ?==? ?(?P<values>(?!=){_VALUE}){_END}"), False),
    (re.compile(rf" ?{_NAME} ?!= ?(?P<values>(?!=){_VALUE}){_END}"), True),
    (re.compile(rf" ?{_NAME} in ?{_VALUES}{_END}"), False),
    (re.compile(rf" ?{_NAME} not ?in ?{_VALUES}{_END}"), True),
    (re.compile(rf" ?{_NAME}(?P<values>){_END}"), False),
    (re.compile(rf" ?! ?{_NAME}(?P<values>){_END}"), True),
]


@dataclass(frozen=True, slots=True)
class Term:
    """One requirement on one label name; without values, on its presence."""

    name: str
    values: tuple[str, ...] = ()
    prefix: bool = False
    excluded: bool = False

    def __str__(self) -> str:
        name = self.name + (":prefix" if self.prefix else "")
        match self.excluded, self.values:
            case False, ():
                return name
            case True, ():
                return f"!{name}"
            # A value that begins with "=" would read as a part of the operator.
            case False, (value,) if not value.startswith("="):
                return f"{name}={value}"
            case True, (value,) if not value.startswith("="):
                return f"{name}!={value}"
        operator = "notin" if self.excluded else "in"
        return f"{name} {operator} ({','.join(self.values)})"


def parse_terms(text: str) -> tuple[Term, ...]:
    """The terms of a selector's text, in order.

    Raises:
        InvalidField: A part of it is none of the six forms; the message shows where.
    """
    return tuple(_terms(text))


def format_terms(terms: Iterable[Term]) -> str:
    """The text of ``terms``."""
    return ",".join(map(str, terms))


def _terms(text: str) -> Iterator[Term]:
    rest, another = text, bool(text.strip(" "))
    while another:
        term, end, another = _first_term(rest)
        yield term
        rest = rest[end:]


def _first_term(rest: str) -> tuple[Term, int, bool]:
    for form, excluded in _FORMS:
        if found := form.match(rest):
            values = tuple(re.split(r" ?, ?", found["values"])) if found["values"] else ()
            term = Term(found["name"], values, bool(found["prefix"]), excluded)
            return term, found.end(), found[0].endswith(",")
    raise InvalidField("Selector", f"expected a term such as a=b, a in (x,y) or !a ({rest!r})")
