"""Cut, stall and reset the links between brokers, etcd and clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import cycle, product
from pathlib import Path

import pytest

from tests.faults.journal_bench import (
    JOURNALS,
    BenchBroker,
    JournalBench,
    journal_bench,
    rounds,
)
from tests.fixtures.relaying import wait_for
from windrow.embedded.link import Link
from windrow.testing import FaultLog

Harm = Callable[[Link], None]
HARMS: tuple[Harm, ...] = (Link.cut, Link.stall, Link.reset)


def heal(link: Link) -> None:
    link.resume()
    link.restore()


def between_members(bench: JournalBench, primary: BenchBroker, replica: BenchBroker) -> list[Link]:
    """One way only: the replica can still call the primary."""
    return [primary.links[replica.zone]]


def around_primary(bench: JournalBench, primary: BenchBroker, replica: BenchBroker) -> list[Link]:
    """Both ways: clients and etcd see it alive, and no peer does."""
    inward = [
        broker.links[primary.zone] for broker in bench.brokers.values() if broker is not primary
    ]
    return [*primary.links.values(), *inward]


def to_etcd(bench: JournalBench, primary: BenchBroker, replica: BenchBroker) -> list[Link]:
    return [bench.etcd_links[primary.zone]]


def to_clients(bench: JournalBench, primary: BenchBroker, replica: BenchBroker) -> list[Link]:
    return list(bench.client_links.values())


Place = Callable[[JournalBench, BenchBroker, BenchBroker], list[Link]]
PLACES: tuple[Place, ...] = (between_members, around_primary, to_etcd, to_clients)


def wait_until_felt(bench: JournalBench, place: Place, victim: BenchBroker, journal: str) -> None:
    """Hold the partition until somebody has noticed."""
    if place is to_etcd:
        wait_for(lambda: not victim.is_alive(), "a broker cut off for longer than its lease ends")
        bench.wait_for_appends("the others go on without it")
        return
    bench.wait_for_trouble(journal, "linked" if place is to_clients else None)


@pytest.mark.proves("journal-append")
def test_partitions_lose_no_acknowledged_append_and_show_no_other(
    faults: FaultLog, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Every kind of harm in every place.

    Cut off from its peers a primary acknowledges nothing, and cut off from etcd for longer than
    its lease it ends.
    """
    part = faults.part("journal")
    journals = cycle(JOURNALS)
    with journal_bench(pytestconfig, tmp_path) as bench:
        for place, harm in product(PLACES * rounds(pytestconfig, 1, 8), HARMS):
            journal = next(journals)
            bench.wait_for_balance()  # what moves meanwhile would not feel it
            victim = bench.primary(journal)
            links = place(bench, victim, bench.replica(journal))

            def act(harm: Harm = harm, links: list[Link] = links) -> None:
                for link in links:
                    harm(link)

            part.inject(harm.__name__, victim, act, work=bench.progress)
            if harm is not Link.reset:
                wait_until_felt(bench, place, victim, journal)
            for link in links:
                heal(link)
            bench.recover()
        bench.settle(part)


@pytest.mark.proves("journal-append")
def test_an_etcd_that_no_broker_reaches_stops_nobody_before_its_lease_and_loses_nothing(
    faults: FaultLog, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Appends need it only to change a route; without it for long, every broker ends."""
    part = faults.part("journal")
    with journal_bench(pytestconfig, tmp_path, flags={"etcd-lease": "8s"}) as bench:
        for _ in range(rounds(pytestconfig, 1, 10)):
            bench.wait_for_balance()
            links = bench.etcd_links.values()

            def act(links: Iterable[Link] = links) -> None:
                for link in links:
                    link.cut()

            part.inject("cut", bench.primary(), act, work=bench.progress)
            bench.wait_for_appends("the journals are served without etcd", timeout=5.0)
            wait_for(
                lambda: not any(broker.is_alive() for broker in bench.brokers.values()),
                "brokers cut off for longer than their lease end",
            )
            for link in links:
                heal(link)
            bench.recover()
        bench.settle(part)
