"""How do sections become one page that needs nothing beside itself?

The page runs no script and asks for nothing: it forbids itself both. It carries the data it was
made from, as JSON in the element ``report``, so that what it shows can be held against them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

from windrow.report.cells import Verdict
from windrow.report.style import STYLE


class Block(Protocol):
    """What stands in a section: a table, a plot, a text."""

    def to_html(self) -> str:
        """It as HTML, everything in it escaped."""


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph of plain text."""

    text: str

    def to_html(self) -> str:
        """The paragraph."""
        return f"<p>{escape(self.text)}</p>"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, a verdict if there is one, and what stands below."""

    heading: str
    blocks: Sequence[Block] = ()
    verdict: Verdict | None = None
    id: str = ""

    def to_html(self) -> str:
        """The section."""
        id_ = f' id="{escape(self.id)}"' if self.id else ""
        verdict = "" if self.verdict is None else " " + self.verdict.to_html()
        blocks = "\n".join(block.to_html() for block in self.blocks)
        return f"<section{id_}>\n<h2>{escape(self.heading)}{verdict}</h2>\n{blocks}\n</section>"


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page.

    Attributes:
        title: Its heading, and the name of its window.
        sections: What it tells, from top to bottom.
        data: What it was made from: anything JSON can hold.
        lead: A sentence below the title.
        verdict: Of all sections together, beside the title.
    """

    title: str
    sections: Sequence[Section]
    data: Any = None
    lead: str = ""
    verdict: Verdict | None = None

    def to_html(self) -> str:
        """The page.

        Raises:
            ValueError: The data hold what JSON has no word for, such as NaN.
        """
        verdict = "" if self.verdict is None else " " + self.verdict.to_html()
        lead = f"<p>{escape(self.lead)}</p>" if self.lead else ""
        sections = "\n".join(section.to_html() for section in self.sections)
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'unsafe-inline'">
<title>{escape(self.title)}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
<h1>{escape(self.title)}{verdict}</h1>
{lead}
{sections}
</main>
<script type="application/json" id="report">{embedded_json(self.data)}</script>
</body>
</html>
"""


def embedded_json(data: Any) -> str:
    """JSON that cannot end the element it stands in, whatever strings it holds."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
