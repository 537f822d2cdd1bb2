"""Windrow as a zip that workers elsewhere import from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from windrow.spark.runner.shipping import zip_package

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import windrow.outbox.queries, windrow.graph.file, windrow.spark.stores
from importlib import resources
assert windrow.graph.file.__file__.startswith(sys.argv[1]), windrow.graph.file.__file__
files = [each.name for each in resources.files("windrow.relay").iterdir()]
assert "desk.sql" in files, files
"""


def test_package_is_imported_from_the_zip_with_its_resources(tmp_path: Path) -> None:
    target = zip_package(tmp_path / "windrow.zip")
    subprocess.run([sys.executable, "-c", PROGRAM, str(target)], check=True, cwd=tmp_path)


def test_same_code_is_the_same_zip(tmp_path: Path) -> None:
    one, other = zip_package(tmp_path / "one.zip"), zip_package(tmp_path / "other.zip")
    assert one.read_bytes() == other.read_bytes()
