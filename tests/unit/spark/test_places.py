"""Where queues live: declared, by default, and the graph's own; nothing secret is shown."""

from __future__ import annotations

import pickle

from windrow.config import Config, Secret
from windrow.graph import Graph, Queue, Source, processor
from windrow.spark.places import (
    Connections,
    JournalSettings,
    Place,
    connections_of,
    partition_journal,
    place_of,
    places_of,
)


@processor(alts=["orders", "prices"], writes=["paid", "refused"])
def pay(msgs: object, ctx: object) -> None: ...


@processor(reads="paid")
def announce(msgs: object, ctx: object) -> None: ...


QUEUES = [
    Queue("orders", kafka="shop.orders", partitions=6),
    Queue("prices", journal="catalog/prices", partitions=3, options={"a": 1}),
    Queue("refused", postgres="shop.refused"),
]
SHOP = Graph("shop", [Source("orders"), Source("prices"), pay, announce], queues=QUEUES)
NOWHERE = Connections()


def test_declared_queue_lives_where_it_was_declared() -> None:
    assert place_of(SHOP, "orders", NOWHERE) == Place("orders", "kafka", "shop.orders", 6)
    prices = place_of(SHOP, "prices", NOWHERE)
    assert (prices.backend, prices.address) == ("journal", "catalog/prices")
    assert prices.options == {"a": 1}
    assert place_of(SHOP, "refused", NOWHERE).backend == "postgres"


def test_other_queues_live_in_journals_of_their_graph() -> None:
    assert place_of(SHOP, "paid", NOWHERE) == Place("paid", "journal", "shop/paid")


def test_staging_queue_has_as_many_partitions_as_the_inputs_of_its_processor() -> None:
    staged = place_of(SHOP, "_stage/shop/pay", NOWHERE)
    assert staged == Place("_stage/shop/pay", "journal", "_stage/shop/pay", 6)
    assert place_of(SHOP, "_stage/shop/announce", NOWHERE).partitions is None
    assert place_of(SHOP, "_progress/shop/pay", NOWHERE).partitions is None


def test_partitions_are_journals_of_their_own_and_a_single_one_is_the_journal_itself() -> None:
    assert Place("q", "journal", "shop/q").journals == ("shop/q",)
    assert Place("q", "journal", "shop/q", 1).journals == ("shop/q",)
    assert Place("q", "journal", "shop/q", 2).journals == ("shop/q/part-000", "shop/q/part-001")
    assert partition_journal("shop/q", 1234) == "shop/q/part-1234"


def test_configuration_says_how_everything_is_reached() -> None:
    config = Config.model_validate(
        {
            "kafka": {
                "bootstrap": "k:9092",
                "properties": {"sasl.password": "hush", "client.id": "me"},
                "producer": {"linger.ms": 5},
            },
            "journal": {"address": "b:8080", "token": Secret("hush")},
            "database": {"dsn": "postgresql://me:hush@db/shop"},
        }
    )
    connections = connections_of(config, JournalSettings(replication=3))
    assert connections.kafka == {
        "bootstrap.servers": "k:9092",
        "sasl.password": "hush",
        "client.id": "me",
    }
    assert connections.kafka_producer == {"linger.ms": 5}
    assert connections.journal.addresses == ("b:8080",)
    assert connections.postgres_dsn is not None
    assert connections.postgres_dsn.reveal() == "postgresql://me:hush@db/shop"
    assert connections.journals.replication == 3
    places = places_of(SHOP, ["orders", "paid"], connections)
    assert list(places) == ["orders", "paid"]
    assert "hush" not in f"{connections!r} {places!r} {places['orders']}"


def test_place_arrives_whole_in_another_process_and_is_known_there() -> None:
    place = place_of(SHOP, "prices", Connections(kafka={"a": "b"}))
    copy = pickle.loads(pickle.dumps(place))
    assert copy == place
    assert len({copy, place}) == 1
    assert place != place_of(SHOP, "prices", NOWHERE), "another way there is another place"
