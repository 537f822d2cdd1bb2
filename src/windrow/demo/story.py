"""The story that ``windrow demo`` tells: a road in use, three kills on the way, and the verdict.

```text
 clients ──▶ producer ──tx──▶ heroes + outbox ──▶ relay ──▶ journal ──▶ graph on Spark ──▶ arrivals
                                                  ✗ killed   ✗ broker    ✗ driver          + audit
```

Heroes are asked for all the while, but for when too many are on their way: so there are some
whenever somebody dies. When the last victim has been replaced the clients stop, what is on its way
arrives, and a process that took no part compares both ends.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from windrow.demo import tables
from windrow.demo.delays import Stretch, queue_moments, stretches, table_moments
from windrow.demo.gauge import Gauge, Sample
from windrow.demo.load import Load
from windrow.demo.road import Kill, Road
from windrow.demo.stages import Stage, Stages
from windrow.demo.verdict import Verdict, ask_verdict
from windrow.demo.waiting import wait_for
from windrow.extras import require

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything.

    Attributes:
        rate: Heroes a second.
        most: Heroes at most.
        crowd: Heroes on their way at most, or about that.
        pause: Seconds between two kills, and before the first and after the last.
        goes_ahead: Whether a few heroes go ahead, so that nothing is killed before Spark runs.
    """

    rate: float
    most: int
    crowd: int
    pause: float
    goes_ahead: bool

    @property
    def missions(self) -> int:
        """As many as heroes at most, those that go ahead and some by hand included."""
        return self.most + AHEAD + BY_HAND


AHEAD = 20
"""Heroes that go ahead, before there is any load."""
BY_HAND = 1_000
"""Heroes that somebody may ask for while the road is kept."""

FULL = Plan(rate=60.0, most=9_000, crowd=1_500, pause=15.0, goes_ahead=True)
SMALL = Plan(rate=40.0, most=1_600, crowd=400, pause=0.5, goes_ahead=False)


