"""Options and plugins of every test run; fixtures live in ``tests/fixtures``."""

from __future__ import annotations

import os
import signal
from collections import defaultdict

import pytest
from hypothesis import settings

# How long an example takes says nothing on a machine that runs a broker and a database beside it.
# Continuous integration tries the same examples each time: what a search finds by luck is found by
# whoever runs the tests, and has nothing to do with the change that is looked at.
settings.register_profile("windrow", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("windrow")

# A run in the background of a shell ignores SIGINT, and hands that on to every process it starts;
# those that tests interrupt must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = [
    "pytester",
    "tests.fixtures.services",
    "tests.fixtures.databases",
    "tests.fixtures.streams",
    "tests.fixtures.relaying",
    "tests.fixtures.second_try",
    "windrow.testing.faults",
]

LONGEST_FIRST = ("faults", "docs", "e2e", "spark", "interop")
"""Parts whose files take minutes: begun last, one of them would go on alone in the end."""

seconds_of_part: dict[str, float] = defaultdict(float)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("windrow")
    group.addoption(
        "--require-services",
        action="store_true",
        help="a service that cannot start is a failure, not a skip",
    )
    group.addoption("--soak", action="store_true", help="every fault point, many times over")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # of pytest-xdist
        items.sort(key=lambda item: _part_of(item.nodeid) not in LONGEST_FIRST)


def _part_of(test: str) -> str:
    return test.split("/")[1]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Book the time of a test, its fixtures included, to the directory it lives in."""
    seconds_of_part[_part_of(report.nodeid)] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    parts = ", ".join(f"{part} {seconds:.0f}s" for part, seconds in seconds_of_part.items())
    terminalreporter.write_line(f"time by part: {parts}")
