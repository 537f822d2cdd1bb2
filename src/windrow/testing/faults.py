"""pytest plugin: the ``faults`` fixture, and one line per part at the end of the run.

::

    faults relay: injected 37, lost 0, misordered 0, doubled 4 (allowed 4)

The same goes to ``build/faults.json``. ``--fault-seed`` repeats the random moments of a run.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Iterator
from dataclasses import asdict
from random import Random

import pytest

from windrow.testing.fault_log import FaultLog, Totals
from windrow.testing.run_record import commit_of, today, write_json

pytest_plugins = ["windrow.testing.proving"]

_PROPERTY = "windrow.faults"
_PASSED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--fault-seed``."""
    parser.getgroup("windrow").addoption(
        "--fault-seed",
        type=int,
        default=None,
        help="repeat the random fault moments of the run that printed this seed",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed, where none is given, and begin the account."""
    # Set as an option so that the workers of pytest-xdist are given the same one.
    if config.option.fault_seed is None:
        config.option.fault_seed = secrets.randbelow(1_000_000)
    config.pluginmanager.register(FaultReport(config), "windrow-fault-report")


def pytest_report_header(config: pytest.Config) -> str:
    """Say the seed first: a run that never ends must be repeatable too."""
    return f"fault seed: {config.option.fault_seed}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether the test itself passed, for the fixture's own check afterwards."""
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Iterator[FaultLog]:
    """Inject faults and count what they did: ``faults.part("relay")``.

    A test that injects must also settle, or it fails. Its moments depend on the seed and its own
    name only, so that it strikes at the same ones when it is run alone.
    """
    seed = request.config.option.fault_seed
    log = FaultLog(Random(f"{seed} {request.node.nodeid}"))
    yield log
    notes = request.node.user_properties
    # A test that is tried twice reports twice: each try its own.
    notes[:] = [note for note in notes if note[0] != _PROPERTY]
    notes.append((_PROPERTY, json.dumps(log.totals())))
    if request.node.stash.get(_PASSED, False):
        log.check_settled()


class FaultReport:
    """Adds up the parts over the run. Reads test reports, which xdist carries home too."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._parts: dict[str, Totals] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what one test counted."""
        if report.when != "teardown":
            return
        for name, value in report.user_properties:
            if name == _PROPERTY:
                for part, totals in json.loads(str(value)).items():
                    self._parts[part] = self._parts.get(part, Totals()) + Totals(**totals)

    def pytest_sessionfinish(self) -> None:
        """Leave the account as JSON; a run without faults leaves the last one alone."""
        if not self._parts or hasattr(self._config, "workerinput"):
            return
        root = self._config.rootpath
        account = {
            "date": today(),
            "commit": commit_of(root),
            "seed": self._config.option.fault_seed,
            "parts": {part: asdict(totals) for part, totals in sorted(self._parts.items())},
        }
        write_json(root / "build" / "faults.json", account)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """One line per part, and how to repeat the run."""
        for part, totals in sorted(self._parts.items()):
            terminalreporter.write_line(f"faults {part}: {totals}")
        if self._parts:
            seed = self._config.option.fault_seed
            terminalreporter.write_line(f"faults seed: {seed}; repeat with --fault-seed {seed}")
