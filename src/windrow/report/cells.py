"""How is one value shown, so that a program can read back what a person sees?"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from html import escape
from typing import Literal

Grade = Literal["pass", "fail", "unknown"]

NOTHING = "–"
_SIGN_OF: dict[Grade, str] = {"pass": "✓", "fail": "✗", "unknown": "?"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A badge; the sign in it says the grade to whoever cannot tell the colours apart.

    Attributes:
        grade: How it went.
        text: What is written in it; by default the grade.
    """

    grade: Grade
    text: str = ""

    @classmethod
    def of(cls, holds: bool, text: str = "") -> Verdict:
        """Passed or failed."""
        return cls("pass" if holds else "fail", text)

    @property
    def words(self) -> str:
        """What is written beside the sign."""
        return self.text or self.grade

    def to_html(self) -> str:
        """The badge as an element that stands in a line of text."""
        return (
            f'<span class="verdict {self.grade}" data-verdict="{self.grade}">'
            f'<span aria-hidden="true">{_SIGN_OF[self.grade]}</span> {escape(self.words)}</span>'
        )


Cell = str | int | float | bool | None | Verdict
"""What may stand in a table; None is something that was not measured."""


def shown(value: int | float, digits: int = 3) -> str:
    """A number as people read it: thousands apart, no more than so many decimals."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return NOTHING
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def exact(value: int | float | None) -> str:
    """The same number as a program reads it: as JSON writes it."""
    if value is None or not math.isfinite(value):
        return "null"
    return json.dumps(value)


def number_element(
    tag: str, value: int | float | None, digits: int = 3, unit: str = "", **data: str
) -> str:
    """A number in an element of its own: shown to people, exact in ``data-value``."""
    attributes = "".join(f' data-{name}="{escape(text)}"' for name, text in data.items())
    text = NOTHING if value is None else shown(value, digits)
    behind = f" {unit}" if unit and text != NOTHING else ""
    return (
        f'<{tag} class="number" data-value="{exact(value)}"{attributes}>'
        f"{escape(text + behind)}</{tag}>"
    )
