"""Pages that stand alone: tables, plots and verdicts as HTML, made from plain data."""

from windrow.report.cells import Verdict
from windrow.report.page import Block, Page, Section, Text
from windrow.report.plots import Bar, BarPlot, LinePlot, Mark, Series
from windrow.report.tables import Column, Table

__all__ = [
    "Bar",
    "BarPlot",
    "Block",
    "Column",
    "LinePlot",
    "Mark",
    "Page",
    "Section",
    "Series",
    "Table",
    "Text",
    "Verdict",
]
