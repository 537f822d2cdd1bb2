"""The jars, fetched by the real Maven."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.services import do_without
from windrow.embedded.jars import FetchFailed, fetch, jar_files
from windrow.embedded.ports import LOOPBACK, free_port
from windrow.embedded.process import find_program
from windrow.errors import NotInstalled

UNREACHABLE = """
<settings>
  <mirrors>
    <mirror><id>nobody</id><mirrorOf>*</mirrorOf><url>http://{address}/</url></mirror>
  </mirrors>
</settings>
"""


@pytest.fixture(scope="module")
def cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty cache of ours; Maven keeps its own, so little is downloaded again."""
    try:
        find_program("mvn", "maven")
    except NotInstalled as error:
        do_without(pytestconfig, str(error))
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(path))
        yield path


def run_command() -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-W", "error", "-m", "windrow.embedded.jars"]
    return subprocess.run(argv, capture_output=True, text=True, check=True)


@pytest.fixture(scope="module")
def said(cache: Path) -> str:
    """What the command says when it fetches."""
    done = run_command()
    assert done.stdout == ""
    return done.stderr


def test_command_names_what_it_fetches_and_is_silent_when_all_is_there(said: str) -> None:
    assert said.splitlines() == [
        "fetching the jars of kafka (once)",
        "fetching the jars of spark-kafka (once)",
    ]
    again = run_command()
    assert again.stdout == again.stderr == ""


def test_connector_is_the_four_jars_that_were_tried_together(said: str) -> None:
    assert [jar.name for jar in jar_files("spark-kafka")] == [
        "commons-pool2-2.13.1.jar",
        "kafka-clients-3.9.2.jar",
        "spark-sql-kafka-0-10_2.13-4.2.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    ]


def test_broker_comes_with_all_it_needs(said: str, cache: Path) -> None:
    jars = jar_files("kafka")
    assert "kafka_2.13-4.1.0.jar" in {jar.name for jar in jars}
    assert all(zipfile.is_zipfile(jar) for jar in jars)
    assert fetch("kafka").is_relative_to(cache)


def test_unreachable_registry_is_told_in_mavens_words(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    address = f"{LOOPBACK}:{free_port()}"
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(UNREACHABLE.format(address=address))
    monkeypatch.setenv("MAVEN_OPTS", f"-Duser.home={tmp_path}")
    with pytest.raises(FetchFailed, match=f"{address}.*refused"):
        fetch("kafka")
    assert list((tmp_path / "windrow" / "jars").glob("kafka*")) == []
