"""Runs a graph: starts its queries, watches them, starts them again, and ends them in good order.

What to do is decided by ``supervisor``; here it is done. One thread does all of it, one step after
the other: Spark runs the queries, and they need nobody while they are well.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from windrow.config import Config
from windrow.errors import WindrowError
from windrow.graph.declaration import Graph
from windrow.graph.positions import SourceOffsets
from windrow.spark.query.leg_plan import LegPlan, plan_legs
from windrow.spark.query.opened import STORES, Stores
from windrow.spark.runner.causes import Cause, cause_of
from windrow.spark.runner.errors import GraphFailed, SparkLost
from windrow.spark.runner.events import (
    BatchDelivered,
    GraphStarted,
    GraphStopped,
    ProcessorFailed,
    ProcessorGivenUp,
    ProcessorStarted,
    ProcessorStopped,
    TopologyAccepted,
)
from windrow.spark.runner.facts import read_facts
from windrow.spark.runner.files import files_of
from windrow.spark.runner.launch import Launcher
from windrow.spark.runner.order import supervised
from windrow.spark.runner.progress import BatchProgress, batch_progress
from windrow.spark.runner.settings import connections_for, query_settings
from windrow.spark.runner.standing import Notice, word_of
from windrow.spark.runner.supervisor import (
    Command,
    Event,
    LegEnded,
    LegFailed,
    LegProgressed,
    LegStarted,
    LegState,
    LegStatus,
    StartLeg,
    StopLeg,
    StopRequested,
    Supervisor,
    Ticked,
)
from windrow.spark.runner.topology_guard import guard_topology
from windrow.telemetry.events import EventBus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

IDLE_INTERVAL = 1.0
"""How often it is looked whether a leg that has never had anything to do has by now."""
_JVM_GONE = ("Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What is asked of one run.

    Attributes:
        is_once: Deliver what is there now, through the whole graph, and end.
        accept_topology: The graph may be another one than the one whose progress is kept.
        accept_state_loss: State may begin empty.
    """

    is_once: bool = False
    accept_topology: bool = False
    accept_state_loss: bool = False