class Listener(Protocol):
    """Who is told what happens, as it happens."""

    def say(self, step: str) -> None:
        """Something was done."""

    def killed(self, kill: Kill, at: float) -> None:
        """Something was killed, so many seconds after the beginning, and goes on as is said."""

    def show(self, sample: Sample) -> None:
        """That is how far things have come."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """What happened, and the verdict on it."""

    killed: tuple[tuple[float, Kill], ...]
    verdicts: tuple[Verdict, ...]
    wrong_totals: int
    totals: dict[str, int]
    stretches: tuple[Stretch, ...]
    stages: tuple[Stage, ...]
    samples: tuple[Sample, ...] = field(repr=False)

    @property
    def holds(self) -> bool:
        """Whether every hero arrived at both ends, once and in order, whatever was killed."""
        return (
            all(verdict.is_clean and verdict.written > 0 for verdict in self.verdicts)
            and bool(self.verdicts)
            and not self.wrong_totals
        )


class Story:
    """One telling of it, on a road that is there already."""

    def __init__(self, road: Road, plan: Plan, listener: Listener, stages: Stages) -> None:
        self._road, self._plan, self._listener, self._stages = road, plan, listener, stages
        self._load: Load | None = None
        self._killed: list[tuple[float, Kill]] = []
        self._samples: tuple[Sample, ...] = ()

    def tell(self) -> Demonstration:
        """From the first hero to the verdict.

        Raises:
            DemoStalled: A part did not do its work in time.
            PartEnded: One ended by itself.
            NoVerdict: Nobody could say how it went.
        """
        with ExitStack() as stack:
            connection = stack.enter_context(require("psycopg").connect(self._road.dsn))
            audit = stack.enter_context(closing(self._road.reader("audit")))
            gauge = Gauge(connection, audit)
            if self._plan.goes_ahead:
                self._go_ahead(gauge)
            port, plan = self._road.producer.port, self._plan
            with Load(port, plan.rate, plan.most) as self._load:
                self._in_use(connection, gauge)
            self._stages.begin("the rest arrives")
            self._until(gauge, lambda sample: sample.is_drained, "not everything arrived")
            self._listener.say("nothing is on its way any more: both ends are compared")
            self._samples = tuple(gauge.samples)
        return self.judge()

    def _go_ahead(self, gauge: Gauge) -> None:
        """A few heroes, to see that the road is open: Spark takes its time to start."""
        self._stages.begin("Spark starts")
        with Load(self._road.producer.port, AHEAD, AHEAD) as load:
            load.wait()
        self._until(gauge, lambda sample: sample.is_drained, "no hero came to the last table")
        self._listener.say("the first heroes have arrived in the table at the end")

    def _in_use(self, connection: Connection, gauge: Gauge) -> None:
        """The time of the three kills, each when its victim has done something."""
        self._stages.begin("a relay is killed")
        self._until(gauge, lambda sample: sample.relayed > 0, "nothing was relayed")
        self._strike(gauge, lambda: self._road.kill_relay(connection))
        self._until_relayed(gauge, "nothing was relayed after a relay was killed")
        self._stages.begin("the broker is killed")
        self._strike(gauge, self._road.kill_broker)
        self._until_relayed(gauge, "nothing was relayed after the broker was killed")
        if not gauge.sample().arrived:
            self._stages.begin("Spark starts")
            self._until_more_arrived(gauge, "no hero came to the last table")
        self._stages.begin("the driver of Spark is killed")
        self._strike(gauge, self._road.kill_driver)
        self._stages.begin("Spark starts again")
        self._until_more_arrived(gauge, "nothing arrived after the last kill")
        self._listener.say("heroes arrive again")
        self._stages.begin("heroes arrive again")
        self._pass(gauge, self._plan.pause)

    def _until_relayed(self, gauge: Gauge, otherwise: str) -> None:
        """Wait until more has been relayed than now, or nothing is left to be."""
        before = gauge.sample().relayed
        self._until(gauge, lambda sample: sample.relayed > before or not sample.waiting, otherwise)

    def _until_more_arrived(self, gauge: Gauge, otherwise: str) -> None:
        before = gauge.sample().arrived
        self._until(gauge, lambda sample: sample.arrived > before, otherwise)

    def _strike(self, gauge: Gauge, strike: Callable[[], Kill]) -> None:
        self._pass(gauge, self._plan.pause)
        at = gauge.now
        kill = strike()
        self._killed.append((at, kill))
        self._listener.killed(kill, at)

    def _pass(self, gauge: Gauge, seconds: float) -> None:
        end = gauge.now + seconds
        self._until(gauge, lambda sample: sample.at >= end, "time did not pass")

    def _until(self, gauge: Gauge, met: Callable[[Sample], bool], otherwise: str) -> None:
        def ask() -> bool | None:
            self._road.check_alive()
            sample = gauge.sample()
            self._listener.show(sample)
            if self._load is not None:
                self._load.hold(sample.on_the_way >= self._plan.crowd)
            return True if met(sample) else None

        wait_for(ask, otherwise, log=self._road.logs)

    def judge(self) -> Demonstration:
        """Have both ends compared as they are now.

        Raises:
            NoVerdict: Nobody could say how it went.
        """
        road = self._road
        self._stages.begin("the verdict")
        with ThreadPoolExecutor() as pool:  # both at once: most of the time they only start
            asked = [
                pool.submit(ask_verdict, end, arguments, road.directory)
                for end, arguments in road.comparisons().items()
            ]
        verdicts = tuple(each.result() for each in asked)
        with (
            require("psycopg").connect(road.dsn) as connection,
            closing(road.reader("heroes")) as heroes,
        ):
            written, arrived = table_moments(connection)
            delays = stretches(written, queue_moments(heroes), arrived, road.log_name)
            return Demonstration(
                killed=tuple(self._killed),
                verdicts=verdicts,
                wrong_totals=tables.wrong_totals(connection),
                totals=tables.totals(connection),
                stretches=tuple(delays),
                samples=self._samples,
                stages=self._stages.so_far(),
            )
