from __future__ import annotations

import subprocess
import sys


def modules_loaded_by(program: str) -> set[str]:
    program += "; import sys; print(' '.join(sys.modules))"
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return set(finished.stdout.split())


def test_importing_telemetry_loads_nothing_heavy() -> None:
    """Every module imports it, so whoever only writes to an outbox must not pay for the rest."""
    heavy = {"opentelemetry", "prometheus_client", "pydantic", "structlog", "http.server"}
    program = (
        "import windrow.telemetry as t; t.EventBus(t.Metrics()).emit(t.Event());"
        " t.get_logger('x'); t.Health()"
    )
    assert modules_loaded_by(program) & heavy == set()
