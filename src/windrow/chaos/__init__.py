"""Faults under load, one scenario after the other, graded against the promise."""

from windrow.chaos.errors import UnknownScenario
from windrow.chaos.options import DATABASES, FULL_SECONDS, QUICK_SECONDS, Database, Options
from windrow.chaos.outcome import page_of, rows_of
from windrow.chaos.runner import run
from windrow.chaos.scenarios import SCENARIOS, Scenario, choose

__all__ = [
    "DATABASES",
    "FULL_SECONDS",
    "QUICK_SECONDS",
    "SCENARIOS",
    "Database",
    "Options",
    "Scenario",
    "UnknownScenario",
    "choose",
    "page_of",
    "rows_of",
    "run",
]
