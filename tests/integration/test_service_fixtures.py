"""What the fixtures do when a service is missing, or a process is left behind."""

from __future__ import annotations

import os
import signal

import pytest

from tests.fixtures.processes import eventually, is_gone
from windrow.embedded.groups import find_process

LEAVES_A_PROCESS = """
import pathlib, subprocess
from tests.fixtures import leaks

leaks.PATIENCE = 0.2

def test_leaving_a_process():
    script = {script!r}
    subprocess.run(["sh", "-c", script], check=True)
    assert pathlib.Path("pid").exists()
"""

NEEDS_A_SERVICE = """
import pytest
from tests.fixtures.services import start_service
from windrow.errors import NotInstalled

@pytest.fixture
def service(pytestconfig):
    def start():
        raise NotInstalled("etcd", "etcd-server")
    return start_service(pytestconfig, "etcd", start)

def test_with_it(service):
    pass
"""

OPTION = """
def pytest_addoption(parser):
    parser.addoption("--require-services", action="store_true")
"""


@pytest.fixture(autouse=True)
def from_anywhere(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our fixtures can be imported by a run in another directory."""
    monkeypatch.setenv("PYTHONPATH", str(pytestconfig.rootpath))


@pytest.mark.parametrize(
    "script",
    ["sleep 1000 >/dev/null & echo $! > pid", "setsid sleep 1000 >/dev/null & echo $! > pid"],
    ids=["in our group", "in a session of its own"],
)
def test_run_that_leaves_a_process_behind_fails_and_names_it(
    pytester: pytest.Pytester, script: str
) -> None:
    """Its parent is gone by then: it is known by its mark."""
    pytester.makepyfile(LEAVES_A_PROCESS.format(script=script))
    result = pytester.runpytest_subprocess("-p", "tests.fixtures.leaks")
    left = find_process(int((pytester.path / "pid").read_text()))
    assert left is not None
    os.kill(left.pid, signal.SIGKILL)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*left processes behind:*", f"*pid {left.pid}, *: sleep 1000*"])
    assert eventually(lambda: is_gone(left))


def test_run_that_ends_what_it_started_passes(pytester: pytest.Pytester) -> None:
    script = "sleep 1000 & echo $! > pid; kill $!"
    pytester.makepyfile(LEAVES_A_PROCESS.format(script=script))
    result = pytester.runpytest_subprocess("-p", "tests.fixtures.leaks")
    result.assert_outcomes(passed=1)


def test_missing_service_is_a_skip_with_its_reason(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(OPTION)
    pytester.makepyfile(NEEDS_A_SERVICE)
    result = pytester.runpytest_subprocess("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*apt-get install etcd-server*"])


def test_missing_service_is_a_failure_where_services_are_required(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(OPTION)
    pytester.makepyfile(NEEDS_A_SERVICE)
    result = pytester.runpytest_subprocess("--require-services")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*apt-get install etcd-server*"])
