"""pytest plugin: ``@pytest.mark.proves("id")`` says which promise of the docs a test proves.

The ids are those of ``docs/promises.toml``. The results go to ``build/proofs.json``, from which
``scripts/proofs`` writes ``docs/proofs.md``. A run replaces the results of the tests it ran, so
that a narrow one does not wipe out those of a full one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import pytest

from windrow.testing.errors import UnknownPromise
from windrow.testing.proofs import Result, Results, load_promises, load_results, save_results
from windrow.testing.run_record import commit_of, today

_PROPERTY = "windrow.proves"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and begin to take notes."""
    config.addinivalue_line("markers", "proves(*ids): the promises of docs/promises.toml it proves")
    config.pluginmanager.register(ProofReport(config), "windrow-proof-report")


class ProofReport:
    """Notes how the proving tests ended. Reads test reports, which xdist carries home too."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._files_read: set[str] = set()
        self._claims: set[tuple[str, str]] = set()
        self._outcomes: dict[tuple[str, str], str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Read the marks, before any test is deselected.

        Raises:
            UsageError: A mark names a promise that is not listed.
        """
        for item in items:
            self._files_read.add(_file_of(item.nodeid))
            for promise in self._promises_of(item):
                self._claims.add((promise, item.nodeid))
                item.user_properties.append((_PROPERTY, promise))

    def _promises_of(self, item: pytest.Item) -> Iterable[str]:
        claimed = [promise for mark in item.iter_markers("proves") for promise in mark.args]
        for promise in claimed:
            if promise not in self._known:
                raise pytest.UsageError(str(UnknownPromise(promise, item.nodeid, self._known)))
        return claimed

    @cached_property
    def _known(self) -> tuple[str, ...]:
        return tuple(promise.id for promise in load_promises(self._config.rootpath))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how the call ended, or what went wrong before or after it."""
        for name, promise in report.user_properties:
            if name == _PROPERTY and (report.when == "call" or not report.passed):
                self._outcomes[str(promise), report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        """Merge what this run saw into the results of earlier ones."""
        if hasattr(self._config, "workerinput") or not self._outcomes:
            return
        root = self._config.rootpath
        results = self._without_vanished(load_results(root))
        date, commit = today(), commit_of(root)
        for (promise, test), outcome in self._outcomes.items():
            results.setdefault(promise, {})[test] = Result(outcome, date, commit)
        save_results(root, results)

    def _without_vanished(self, results: Results) -> Results:
        """Drop claims that are no longer made in a file which this run has read whole."""
        if any("::" in argument for argument in self._config.args):
            return results
        return {
            promise: {
                test: result
                for test, result in tests.items()
                if (promise, test) in self._claims or _file_of(test) not in self._files_read
            }
            for promise, tests in results.items()
        }


def _file_of(test: str) -> str:
    return test.partition("::")[0]
