"""The section of graphs: where they run, how much at a time, and how their journals are made."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from windrow.config.relay import SECRET_KEY
from windrow.config.secrets import Secret
from windrow.config.section import Section
from windrow.types import Duration

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[Duration, Field(gt=0)]

_OURS = ("spark.master", "spark.app.name", "spark.submit.pyFiles", "spark.archives")


class GraphJournals(Section):
    """How journals are made that a graph needs and that are not there yet."""

    replication: Annotated[int, Field(ge=1, le=5)] = 1
    """How many brokers keep each of them; take 3 where brokers are several."""
    fragment_length: Annotated[int, Field(ge=1 << 10, le=1 << 34)] = 64 * 1024 * 1024
    """After how many bytes a fragment is finished."""
    codec: Literal["none", "gzip", "zstandard", "snappy"] = "zstandard"
    """How finished fragments are compressed."""
    stores: tuple[str, ...] = ()
    """Where finished fragments go, as URLs; without one they stay with the brokers."""
    refresh_interval: Annotated[Duration, Field(ge=1, le=86400)] = 60.0
    """How often a store is looked at for fragments that others wrote."""
    retention: Annotated[Duration, Field(ge=0)] = 0.0
    """After how long "windrow journal prune" may delete a fragment; 0 keeps all. Never shorter than
    the slowest processor is behind."""
    flush_interval: Annotated[Duration, Field(ge=0)] = 0.0
    """After how long a fragment is finished though it is short; 0 is never, else a minute at
    least."""

    @field_validator("flush_interval")
    @classmethod
    def _leave_stores_alone(cls, interval: float) -> float:
        if 0 < interval < 60:
            raise ValueError("is less than a minute; leave it at 0, or lengthen it")
        return interval


class Graph(Section):
    """Where graphs run, how much they take at a time, and what happens when they fail."""

    master: Annotated[str, Field(min_length=1)] = "local[2]"
    """Where Spark runs: ``local[…]``, or the address of a cluster."""
    checkpoint: Annotated[str, Field(min_length=1)] = "checkpoints"
    """The directory of the checkpoints, or a URL that Spark can write to; on a cluster, one that
    all of it reaches."""
    conf: dict[str, str | Secret] = Field(default_factory=dict)
    """Settings of Spark, such as ``spark.executor.memory``."""
    py_files: tuple[str, ...] = ()
    """Modules, zips and wheels that workers need beside Windrow, which is sent by itself."""
    archives: tuple[str, ...] = ()
    """Archives that are unpacked beside every worker, such as a packed environment."""
    max_rows: Count = 200_000
    """How many messages a batch may take."""
    max_bytes: Count = 256 * 1024 * 1024
    """How many bytes a batch may take, by the mean size of messages."""
    interval: Annotated[Duration, Field(ge=0)] = 0.0
    """The least time between the beginnings of two batches; 0 takes one as soon as there is one."""
    stop_timeout: Positive = 60.0
    """How long a stop waits for the batches that run."""
    watch_interval: Positive = 0.5
    """How often it is looked whether a processor has ended, or a stop was asked for."""
    steady_after: Positive = 30.0
    """After how long without a failure the failures of a processor are forgotten."""
    when_given_up: Literal["go-on", "stop"] = "go-on"
    """What the others do once a processor has been given up."""
    when_sink_behind: Literal["rewind", "refuse"] = "rewind"
    """Whether a sink that was set back gets the difference again, or the start is refused."""
    journals: GraphJournals = GraphJournals()

    @field_validator("conf")
    @classmethod
    def _leave_ours_alone(cls, conf: dict[str, str | Secret]) -> dict[str, str | Secret]:
        for key in _OURS:
            if key in conf:
                raise ValueError(f"cannot override {key!r}; there is a key of ours for it")
        return {key: _hidden(key, value) for key, value in conf.items()}

    @property
    def spark_conf(self) -> dict[str, str]:
        """The settings of Spark as it takes them; hand them to nobody else."""
        return {
            key: value.reveal() if isinstance(value, Secret) else value
            for key, value in self.conf.items()
        }


def _hidden(key: str, value: str | Secret) -> str | Secret:
    return Secret(value) if isinstance(value, str) and SECRET_KEY.search(key) else value
