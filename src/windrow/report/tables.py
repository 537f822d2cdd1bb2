"""How does a table look: numbers to the right, a heading for each row and column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from windrow.report.cells import Cell, Verdict, number_element


@dataclass(frozen=True, slots=True)
class Column:
    """What stands in one column.

    Attributes:
        name: Its heading; cells carry it as ``data-column``.
        unit: Written behind its numbers.
        digits: Decimals of its numbers.
    """

    name: str
    unit: str = ""
    digits: int = 3


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; the first cell of a row is the row's own heading.

    Attributes:
        caption: What it tells.
        columns: Headings, or more about a column.
        rows: Cells, as many as there are columns; a row is known by its first one.
        id: Of the element, for links.
    """

    caption: str
    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Cell]]
    id: str = ""

    def to_html(self) -> str:
        """The table, in a region that scrolls by itself on a narrow screen."""
        columns = [c if isinstance(c, Column) else Column(c) for c in self.columns]
        head = "".join(
            f'<th scope="col"{_side(self.rows, index)}>{escape(column.name)}</th>'
            for index, column in enumerate(columns)
        )
        body = "\n".join(_row(columns, row) for row in self.rows)
        id_ = f' id="{escape(self.id)}"' if self.id else ""
        return (
            f'<div class="scrolls" tabindex="0" role="region" aria-label="{escape(self.caption)}">'
            f"<table{id_}>\n<caption>{escape(self.caption)}</caption>\n"
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
        )


def _side(rows: Sequence[Sequence[Cell]], index: int) -> str:
    """A heading stands where the numbers below it stand."""
    cells = [row[index] for row in rows if index < len(row)]
    is_number = any(isinstance(each, int | float) and not isinstance(each, bool) for each in cells)
    return ' class="number"' if index and is_number else ""


def _row(columns: Sequence[Column], row: Sequence[Cell]) -> str:
    if len(row) != len(columns):
        raise ValueError(f"{len(row)} cells do not fit into {len(columns)} columns: {row!r}")
    name = _name(row[0])
    heading = f'<th scope="row">{escape(name)}</th>'
    cells = (_cell(column, cell, name) for column, cell in zip(columns[1:], row[1:], strict=True))
    return f'<tr data-row="{escape(name)}">{heading}{"".join(cells)}</tr>'


def _name(cell: Cell) -> str:
    return cell.words if isinstance(cell, Verdict) else str(cell)


def _cell(column: Column, cell: Cell, row: str) -> str:
    if isinstance(cell, Verdict):
        return f'<td data-column="{escape(column.name)}">{cell.to_html()}</td>'
    if isinstance(cell, bool):
        return f'<td data-column="{escape(column.name)}">{"yes" if cell else "no"}</td>'
    if isinstance(cell, str):
        return f'<td data-column="{escape(column.name)}">{escape(cell)}</td>'
    return number_element("td", cell, column.digits, column.unit, column=column.name, row=row)
