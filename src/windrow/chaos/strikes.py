"""How does each scenario strike? One small class each, under the name of its declaration.

A strike begins with everything well and the stream running, and ends with everything well again;
what is still to be delivered then is not its business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from windrow.chaos.scenarios import CLAIMED, POINTS
from windrow.chaos.stage import Stage

HOUR = 3600.0


class Strike(Protocol):
    """What a scenario does."""

    def __call__(self, stage: Stage) -> None:
        """Strike, and make well again."""


class ReceiverOffline:
    """S1."""

    def __call__(self, stage: Stage) -> None:  # noqa: D102 - see Strike
        with stage.fault("receiver offline"):
            stage.world.kill_receiver()
            stage.elapse(0.5)
            stage.world.restart_receiver()


class ReceiverFailing:
    """S2."""

    def __call__(self, stage: Stage) -> None:  # noqa: D102 - see Strike
        with stage.fault("a third fails"):
            stage.world.set_fault(mode="fail", rate=0.34, seed=stage.dice.randrange(1 << 31))
            stage.elapse(0.6)
            stage.world.set_fault()


class ReceiverHolding:
    """S3: first without having kept the message, then only the answer is held back."""

    def __call__(self, stage: Stage) -> None:  # noqa: D102 - see Strike
        with stage.fault("requests held"):
            stage.world.set_fault(mode="hold", when="before")
            stage.elapse(0.4)
        with stage.fault("answers held"):
            stage.world.set_fault(mode="hold", when="after")
            stage.elapse(0.2)
            stage.world.set_fault()


class EventLoopStalls:
    """S4."""

    def __call__(self, stage: Stage) -> None:  # noqa: D102 - see Strike
        # About one request in two seconds: more, and nothing else would ever be answered.
        share = min(1.0, 0.25 / stage.options.rate)
        seed = stage.dice.randrange(1 << 31)
        with stage.fault("event loop stalls"):
            stage.world.set_fault(mode="stall", rate=share, seconds=1.2, seed=seed)
            stage.elapse(0.6)
            stage.world.set_fault()


class ClientErrors:
    """S5; the dead letters are retried at the end, when nothing can be buried any more."""

    def __call__(self, stage: Stage) -> None:  # noqa: D102 - see Strike
        with stage.fault("all refused"):
            stage.world.set_fault(mode="reject")
            stage.elapse(0.5)
            stage.wait(lambda: bool(stage.world.buried()), "a dead letter")
            stage.world.set_fault()


class DatabaseOutage:
    """S6."""

    def __call__(self, stage: Stage) -> None:  # noqa: D102 - see Strike
        with stage.fault("database down"):
            stage.world.kill_database()
            stage.elapse(0.2)
            stage.world.restart_database()
        stage.elapse(0.1)
        self._pause_holder(stage)

    def _pause_holder(self, stage: Stage) -> None:
        world = stage.world
        if len(world.relay_names()) < 2:
            world.start_relay()  # somebody has to take over
        world.want_wait(CLAIMED)
        stage.wait(lambda: world.waiting_at(CLAIMED) is not None, f"a relay at {CLAIMED}")
        holder = world.waiting_at(CLAIMED)
        assert holder is not None, "it waits there until it is released"
        with stage.fault("a lock holder paused"):
            world.pause_relay(holder)
            world.release(CLAIMED)
            stage.elapse(max(world.lock_expiry * 1.25 / stage.options.seconds, 0.2))
            world.resume_relay(holder)


class RelayDies:
    """S7."""

    def __call__(self, stage: Stage) -> None:  # noqa: D102 - see Strike
        for is_with_another in (True, False):
            for point in stage.dice.sample(POINTS, len(POINTS)):
                self._kill_at(stage, point, is_with_another)
        for _ in range(stage.options.relays - len(stage.world.relay_names())):
            stage.world.start_relay()

    def _kill_at(self, stage: Stage, point: str, is_with_another: bool) -> None:
        world = stage.world
        if is_with_another and len(world.relay_names()) < 2:
            world.start_relay()
        if not is_with_another:
            for name in world.relay_names()[1:]:
                world.kill_relay(name)
        world.want_kill(point)
        stage.wait(lambda: world.killed_at(point) is not None, f"a relay at {point}")
        stage.struck(f"killed at {point.removeprefix('competing.')}")
        world.start_relay()


class ClockSkew:
    """Relays that are wrong about the time."""

    def __call__(self, stage: Stage) -> None:  # noqa: D102 - see Strike
        world = stage.world
        honest = world.relay_names()
        ahead, behind = world.start_relay(HOUR), world.start_relay(-HOUR)
        with stage.fault("only relays with wrong clocks"):
            for name in honest:
                world.kill_relay(name)
            stage.wait(lambda: world.waiting() == 0, "a delivery by relays with wrong clocks")
            stage.elapse(0.2)
            world.kill_relay(ahead)
            stage.elapse(0.2)
            stage.wait(lambda: world.waiting() == 0, "the locks of a relay with a wrong clock")
        world.start_relay()
        world.kill_relay(behind)


class SlowNetwork:
    """Late bytes, then none."""

    def __call__(self, stage: Stage) -> None:  # noqa: D102 - see Strike
        with stage.fault("200 ms each way"):
            stage.world.delay_network(0.2)
            stage.elapse(0.25)
        with stage.fault("nothing passes"):
            stage.world.stall_network()
            stage.elapse(0.4)
            stage.world.delay_network(0.0)
            stage.world.reset_network()


class BrokerLoss:
    """The receiver of this road is a broker of Kafka."""

    def __call__(self, stage: Stage) -> None:  # noqa: D102 - see Strike
        with stage.fault("broker down"):
            stage.world.kill_receiver()
            stage.elapse(0.3)
            stage.world.restart_receiver()


STRIKES: dict[str, Callable[[], Strike]] = {
    "S1": ReceiverOffline,
    "S2": ReceiverFailing,
    "S3": ReceiverHolding,
    "S4": EventLoopStalls,
    "S5": ClientErrors,
    "S6": DatabaseOutage,
    "S7": RelayDies,
    "clock-skew": ClockSkew,
    "slow-network": SlowNetwork,
    "broker-loss": BrokerLoss,
}
