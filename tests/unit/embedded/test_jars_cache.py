"""The cache of jars, with programs in Maven's place that misbehave on purpose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from windrow.embedded import jars
from windrow.embedded.jars import FetchFailed, fetch, jar_files, place_of
from windrow.errors import NotInstalled

Mvn = Callable[[str], None]
FETCH = [sys.executable, "-c", "from windrow.embedded.jars import fetch; print(fetch('kafka'))"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "windrow" / "jars"


@pytest.fixture
def mvn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mvn:
    """Put a shell script in Maven's place."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")

    def install(script: str) -> None:
        program = programs / "mvn"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return install


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} - {".lock"}


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def test_jars_lie_in_the_users_cache_under_a_name_that_changes_with_the_pom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_home = place_of("kafka", {"HOME": "/home/ada"})
    assert in_home.parent == Path("/home/ada/.cache/windrow/jars")
    assert place_of("kafka", {"HOME": "/home/ada", "XDG_CACHE_HOME": "/var/c"}) == Path(
        "/var/c/windrow/jars", in_home.name
    )
    monkeypatch.setattr(jars, "_pom", lambda name: b"<project/>")
    assert place_of("kafka", {"HOME": "/home/ada"}) != in_home


def test_jars_are_fetched_once(cache: Path, mvn: Mvn) -> None:
    mvn("touch b.jar a.jar")
    assert [jar.name for jar in jar_files("kafka")] == ["a.jar", "b.jar"]
    mvn("exit 1")
    assert [jar.name for jar in jar_files("kafka")] == ["a.jar", "b.jar"]


def test_maven_gets_the_pom_of_the_set(cache: Path, mvn: Mvn) -> None:
    mvn("cp pom.xml seen.jar")
    assert b"spark-sql-kafka" in (fetch("spark-kafka") / "seen.jar").read_bytes()
    assert b">kafka_2.13<" in (fetch("kafka") / "seen.jar").read_bytes()


def test_failed_fetch_leaves_nothing_and_tells_what_maven_said(cache: Path, mvn: Mvn) -> None:
    mvn("touch half.jar; echo no such artifact; exit 3")
    with pytest.raises(FetchFailed) as caught:
        fetch("kafka")
    assert "exit code 3" in str(caught.value)
    assert "no such artifact" in str(caught.value)
    assert names_in(cache) == set()


def test_missing_maven_is_named_with_its_package(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled, match="'mvn' is not installed; run: apt-get install maven"):
        fetch("kafka")


def test_processes_that_ask_at_once_fetch_once(cache: Path, mvn: Mvn, tmp_path: Path) -> None:
    mvn(f"echo run >> {tmp_path}/runs; sleep 0.3; touch a.jar")
    fetchers = [subprocess.Popen(FETCH, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {fetcher.communicate()[0].strip() for fetcher in fetchers}
    assert answers == {str(place_of("kafka", os.environ))}
    assert (tmp_path / "runs").read_text() == "run\n"
    assert names_in(cache) == {place_of("kafka", os.environ).name}


def test_what_a_killed_fetcher_left_is_not_taken_for_whole(
    cache: Path, mvn: Mvn, tmp_path: Path
) -> None:
    """Maven goes on after its parent is killed: what it still writes must hurt nobody."""
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    os.mkfifo(go_on)
    mvn(f"touch half.jar; touch {begun}; read line < {go_on}; touch late.jar")
    killed = subprocess.Popen(FETCH)
    wait_for(begun)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not place_of("kafka", os.environ).exists()

    mvn("touch whole.jar")
    second = subprocess.Popen(FETCH, stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        second.communicate(timeout=0.5)  # the first Maven still holds the lock
    go_on.write_text("\n")
    second.communicate(timeout=10)
    assert names_in(place_of("kafka", os.environ)) == {"pom.xml", "whole.jar"}
    assert names_in(cache) == {place_of("kafka", os.environ).name}


def test_main_fetches_all_and_says_nothing_when_all_is_there(
    cache: Path, mvn: Mvn, capsys: pytest.CaptureFixture[str]
) -> None:
    mvn("touch a.jar")
    assert jars.main() == 0
    assert capsys.readouterr().err.count("fetching") == len(jars.JAR_SETS)
    mvn("exit 1")
    assert jars.main() == 0
    assert capsys.readouterr() == ("", "")


def test_main_ends_with_one_error_and_no_traceback(
    cache: Path, mvn: Mvn, capsys: pytest.CaptureFixture[str]
) -> None:
    mvn("exit 1")
    assert jars.main() == 1
    assert "cannot fetch the jars of 'kafka'" in capsys.readouterr().err
