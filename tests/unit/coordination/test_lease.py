from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from windrow.clock import ManualClock
from windrow.coordination.lease import KeptLease, LeaseTerm, Renew
from windrow.errors import Unreachable

START = 1_000.0


class Renewals:
    """A store's answers to renewals, one after the other, and when they were asked for."""

    def __init__(self, clock: ManualClock, *answers: float | Exception) -> None:
        self.clock = clock
        self.answers = list(answers)
        self.asked_at: list[float] = []
        self.patience: list[float] = []

    async def renew(self, lease: int, patience: float) -> float:
        self.asked_at.append(self.clock.monotonic() - START)
        self.patience.append(patience)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def no_revoke(lease: int) -> None:
    """Nothing to end."""


async def pass_time(clock: ManualClock, seconds: float, step: float = 0.5) -> None:
    for _ in range(int(seconds / step)):
        await settle()
        clock.advance(step)
    await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def with_lease(
    scenario: Callable[[KeptLease, ManualClock], Awaitable[None]],
    renew: Callable[[ManualClock], Renew | None],
) -> None:
    async def run() -> None:
        clock = ManualClock(START)
        lease = KeptLease.begin(7, LeaseTerm(30.0, START), no_revoke, renew(clock), clock)
        try:
            await scenario(lease, clock)
        finally:
            await lease.let_go()

    asyncio.run(run())


AWAY = Unreachable("etcd", "somewhere", "not connected")


def test_lease_is_renewed_a_third_into_its_term() -> None:
    answers: list[Renewals] = []

    def renew(clock: ManualClock) -> Renew:
        answers.append(Renewals(clock, 30.0, 30.0, 30.0, 30.0))
        return answers[0].renew

    async def scenario(lease: KeptLease, clock: ManualClock) -> None:
        await pass_time(clock, 35)
        assert answers[0].asked_at == [10.0, 20.0, 30.0]
        assert not lease.lost.is_set()

    with_lease(scenario, renew)


def test_lease_that_cannot_be_renewed_is_tried_often_and_lost_at_the_end_of_its_term() -> None:
    """Counted from when the last renewal was sent: the store cannot have ended it before."""
    answers: list[Renewals] = []

    def renew(clock: ManualClock) -> Renew:
        answers.append(Renewals(clock, 30.0, *[AWAY] * 100))
        return answers[0].renew

    async def scenario(lease: KeptLease, clock: ManualClock) -> None:
        await pass_time(clock, 39.5)
        assert not lease.lost.is_set()
        assert answers[0].asked_at[:4] == [10.0, 20.0, 21.5, 23.0]
        assert answers[0].patience[:3] == [20.0, 20.0, 18.5]
        await pass_time(clock, 0.5)
        assert lease.lost.is_set()

    with_lease(scenario, renew)


def test_lease_that_comes_back_in_time_is_not_lost() -> None:
    def renew(clock: ManualClock) -> Renew:
        return Renewals(clock, *[AWAY] * 10, *[30.0] * 10).renew

    async def scenario(lease: KeptLease, clock: ManualClock) -> None:
        await pass_time(clock, 60)
        assert not lease.lost.is_set()

    with_lease(scenario, renew)


def test_lease_the_store_knows_no_more_is_lost_at_once() -> None:
    def renew(clock: ManualClock) -> Renew:
        return Renewals(clock, 30.0, 0.0).renew

    async def scenario(lease: KeptLease, clock: ManualClock) -> None:
        await pass_time(clock, 19.5)
        assert not lease.lost.is_set()
        await pass_time(clock, 0.5)
        assert lease.lost.is_set()

    with_lease(scenario, renew)


def test_lease_whose_renewal_fails_as_nobody_foresaw_is_called_lost_not_forgotten() -> None:
    def renew(clock: ManualClock) -> Renew:
        return Renewals(clock, ZeroDivisionError("a mistake of ours")).renew

    async def scenario(lease: KeptLease, clock: ManualClock) -> None:
        await pass_time(clock, 10)
        assert lease.lost.is_set()

    with_lease(scenario, renew)


def test_process_that_was_held_up_for_a_whole_term_counts_its_lease_as_lost() -> None:
    def renew(clock: ManualClock) -> Renew:
        return Renewals(clock, 30.0).renew

    async def scenario(lease: KeptLease, clock: ManualClock) -> None:
        await settle()
        clock.advance(31)
        await settle()
        assert lease.lost.is_set()

    with_lease(scenario, renew)


def test_lease_without_renewal_ends_with_its_term() -> None:
    async def scenario(lease: KeptLease, clock: ManualClock) -> None:
        await pass_time(clock, 29.5)
        assert not lease.lost.is_set()
        await pass_time(clock, 0.5)
        assert lease.lost.is_set()

    with_lease(scenario, lambda clock: None)


def test_lease_we_let_go_is_not_called_lost() -> None:
    async def scenario(lease: KeptLease, clock: ManualClock) -> None:
        await lease.let_go()
        await pass_time(clock, 60)
        assert not lease.lost.is_set()

    with_lease(scenario, lambda clock: None)
