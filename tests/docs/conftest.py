"""Close the run with how many code blocks were tried and how many were let off, and why."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # Read from the reports, which xdist carries home from its workers.
    properties = [
        (name, str(value))
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
    ]
    performed = [value for name, value in properties if name == "docs_block_performed"]
    excepted = [value for name, value in properties if name == "docs_block_excepted"]
    if not performed and not excepted:
        return
    terminalreporter.write_line(
        f"code blocks of the docs: {len(performed)} performed, {len(excepted)} excepted"
    )
    for reason in excepted:
        terminalreporter.write_line(f"  excepted {reason}")
