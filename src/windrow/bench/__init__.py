"""Measures, in one form for every part."""

from windrow.bench.errors import TooSlow, UnknownPart
from windrow.bench.hardware import Hardware
from windrow.bench.interleave import Interleaved, interleave
from windrow.bench.measurement import Figure, Goal, Measurement, at_least, at_most
from windrow.bench.page import performance_page
from windrow.bench.parts import PARTS, Progress, run_part

__all__ = [
    "PARTS",
    "Figure",
    "Goal",
    "Hardware",
    "Interleaved",
    "Measurement",
    "Progress",
    "TooSlow",
    "UnknownPart",
    "at_least",
    "at_most",
    "interleave",
    "performance_page",
    "run_part",
]
