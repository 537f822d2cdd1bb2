"""A token that is never lost on its way."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from windrow.journal.broker.ownership import GivenUp, Token
from windrow.journal.broker.signals import Signal, first_set


def test_it_goes_to_those_who_wait_in_turn() -> None:
    async def story() -> None:
        token = Token("it")
        assert await token.take() == "it"
        order: list[int] = []

        async def wait(number: int) -> None:
            value = await token.take()
            order.append(number)
            token.give(value)

        tasks = [asyncio.create_task(wait(number)) for number in range(3)]
        await asyncio.sleep(0)
        assert token.is_awaited
        token.give("it")
        await asyncio.gather(*tasks)
        assert order == [0, 1, 2]
        assert token.is_here

    asyncio.run(story())


def test_a_waiter_gives_up_when_an_event_is_set() -> None:
    async def story() -> None:
        token, event = Token("it"), Signal()
        value = token.take_now()
        waiter = asyncio.create_task(token.take(unless=(event,)))
        await asyncio.sleep(0)
        event.set()
        with pytest.raises(GivenUp):
            await waiter
        token.give(value)
        assert token.is_here

    asyncio.run(story())


def test_a_token_handed_to_a_waiter_that_is_cancelled_meanwhile_goes_on() -> None:
    """The classic bug: the cancelled waiter swallows it, and the journal stands still for ever."""

    async def story() -> None:
        token, event = Token("it"), Signal()
        value = token.take_now()
        first = asyncio.create_task(token.take(unless=(event,)))
        second = asyncio.create_task(token.take(unless=(event,)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        token.give(value)
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        async with asyncio.timeout(1):
            assert await second == "it"

    asyncio.run(story())


def test_a_token_survives_any_mixture_of_takers_cancellations_and_events() -> None:
    async def story(chance: random.Random) -> None:
        token = Token("it")

        async def take(event: Signal) -> None:
            with contextlib.suppress(GivenUp):
                value = await token.take(unless=(event,))
                if chance.random() < 0.5:
                    await asyncio.sleep(0)
                token.give(value)

        for _ in range(40):
            events = [Signal() for _ in range(6)]
            tasks = [asyncio.create_task(take(event)) for event in events]
            for event in events:
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
                if chance.random() < 0.3:
                    event.set()
            await asyncio.gather(*tasks)
            assert token.is_here
            assert not token.is_awaited

    for seed in range(30):
        asyncio.run(story(random.Random(seed)))


def test_its_holder_learns_that_others_wait_and_the_next_one_whether_more_do() -> None:
    async def story() -> None:
        token = Token("it")
        await token.take()
        assert not token.wanted.is_set()
        waiters = [asyncio.create_task(token.take()) for _ in range(2)]
        await asyncio.sleep(0)
        assert token.wanted.is_set()
        token.give("it")
        await waiters[0]
        assert token.wanted.is_set()
        token.give("it")
        await waiters[1]
        assert not token.wanted.is_set()

    asyncio.run(story())


def test_it_cannot_be_given_back_twice() -> None:
    token = Token("it")
    with pytest.raises(AssertionError, match="given back twice"):
        token.give("it")


def test_the_first_event_of_several_is_enough() -> None:
    async def story() -> None:
        events = [Signal() for _ in range(3)]
        waiter = asyncio.create_task(first_set(*events))
        await asyncio.sleep(0)
        events[1].set()
        async with asyncio.timeout(1):
            await waiter

    asyncio.run(story())
