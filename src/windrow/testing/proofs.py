"""Writes ``docs/proofs.md``: each promise, what proves it, and how that last ended.

``docs/promises.toml`` lists the promises. Tests say which they prove (``windrow.testing.proving``);
a promise may also name a command, which ``scripts/proofs --run ID`` performs and notes. A promise
that nothing proves yet says so.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from windrow.testing.run_record import commit_of, today, write_json

_COMMAND = "$ "
"""What a result's name begins with if it is a command and not a test."""

_INTRODUCTION = """\
# Proofs

Every promise, the test or command that proves it, and how that last ended.
This page is generated: `make test`, then `make proofs`.
A `+` behind a commit means that files had been changed since.
"""


class Promise(NamedTuple):
    """A sentence that users may rely on."""

    id: str
    group: str
    says: str
    command: str | None = None


class Result(NamedTuple):
    """How a test or command last ended."""

    outcome: str
    date: str
    commit: str


Results = dict[str, dict[str, Result]]
"""By promise, then by test or command."""


def load_promises(root: Path) -> list[Promise]:
    """The promises, in the order of the list."""
    listed = tomllib.loads((root / "docs" / "promises.toml").read_text(encoding="utf-8"))
    return [Promise(**promise) for promise in listed["promise"]]


def load_results(root: Path) -> Results:
    """What earlier runs have left, without tests whose file is gone."""
    path = root / "build" / "proofs.json"
    if not path.exists():
        return {}
    noted = json.loads(path.read_text(encoding="utf-8"))
    return {
        promise: {
            name: Result(**result)
            for name, result in results.items()
            if name.startswith(_COMMAND) or (root / name.partition("::")[0]).exists()
        }
        for promise, results in noted.items()
    }


def save_results(root: Path, results: Results) -> None:
    """Leave them for the next run and for the page."""
    noted = {
        promise: {name: result._asdict() for name, result in sorted(named.items())}
        for promise, named in sorted(results.items())
    }
    write_json(root / "build" / "proofs.json", noted)


def page(promises: Sequence[Promise], results: Results) -> str:
    """The text of ``docs/proofs.md``."""
    parts = [_INTRODUCTION]
    for group, members in groupby(promises, key=lambda promise: promise.group):
        parts.append(f"\n## {group}\n")
        for promise in members:
            proofs = list(_proofs(results.get(promise.id, {})))
            parts.append(f"\n**{promise.says}** (`{promise.id}`)\n\n")
            parts.extend(f"- {proof}\n" for proof in proofs or [_unproved(promise)])
    return "".join(parts)


def _unproved(promise: Promise) -> str:
    return f"`{promise.command}`: not run yet" if promise.command else "not built yet"


def _proofs(results: dict[str, Result]) -> Iterator[str]:
    """One line per test or command; the cases of a parametrized test share one."""
    for name, cases in groupby(sorted(results), key=lambda name: name.partition("[")[0]):
        ended = [results[case] for case in cases]
        worst = _worst(ended)
        times = f" ({len(ended)} cases)" if len(ended) > 1 else ""
        shown = name.removeprefix(_COMMAND)
        yield f"`{shown}`{times}: {worst.outcome}, {worst.date}, commit {worst.commit}"


def _worst(results: Iterable[Result]) -> Result:
    order = {"failed": 0, "skipped": 1, "passed": 2}
    return min(results, key=lambda result: order.get(result.outcome, 0))


def run_command(root: Path, promise: Promise) -> Result:
    """Perform the command of a promise and note how it ended."""
    assert promise.command is not None
    finished = subprocess.run(shlex.split(promise.command), cwd=root, check=False)
    outcome = "passed" if finished.returncode == 0 else "failed"
    result = Result(outcome, today(), commit_of(root))
    results = load_results(root)
    results.setdefault(promise.id, {})[_COMMAND + promise.command] = result
    save_results(root, results)
    return result


def main(root: Path, arguments: Sequence[str] | None = None) -> int:
    """Run the commands asked for, then write the page. Exit code 1 if one of them failed."""
    promises = load_promises(root)
    commands = {promise.id: promise for promise in promises if promise.command}
    parser = argparse.ArgumentParser(prog="scripts/proofs", description="write docs/proofs.md")
    parser.add_argument(
        "--run",
        metavar="ID",
        choices=sorted(commands),
        action="append",
        default=[],
        help=f"run the command of this promise first: {', '.join(sorted(commands))}",
    )
    asked: list[str] = parser.parse_args(arguments).run
    ended = [run_command(root, commands[promise]) for promise in asked]
    (root / "docs" / "proofs.md").write_text(page(promises, load_results(root)), encoding="utf-8")
    return int(any(result.outcome == "failed" for result in ended))
