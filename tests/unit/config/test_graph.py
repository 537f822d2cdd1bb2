from __future__ import annotations

import pytest

from windrow.config import Secret, load
from windrow.config.layers import Setting
from windrow.config.model import Config
from windrow.errors import ConfigError


def loaded(*settings: tuple[tuple[str, ...], object]) -> Config:
    flags = [Setting(("graph", *path), value, "--set") for path, value in settings]
    return load(flags=flags, environ={}).config


def test_graph_runs_on_this_machine_unless_told_otherwise() -> None:
    graph = loaded().graph
    assert graph.master.startswith("local")
    assert graph.spark_conf == {}
    assert loaded((("master",), "spark://cluster:7077")).graph.master == "spark://cluster:7077"


def test_settings_of_spark_keep_their_dots_and_hide_their_secrets() -> None:
    graph = loaded(
        (("conf", "spark.executor.memory"), "2g"),
        (("conf", "spark.hadoop.fs.s3a.secret.key"), "hunter2"),
    ).graph
    assert graph.spark_conf == {
        "spark.executor.memory": "2g",
        "spark.hadoop.fs.s3a.secret.key": "hunter2",
    }
    assert isinstance(graph.conf["spark.hadoop.fs.s3a.secret.key"], Secret)
    assert "hunter2" not in repr(graph)


@pytest.mark.parametrize("key", ["spark.master", "spark.submit.pyFiles"])
def test_setting_that_has_a_key_of_its_own_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="cannot override"):
        loaded((("conf", key), "x"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("max_rows",), "0"),
        (("stop_timeout",), "0s"),
        (("when_given_up",), "panic"),
        (("journals", "replication"), "0"),
        (("journals", "codec"), "rar"),
        (("journals", "flush_interval"), "5s"),
    ],
)
def test_value_out_of_range_is_refused(path: tuple[str, ...], value: str) -> None:
    with pytest.raises(ConfigError):
        loaded((path, value))


def test_flush_interval_is_never_or_a_minute_at_least() -> None:
    assert loaded().graph.journals.flush_interval == 0
    assert loaded((("journals", "flush_interval"), "2m")).graph.journals.flush_interval == 120
