"""Where JVMs find Spark: one place for all environments with the same jars."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from windrow.spark import shared_home


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no Spark given by name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return tmp_path / "cache"


def installed(place: Path, monkeypatch: pytest.MonkeyPatch, *more_jars: str) -> Path:
    """An environment with a small PySpark, in use from now on."""
    for part, names in {"bin": ["spark-submit"], "jars": ["core.jar", *more_jars]}.items():
        (place / part).mkdir(parents=True)
        for name in names:
            (place / part / name).write_text(name)
    (place / "python" / "lib").mkdir(parents=True)
    pyspark = SimpleNamespace(__file__=str(place / "__init__.py"), __version__="4.2.0")
    monkeypatch.setattr(shared_home, "require", lambda name: pyspark)
    return place


def test_environments_with_the_same_jars_share_one_place(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = installed(tmp_path / "first", monkeypatch)
    assert shared_home.home_in_use() == first
    made = shared_home.make_shared_home()
    assert made.is_relative_to(cache)
    assert (made / "bin" / "spark-submit").samefile(first / "bin" / "spark-submit")
    installed(tmp_path / "second", monkeypatch)
    assert shared_home.home_in_use() == made
    assert shared_home.make_shared_home() == made


def test_whoever_has_added_a_jar_keeps_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path / "first", monkeypatch)
    made = shared_home.make_shared_home()
    with_more = installed(tmp_path / "second", monkeypatch, "mine.jar")
    assert shared_home.home_in_use() == with_more
    assert shared_home.make_shared_home() != made
    assert (shared_home.home_in_use() / "jars" / "mine.jar").is_file()


def test_a_spark_that_is_given_is_used(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path / "first", monkeypatch)
    shared_home.make_shared_home()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "given"))
    assert shared_home.home_in_use() == tmp_path / "given"


def test_of_two_who_make_it_at_once_the_second_takes_what_is_there(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path / "first", monkeypatch)
    place = shared_home.place_of_shared_home()
    link = os.link

    def while_another_finishes(source: str, destination: str) -> None:
        (place / "jars").mkdir(parents=True, exist_ok=True)
        link(source, destination)

    monkeypatch.setattr(os, "link", while_another_finishes)
    assert shared_home.make_shared_home() == place
    assert list(place.parent.iterdir()) == [place]


def test_one_that_cannot_be_made_leaves_nothing_behind(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = installed(tmp_path / "first", monkeypatch)
    (broken / "python" / "lib").rmdir()
    (broken / "python").rmdir()
    with pytest.raises(FileNotFoundError):
        shared_home.make_shared_home()
    assert list(shared_home.place_of_shared_home().parent.iterdir()) == []