@dataclass(slots=True)
class _Watched:
    """A query that runs, and what is known of it."""

    query: StreamingQuery
    begin: SourceOffsets
    last_batch: int = -1
    rows: int = 0
    rate: float = 0.0
    stop_before: float | None = None
    batch_at_stop: int = -1


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended: messages taken in by each leg, and what each leg came to."""

    rows: dict[str, int]
    legs: dict[str, LegStatus] = field(default_factory=dict)

    @property
    def failures(self) -> tuple[str, ...]:
        """The legs that need somebody, a line each."""
        return tuple(
            f'"{name}" {status.state.value}: {status.cause}'
            for name, status in self.legs.items()
            if status.state in (LegState.FENCED, LegState.REFUSED, LegState.GIVEN_UP)
        )


class GraphRunner:
    """Runs one graph, once.

    Args:
        graph: What to run.
        config: Where everything is, and how much at a time.
        session: What to run it on; it is left running.
        options: What is asked of this run.
        bus: Who is told what happens.
        stores: How places are opened; the real ones by default.
    """

    def __init__(
        self,
        graph: Graph,
        config: Config,
        session: SparkSession,
        options: RunOptions | None = None,
        *,
        bus: EventBus | None = None,
        stores: Stores | None = None,
    ) -> None:
        self.graph, self.config, self.session = graph, config, session
        self.options = options or RunOptions()
        self.bus = bus or EventBus()
        self.owner = f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._stores = stores or STORES
        self._settings = config.graph
        self._plans: dict[str, LegPlan] = {}
        self._watched: dict[str, _Watched] = {}
        self._idle: dict[str, LegPlan] = {}
        self._looked_at_idle = 0.0
        self._rows: dict[str, int] = {}
        self._supervisor: Supervisor | None = None
        self._stop = threading.Event()
        self._is_hurried = False

    def stop(self, *, at_once: bool = False) -> None:
        """Have it end: after the batches that run, or at once. From any thread, or a signal."""
        self._is_hurried = self._is_hurried or at_once
        self._stop.set()

    def problem(self) -> str | None:
        """What somebody has to do something about, for a health check."""
        failed = self._supervisor.failed if self._supervisor is not None else []
        return "; ".join(f"{each.leg.name} {each.state.value}" for each in failed) or None

    def run(self) -> RunOutcome:
        """Run until it is stopped, every processor has failed, or nothing is left to do.

        Raises:
            TopologyChanged: It is not the graph whose progress is kept.
            SparkLost: The JVM is gone.
        """
        root = self._settings.checkpoint
        files = files_of(root, self.session)
        self._guard(files, root)
        connections = connections_for(self.config)
        settings = query_settings(self.config)
        self._plans = {p.name: p for p in plan_legs(self.graph, connections, settings)}
        self._launcher = Launcher(
            self.session,
            self.config,
            files,
            self.owner,
            self._stores,
            is_once=self.options.is_once,
            accept_state_loss=self.options.accept_state_loss,
        )
        supervisor = self._supervisor = Supervisor(
            supervised(list(self._plans.values())),
            is_once=self.options.is_once,
            when_given_up=self._settings.when_given_up,
            steady_after=self._settings.steady_after,
        )
        notice = Notice(files, root, self.graph.id, self.owner)
        notice.begin()
        self.bus.emit(GraphStarted(self.graph.id, self.owner, len(self._plans)))
        try:
            with self._spark_kept():
                self._supervise(supervisor, notice)
        finally:
            self._abandon()
            self._say(supervisor, notice, is_ended=True)
            outcome = RunOutcome(dict(self._rows), supervisor.status)
            rows = sum(self._rows.values())
            self.bus.emit(GraphStopped(self.graph.id, rows, len(outcome.failures)))
        return outcome

    def run_or_fail(self) -> RunOutcome:
        """``run``, with processors that need somebody as an error.

        Raises:
            GraphFailed: Some do.
        """
        outcome = self.run()
        if outcome.failures:
            raise GraphFailed(self.graph.id, outcome.failures)
        return outcome

    # -- the loop --------------------------------------------------------------------------------

    def _supervise(self, supervisor: Supervisor, notice: Notice) -> None:
        while True:
            before = sum(self._rows.values())
            self._perform(supervisor, supervisor.begin(time.monotonic()))
            while not supervisor.is_done:
                self._say(supervisor, notice)
                self._look(supervisor, notice)
                self._rest(supervisor)
            took = sum(self._rows.values()) - before
            if not self.options.is_once or supervisor.is_stopping or not took:
                return
            if not self._is_anything_left():
                return

    def _look(self, supervisor: Supervisor, notice: Notice) -> None:
        if not supervisor.is_stopping and (self._stop.is_set() or notice.is_stop_requested()):
            self._tell(supervisor, StopRequested())
        for name in list(self._watched):
            self._look_at(supervisor, name, self._watched[name])
        if time.monotonic() - self._looked_at_idle >= IDLE_INTERVAL:
            self._looked_at_idle = time.monotonic()
            for name in list(self._idle):
                self._wake(supervisor, name)
        self._tell(supervisor, Ticked())

    def _rest(self, supervisor: Supervisor) -> None:
        if supervisor.is_done:
            return
        wait = self._settings.watch_interval
        due = supervisor.due
        if due is not None:
            wait = min(wait, max(0.0, due - time.monotonic()))
        if supervisor.is_stopping:
            time.sleep(min(wait, 0.1))  # the event that wakes us is set already
        else:
            self._stop.wait(wait)

    def _look_at(self, supervisor: Supervisor, name: str, watched: _Watched) -> None:
        is_active = watched.query.isActive
        for batch in self._new_batches(watched):
            watched.last_batch = batch.batch
            watched.rows += batch.rows
            watched.rate = batch.rate
            self._rows[name] = self._rows.get(name, 0) + batch.rows
            self._tell(supervisor, LegProgressed(name))
            self._emit_batch(name, batch)
        if not is_active:
            del self._watched[name]
            error = watched.query.exception()
            ended = LegEnded(name) if error is None else LegFailed(name, cause_of(error))
            self._tell(supervisor, ended)
        elif watched.stop_before is not None and self._may_stop(watched):
            watched.query.stop()

    def _new_batches(self, watched: _Watched) -> list[BatchProgress]:
        last: Any = watched.query.lastProgress
        if last is None or last["batchId"] <= watched.last_batch:
            return []
        reports = [last] if last["batchId"] == watched.last_batch + 1 else []
        reports = reports or watched.query.recentProgress
        found = (batch_progress(report, watched.begin) for report in reports)
        return [each for each in found if each is not None and each.batch > watched.last_batch]

    def _may_stop(self, watched: _Watched) -> bool:
        """Whether no batch runs, or the one that ran is over, or nobody wants to wait longer.

        To stop in the midst of one would do no harm but for what may happen at most once.
        """
        assert watched.stop_before is not None
        if self._is_hurried or time.monotonic() >= watched.stop_before:
            return True
        return (
            watched.last_batch > watched.batch_at_stop
            or not watched.query.status["isTriggerActive"]
        )

    # -- what the supervisor asks for ------------------------------------------------------------

    def _tell(self, supervisor: Supervisor, event: Event) -> None:
        commands = supervisor.handle(event, time.monotonic())
        self._announce(supervisor, event)
        self._perform(supervisor, commands)

    def _perform(self, supervisor: Supervisor, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case StartLeg():
                    self._start(supervisor, command)
                case StopLeg(name) if name in self._idle:
                    del self._idle[name]
                    self._tell(supervisor, LegEnded(name))
                case StopLeg():
                    watched = self._watched[command.name]
                    watched.stop_before = time.monotonic() + self._settings.stop_timeout
                    watched.batch_at_stop = watched.last_batch

    def _start(self, supervisor: Supervisor, command: StartLeg) -> None:
        name, leg = command.name, self._plans[command.name]
        try:
            begun = self._launcher.recover(leg)
            self._begin(begun)
        except Exception as error:
            self._fail(supervisor, name, error)
            return
        doubt = begun.recovered.in_doubt if begun.recovered is not None else None
        resumes = None if doubt is None else doubt.snapshot.number
        self.bus.emit(
            ProcessorStarted(name, leg.processor.id, command.attempt, begun.epoch, resumes)
        )
        self._tell(supervisor, LegStarted(name))
        if self.options.is_once and self._idle.pop(name, None) is not None:
            self._tell(supervisor, LegEnded(name))

    def _begin(self, begun: LegPlan) -> None:
        """Start the query of a leg that was recovered, or have it wait for something to do."""
        recovered = begun.recovered
        assert recovered is not None
        is_watching = recovered.keep_checkpoint and not self.options.is_once
        if is_watching or self._launcher.has_work(begun):
            self._watched[begun.name] = _Watched(self._launcher.start(begun), recovered.start)
        else:
            self._idle[begun.name] = begun

    def _wake(self, supervisor: Supervisor, name: str) -> None:
        """Start the query of a leg that has something to do by now."""
        try:
            self._begin(self._idle.pop(name))
        except Exception as error:
            self._fail(supervisor, name, error)

    def _fail(self, supervisor: Supervisor, name: str, error: Exception) -> None:
        """What goes wrong with one leg is told of it, and the others go on."""
        if type(error).__name__ in _JVM_GONE:
            raise error
        self._tell(supervisor, LegFailed(name, cause_of(error)))

    # -- what others are told --------------------------------------------------------------------

    def _announce(self, supervisor: Supervisor, event: Event) -> None:
        if not isinstance(event, LegEnded | LegFailed):
            return
        status = supervisor.status[event.name]
        if status.state in (LegState.STOPPED, LegState.FINISHED):
            self.bus.emit(ProcessorStopped(event.name, status.leg.processor))
        elif status.cause is not None:
            self._announce_failure(status, status.cause)

    def _announce_failure(self, status: LegStatus, cause: Cause) -> None:
        leg = status.leg
        if status.state is LegState.PAUSING:
            pause = max(0.0, (status.until or 0.0) - time.monotonic())
            self.bus.emit(ProcessorFailed(leg.name, leg.processor, cause, status.failures, pause))
        else:
            self.bus.emit(ProcessorGivenUp(leg.name, leg.processor, cause, status.state.value))

    def _emit_batch(self, name: str, batch: BatchProgress) -> None:
        processor = self._plans[name].processor.id
        self.bus.emit(
            BatchDelivered(name, processor, batch.batch, batch.rows, batch.seconds, batch.lag)
        )

    def _say(self, supervisor: Supervisor, notice: Notice, *, is_ended: bool = False) -> None:
        words = []
        for name, status in supervisor.status.items():
            watched = self._watched.get(name)
            rate = watched.rate if watched is not None else 0.0
            words.append(word_of(status, self._rows.get(name, 0), rate))
        notice.say(words, is_ended=is_ended)

    # -- before and after ------------------------------------------------------------------------

    def _guard(self, files: Any, root: str) -> None:
        guarded = guard_topology(files, root, self.graph, accept=self.options.accept_topology)
        if guarded.changes:
            self.bus.emit(TopologyAccepted(self.graph.id, guarded.changes))

    def _is_anything_left(self) -> bool:
        """Whether a leg has something to read that another one wrote meanwhile."""
        for plan in self._plans.values():
            facts = read_facts(plan, self._stores)
            if facts.lag or facts.in_doubt is not None:
                return True
        return False

    @contextlib.contextmanager
    def _spark_kept(self) -> Iterator[None]:
        """Errors that say that the JVM is gone, in our words."""
        try:
            yield
        except WindrowError:
            raise
        except Exception as error:
            if type(error).__name__ not in _JVM_GONE:
                raise
            self._watched.clear()
            raise SparkLost(self.graph.id, type(error).__name__) from error

    def _abandon(self) -> None:
        """Stop what still runs because something went wrong here."""
        for watched in self._watched.values():
            with contextlib.suppress(Exception):  # the session may be going as well
                watched.query.stop()
        self._watched.clear()
