"""That the counting counts: what is planted shows in the closing line, and fails the test."""

from __future__ import annotations

import pytest

SUITE = '''
import subprocess, sys
import pytest
from windrow.verify import LedgerFile

WRITER = """
import sys, time
from pathlib import Path
from windrow.verify import Ledger
with Ledger(Path(sys.argv[1])) as ledger:
    for n in range(int(sys.argv[2])):
        ledger.written([(f"key-{n % 3}", n)])
        time.sleep(0.001)
    print("idle", flush=True)
    time.sleep(60)
"""

@pytest.fixture
def part(faults):
    return faults.part("planted")

@pytest.fixture
def ledger(tmp_path):
    return LedgerFile(tmp_path / "ledger")

@pytest.fixture
def start(ledger):
    """Starts a writer of so many records."""
    started = []
    def start(count):
        command = [sys.executable, "-c", WRITER, ledger.path, str(count)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        return started[-1]
    yield start
    for writer in started:
        with writer:
            writer.kill()

def kill(part, writer, ledger):
    """Strikes when there is enough in the ledger to plant something in."""
    work = lambda: max(ledger.progress(), 500)
    part.inject("kill", writer, writer.kill, work=work, patience=3.0)

@pytest.fixture
def arrived(part, ledger, start):
    """What a faithful consumer has of a writer that was killed at work: all it wrote, in order."""
    kill(part, start(10**9), ledger)
    return [(key, number) for key, number, _ in ledger]
'''


def run(pytester: pytest.Pytester, test: str) -> tuple[dict[str, int], str]:
    """How a test of that body ends, and the closing line of its run."""
    pytester.makeconftest('pytest_plugins = ["windrow.testing.faults"]')
    pytester.makepyfile(f"{SUITE}\ndef test_it(part, ledger, start, request):\n    {test}\n")
    result = pytester.runpytest()
    (line,) = (line for line in result.outlines if line.startswith("faults planted"))
    return result.parseoutcomes(), line


@pytest.mark.proves("counting-honest")
@pytest.mark.parametrize(
    ("plant", "counted"),
    [
        ("arrived.pop(1)", "lost 1, misordered 0, doubled 0 (allowed 0)"),
        ("arrived.append(arrived[-1])", "lost 0, misordered 0, doubled 1 (allowed 0)"),
        ("arrived.append(arrived[0])", "lost 0, misordered 1, doubled 0 (allowed 0)"),
        ("arrived.append(arrived.pop(0))", "lost 0, misordered 1, doubled 0 (allowed 0)"),
        (
            "arrived.append(('key-0', -1))",
            "lost 0, misordered 0, doubled 0 (allowed 0), unexpected 1",
        ),
    ],
    ids=["loss", "duplicate", "repeat-of-an-older", "misorder", "stranger"],
)
def test_a_planted_fault_of_delivery_is_counted_and_fails_the_test(
    pytester: pytest.Pytester, plant: str, counted: str
) -> None:
    test = (
        f"arrived = request.getfixturevalue('arrived'); {plant}; part.settle(ledger.path, arrived)"
    )
    assert run(pytester, test) == ({"failed": 1}, f"faults planted: injected 1, {counted}")


@pytest.mark.proves("counting-honest")
def test_a_faithful_delivery_passes_the_same_count(pytester: pytest.Pytester) -> None:
    test = "part.settle(ledger.path, request.getfixturevalue('arrived'))"
    line = "faults planted: injected 1, lost 0, misordered 0, doubled 0 (allowed 0)"
    assert run(pytester, test) == ({"passed": 1}, line)


@pytest.mark.proves("counting-honest")
@pytest.mark.parametrize(
    "prepare",
    [
        "writer = start(10**9); writer.kill(); writer.wait()",
        "writer = start(100); writer.stdout.readline()",
    ],
    ids=["dead", "idle"],
)
def test_a_fault_on_a_dead_process_or_an_idle_system_is_not_counted_and_fails_the_test(
    pytester: pytest.Pytester, prepare: str
) -> None:
    line = "faults planted: injected 0, lost 0, misordered 0, doubled 0 (allowed 0)"
    assert run(pytester, f"{prepare}; kill(part, writer, ledger)") == ({"failed": 1}, line)
