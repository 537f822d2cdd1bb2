"""The process that is struck: a Spark driver that runs graphs as it is told to.

It reads a line of JSON for each thing to do, does it in a thread of its own, and answers with a
line of JSON. Its points, and those of everything Spark starts for it, are in the directory that its
environment names.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING, Any

from tests.faults.graph.shapes import SHAPES
from windrow.config import Config
from windrow.points import pass_by
from windrow.spark import build_session, stop_session
from windrow.spark.places import Connections
from windrow.spark.query.leg_plan import LegPlan, QuerySettings, plan_legs
from windrow.spark.query.opened import STORES
from windrow.spark.query.run import AVAILABLE_NOW, start_leg
from windrow.spark.query.start import Accepted, ensure_places, recover_leg
from windrow.spark.runner.causes import cause_of
from windrow.spark.runner.checkpoint import checkpoint_path
from windrow.spark.runner.files import files_of
from windrow.spark.runner.launch import Launcher
from windrow.spark.runner.run import GraphRunner, RunOptions
from windrow.spark.runner.settings import connections_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOT_CONNECTED = "Python worker failed to connect back"
"""Of a process of Spark's that took more than ten seconds to begin: no fault that was asked for."""
STARTS = 6
PATIENCE = 60.0


@dataclass(frozen=True)
class Order:
    """What to run.

    Attributes:
        shape: The kind of graph.
        name: Of the graph.
        checkpoint: Where Spark keeps its checkpoints, one below it for each query.
        options: What deviates from the shape.
        legs: The queries to run one after the other, by the ends of their names; all by default.
        settings: How much at once.
        accepted: What an operator allowed at the start.
        conf: Settings of Spark from here on.
        is_beside: In a session of its own, since a session runs no two queries of one name.
        runs: ``legs``, each until nothing is left; or the whole graph under supervision, ``once``
            until nothing is left or ``on`` until it is stopped; or ``naive``, a query of Spark
            beside it that reads the first source and writes as most would.
    """

    shape: str
    name: str
    checkpoint: str
    options: Mapping[str, Any] = field(default_factory=dict)
    legs: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    accepted: Mapping[str, Any] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    is_beside: bool = False
    runs: str = "legs"


def config_of(told: Mapping[str, Any], order: Order | None = None) -> Config:
    """The configuration: where the services are and, for an order, how it is to run."""
    tree: dict[str, Any] = {"journal": {"address": told["journal"]}}
    if told.get("kafka"):
        tree["kafka"] = {"bootstrap": told["kafka"]}
    if order is not None:
        tree["graph"] = {
            "checkpoint": order.checkpoint, "watch_interval": 0.05, **order.settings
        }  # fmt: skip
    return Config.model_validate(tree)


def connections_from(told: Mapping[str, Any]) -> Connections:
    """How the places of queues are reached."""
    return connections_for(config_of(told))


