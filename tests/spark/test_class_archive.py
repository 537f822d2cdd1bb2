"""The archive of Spark's classes: that it is used, and that nothing depends on it."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from windrow.errors import StartFailed
from windrow.spark import class_archive, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which there is none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return class_archive.place_of_archive()


def test_jvm_of_a_session_has_it_in_its_memory(
    spark: SparkSession, pytestconfig: pytest.Config
) -> None:
    from pyspark import SparkContext

    place = class_archive.place_of_archive()
    if not place.is_file() and not pytestconfig.getoption("require_services"):
        pytest.skip("there is none; run: python -m windrow.spark.class_archive")
    assert SparkContext._gateway is not None
    assert str(place) in Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text()


def test_session_without_it_is_told_nothing_of_it(nowhere: Path) -> None:
    assert class_archive.java_options() == ""


def test_one_that_does_not_fit_is_passed_over_in_silence(nowhere: Path) -> None:
    nowhere.parent.mkdir(parents=True)
    nowhere.write_bytes(b"no archive at all")
    options = shlex.split(class_archive.java_options())
    assert str(nowhere) in options[0]
    done = subprocess.run(["java", *options, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "cds" not in done.stdout


def test_another_java_or_another_spark_wants_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = class_archive.place_of_archive()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with_java = class_archive.place_of_archive()
    (tmp_path / "release").write_text('JAVA_VERSION="21"')
    upgraded = class_archive.place_of_archive()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with_spark = class_archive.place_of_archive()
    assert len({ours, with_java, upgraded, with_spark}) == 4


@pytest.mark.parametrize(
    "error", [StartFailed("Spark", "it did not start"), subprocess.TimeoutExpired("java", 60.0)]
)
def test_set_up_goes_on_without_one_that_cannot_be_made(
    nowhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(session, "build_session", refuse)
    assert class_archive.main() == 0
    assert "without an archive of its classes" in capsys.readouterr().out
    assert list(nowhere.parent.iterdir()) == []
