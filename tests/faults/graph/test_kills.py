"""Kill drivers, JVMs and whole families of them in the middle of a graph, and count every queue."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest

from tests.faults.graph.bench import PATIENCE, GraphBench, Scene
from tests.faults.graph.trial import FOR_EVER
from windrow.points import Act, Strike
from windrow.testing import FaultLog, FaultPart, Moment

PIPE_KILLS = (
    "graph.snapshot-after",
    "graph.run-during",
    "graph.write-after",
    "graph.attempt-after",
    "graph.deliver-after",
)
"""Where the driver of a pipe is killed, in the order in which a batch passes them."""
NAIVE_KILL = "graph.write-after"
"""The kill at which the naive sink has written, too, and could not say so."""
FORK_KILLS = ("graph.recover-after", "graph.write-after", "graph.fan-out-after")
ALL_POINTS = (
    "graph.plan-before",
    "graph.snapshot-before",
    "graph.snapshot-after",
    "graph.read-before",
    "graph.read-after",
    "graph.run-during",
    "graph.write-before",
    "graph.write-after",
    "graph.attempt-before",
    "graph.attempt-after",
    "graph.deliver-before",
    "graph.deliver-after",
    "graph.recover-before",
    "graph.recover-after",
)
STRESS, SOAKED = 50_000, 1_000_000


def kill(
    part: FaultPart, scene: Scene, point: str, *, victim: str = "driver", nth: int = 1
) -> None:
    """Kill the driver, or its JVM and then the driver, while somebody waits at a point."""
    bench, points = scene.bench, scene.bench.points
    driver = bench.driver
    points.want(point, Strike("wait", nth))
    ticket = driver.ask(scene.order(runs="once", settings={"max_rows": 40}))
    part.inject(
        "kill",
        driver.jvm if victim == "jvm" else driver.pid,
        driver.kill_jvm if victim == "jvm" else bench.kill_driver,
        work=partial(scene.passed, point, ticket),
        at=Moment(point=point),
        reach=partial(scene.wait_for, point, ticket),
        patience=PATIENCE,
    )
    points.release(point)
    if victim == "jvm":
        bench.kill_driver()


@pytest.mark.proves("graph-exactly-once")
def test_killed_drivers_of_a_pipe_leave_each_output_once_and_a_naive_sink_doubles(
    bench: GraphBench, faults: FaultLog
) -> None:
    """The naive sink writes what it gets beside it, in the same driver: its repeats are seen."""
    part = faults.part("graph")
    scene = bench.scene("pipe")
    for point in PIPE_KILLS:
        scene.send(40)
        if point == NAIVE_KILL:
            bench.points.want("naive.written", Strike("wait"))
            bench.driver.ask(scene.order(runs="naive"))
            bench.points.wait_for("naive.written", PATIENCE)
        kill(part, scene, point)
        bench.points.release("naive.written")
    scene.finish(runs="naive")
    scene.finish(runs="once")
    scene.settle(part)
    assert scene.retries() > 0
    naive = scene.naive.read_text().split()
    everything = {f"a{n}" for n in range(scene.given["a"])}
    assert set(naive) == everything
    assert len(naive) > len(everything), "the control shows that repeats would be seen"


@pytest.mark.proves("graph-exactly-once")
def test_killed_drivers_and_jvms_of_a_fork_leave_an_output_or_an_error(
    bench: GraphBench, faults: FaultLog
) -> None:
    part = faults.part("graph")
    scene = bench.scene("fork")
    for nth, point in enumerate(FORK_KILLS):
        scene.send(40)
        kill(part, scene, point, victim="jvm" if nth else "driver", nth=nth + 1)
    scene.finish(runs="once")
    scene.settle(part)
    assert scene.retries() > 0


@pytest.mark.proves("graph-exactly-once")
def test_stress_graph_balances_on_all_queues_with_kills_on_the_way(
    bench: GraphBench, faults: FaultLog, pytestconfig: pytest.Config
) -> None:
    """Joins, a fork, and a counter behind each of its outputs."""
    part = faults.part("graph")
    soaked = pytestconfig.getoption("soak")
    count = SOAKED if soaked else STRESS
    scene = bench.scene("stress")
    scene.send(count)
    for moment in part.kill_times(20 if soaked else 2, ALL_POINTS[6:], within=(0.0, 2.0)):
        kill_at(part, scene, moment)
    scene.finish(runs="once", settings={"max_rows": 20_000})
    verdict = scene.settle(part)
    assert verdict.delivered == 4 * count


def kill_at(part: FaultPart, scene: Scene, moment: Moment) -> None:
    """Kill the driver at a point, or after so many seconds of work."""
    bench, points = scene.bench, scene.bench.points
    driver, point = bench.driver, moment.point
    if point:
        points.want(point, Strike("wait", nth=3))
    ticket = driver.ask(scene.order(runs="once", settings={"max_rows": 20_000}))
    part.inject(
        "kill",
        driver.pid,
        bench.kill_driver,
        work=partial(scene.passed, point, ticket) if point else scene.progress,
        at=moment,
        reach=partial(scene.wait_for, point, ticket) if point else None,
        patience=PATIENCE,
    )
    if point:
        points.release(point)


@pytest.mark.proves("graph-exactly-once")
def test_driver_that_was_paused_and_taken_over_writes_nothing_more(
    bench: GraphBench, faults: FaultLog
) -> None:
    """Two drivers on one checkpoint: all processes of the first stand still until it is over."""
    part = faults.part("graph")
    scene = bench.scene("pipe")
    scene.send(40)
    points, zombie = bench.points, bench.driver
    points.want("graph.write-before", Strike("wait"))
    ticket = zombie.ask(scene.order())
    part.inject(
        "pause",
        zombie.pid,
        zombie.pause,
        work=lambda: points.passed("graph.write-before"),
        at=Moment(point="graph.write-before"),
        reach=lambda: points.wait_for("graph.write-before", PATIENCE),
        patience=PATIENCE,
    )
    successor = bench.another_driver()
    answer = successor.answer(successor.ask(scene.order()))
    assert answer.is_clean, answer
    points.release("graph.write-before")
    zombie.resume()
    assert zombie.answer(ticket).kind == "fenced"
    successor.stop()
    scene.send(10)
    scene.finish()
    scene.settle(part)


@pytest.mark.proves("graph-side-effects")
def test_effects_of_a_killed_driver_are_repeated_under_the_same_hash_or_not_at_all(
    bench: GraphBench, faults: FaultLog
) -> None:
    part = faults.part("graph")
    least, most = bench.scene("effects"), bench.scene("once")
    least.send(5)
    kill(part, least, "graph.write-before")  # done, and not marked
    most.send(40)
    kill(part, most, "graph.write-after")  # claimed, and not done
    for scene in (least, most):
        scene.send(5)
        scene.finish()
    done = [what for _, what in least.found("effects")]
    least.settle(part, may_repeat=[("effects", what) for what in done])
    assert len(done) == 15
    assert len({digest for _, _, digest in least.effects_done()}) == 10
    most.settle(part, maybe=[("effects", f"a{n}") for n in range(40)])
    assert [what for _, what in most.found("effects")] == [f"a{n}" for n in range(40, 45)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All points of all shapes are for a soak; of these, every run takes two."""
    if "point" in metafunc.fixturenames:
        everything = list(product(("pipe", "alts", "join", "fork", "guess"), ALL_POINTS))
        few = [("alts", "graph.read-after"), ("join", "graph.deliver-before")]
        chosen = everything if metafunc.config.getoption("soak") else few
        metafunc.parametrize(("shape", "point"), chosen)


@pytest.mark.proves("graph-exactly-once")
def test_point_of_a_shape_can_be_struck_in_every_way(
    bench: GraphBench, faults: FaultLog, pytestconfig: pytest.Config, shape: str, point: str
) -> None:
    """Again and again, without ever coming to an end in between; in a soak it is killed, too."""
    part = faults.part("graph")
    soaked = pytestconfig.getoption("soak")
    scene = bench.scene(shape)
    # Recovery is passed once by each query, in the driver itself.
    is_recovery = "recover" in point
    strikes: tuple[Act, ...] = ("raise",) if is_recovery else ("raise", "exit")
    for act, nth in product(strikes, (1, 2, 3) if soaked and not is_recovery else (1,)):
        scene.send(20)
        scene.strike(part, point, Strike(act, nth, FOR_EVER), settings={"max_rows": 5})
    if soaked:
        scene.send(20)
        kill(part, scene, point)
    scene.finish()
    scene.settle(part)