class Runner:
    """Runs what is asked for on one session."""

    def __init__(self, session: SparkSession, told: Mapping[str, Any]) -> None:
        self._session, self._told = session, told
        self._running: dict[int, GraphRunner] = {}
        self._begun = Condition()

    def obey(self, asked: dict[str, Any]) -> None:
        """Do one thing, and tell how it ended."""
        ticket = asked.pop("ticket")
        self._enter_thread(self._session)
        order = Order(**asked | {"legs": tuple(asked.get("legs", ()))})
        for name, value in order.conf.items():
            self._session.conf.set(name, value)
        try:
            if order.runs == "naive":
                self._run_naively(order)
            elif order.runs == "legs":
                self._run_legs(order)
            else:
                self._run_graph(ticket, order)
            answer({"ticket": ticket})
        except BaseException as error:
            traceback.print_exc()
            answer({"ticket": ticket, **told_of(error)})

    def _enter_thread(self, session: SparkSession) -> None:
        """Spark looks for formats of Python in the session that is active in the thread."""
        jvm: Any = session._jvm
        jvm.SparkSession.setActiveSession(session._jsparkSession)

    def stop(self, ticket: int) -> None:
        """Have a graph end in good order; it may only just have been asked for."""
        with self._begun:
            assert self._begun.wait_for(lambda: ticket in self._running, PATIENCE)
        self._running[ticket].stop()

    def _run_graph(self, ticket: int, order: Order) -> None:
        graph = SHAPES[order.shape].graph(order.name, order.options)
        options = RunOptions(is_once=order.runs == "once")
        config = config_of(self._told, order)
        with self._begun:
            self._running[ticket] = GraphRunner(graph, config, self._session, options)
            self._begun.notify_all()
        self._running[ticket].run_or_fail()

    def _run_naively(self, order: Order) -> None:
        """Each batch is added to a file: nothing tells what is in it already."""
        where = Path(order.options["system"]["naive"])

        def write(batch: DataFrame, number: int) -> None:
            texts = [json.loads(row.value) for row in batch.select("value").collect()]
            with where.open("ab", buffering=0) as file:
                file.write("".join(f"{one['from']}{one['n']}\n" for one in texts).encode())
            pass_by("naive.written")

        journal = SHAPES[order.shape].graph(order.name, order.options).queue("a")
        source = self._session.readStream.format("windrow-journal").options(
            address=self._told["journal"], journal=journal.address_in(order.name)
        )
        stream = source.load().writeStream.foreachBatch(write).trigger(availableNow=True)
        stream = stream.option("checkpointLocation", f"{order.checkpoint}-naive")
        run_connected(lambda: stream.start().awaitTermination())

    def _run_legs(self, order: Order) -> None:
        graph = SHAPES[order.shape].graph(order.name, order.options)
        settings = QuerySettings(**order.settings)
        for plan in plan_legs(graph, connections_from(self._told), settings):
            if not order.legs or plan.name.endswith(order.legs):
                self._run_leg(plan, order)

    def _run_leg(self, plan: LegPlan, order: Order) -> None:
        """As a runner would, but once, and with what an operator allowed."""
        session = self._session.newSession() if order.is_beside else self._session
        self._enter_thread(session)
        files = files_of(order.checkpoint, self._session)
        config = config_of(self._told)
        launcher = Launcher(self._session, config, files, "faults", STORES, is_once=True)
        ensure_places(plan)
        where = checkpoint_path(order.checkpoint, plan.uid)

        def run() -> None:
            accepted = Accepted(**order.accepted)
            begun = recover_leg(plan, where, accepted=accepted, files=files).plan
            if launcher.has_work(begun):
                start_leg(session, begun, where, AVAILABLE_NOW).awaitTermination()

        run_connected(run)


def run_connected(run: Callable[[], object]) -> None:
    """Run it, again if a process of Spark's did not come up in time: recovery comes first then."""
    for _ in range(STARTS - 1):
        try:
            run()
        except Exception as error:
            if NOT_CONNECTED not in str(error):
                raise
        else:
            return
    run()


def told_of(error: BaseException) -> dict[str, str]:
    """Why it ended, as a runner would understand it."""
    cause = cause_of(error)
    return {"error": cause.error, "reason": cause.reason, "kind": cause.kind.value}


def main() -> None:
    """Do what is asked for until there is nothing more."""
    told = json.loads(sys.argv[1])
    conf = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        **told["conf"],
    }
    session = build_session("faults", told["master"], kafka=False, conf=conf)
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    answer({"jvm": gateway.proc.pid})
    runner = Runner(session, told)
    with ThreadPoolExecutor() as threads:
        for line in sys.stdin:
            asked = json.loads(line)
            if "stop" in asked:
                runner.stop(asked["stop"])
            else:
                threads.submit(runner.obey, asked)
    stop_session(session)


def answer(told: Mapping[str, Any]) -> None:
    """To whoever asked; what Spark says goes elsewhere."""
    print("@" + json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
