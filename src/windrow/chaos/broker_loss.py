"""The road to Kafka: an ordered relay instead of competing ones, and a broker that dies."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from windrow.chaos.accounts import Arrival, Ends, Kind, Written
from windrow.chaos.databases import Server
from windrow.chaos.errors import NotRun
from windrow.chaos.options import Options
from windrow.chaos.world import PlaypenWorld
from windrow.embedded.process import find_program
from windrow.errors import MissingExtra, NotInstalled
from windrow.extras import require
from windrow.playpen import Stream
from windrow.playpen.messages import HERO_CREATED, MESSAGE_ID_HEADER

if TYPE_CHECKING:
    from windrow.embedded.kafka import KafkaBroker

_PARTITIONS = 3
_READ_TIMEOUT = 30.0


class KafkaWorld(PlaypenWorld):
    """The same producer and the same stream without a control; a topic is the receiver."""

    def __init__(self, scenario: str, options: Options, server: Server) -> None:
        """Bring everything up; ``close`` ends it.

        Raises:
            NotRun: Kafka is not installed, or the outbox is not in PostgreSQL.
        """
        if options.database != "postgres":
            raise NotRun(scenario, "ordered relays are for PostgreSQL")
        with ExitStack() as stack:
            self._broker = stack.enter_context(_start_broker(scenario))
            super().__init__(scenario, options, server)
            self._brokers = stack.pop_all()

    def close(self) -> None:
        """End everything, the broker last."""
        try:
            super().close()
        finally:
            self._brokers.close()

    def kill_receiver(self) -> None:
        """Kill the broker: it is what receives here."""
        self._broker.kill()

    def restart_receiver(self) -> None:
        """Bring the broker up again on what it has."""
        self._broker.restart()

    def make_well(self) -> None:  # noqa: D102 - see PlaypenWorld
        super().make_well()
        if not self._broker.is_alive():
            self._broker.restart()

    def _variables(self, scenario: str, receiver_url: str) -> dict[str, str]:
        return {
            "WINDROW__DATABASE__DSN": self._dsn,
            "WINDROW__KAFKA__BOOTSTRAP": self._broker.bootstrap,
            "WINDROW__RELAY__MODE": "barrier",
            "WINDROW__RELAY__TARGET": "kafka",
        }

    def _make_stream(self) -> Stream:
        return Stream(
            self._producer.url,
            self._directory / "stream",
            rate=self._options.rate,
            sync_share=0.0,
        )

    def ends(self) -> Ends:  # noqa: D102 - see PlaypenWorld
        written: dict[Kind, list[Written]] = {"outbox": self._written("outbox")}
        return Ends(written, list(self._arrivals()), self._heroes_waiting())

    def _arrivals(self) -> Iterator[Arrival]:
        kafka = require("confluent_kafka")
        consumer = kafka.Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap,
                "group.id": f"chaos-{secrets.token_hex(4)}",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        try:
            places = [
                kafka.TopicPartition(HERO_CREATED, number, 0) for number in range(_PARTITIONS)
            ]
            consumer.assign(places)
            ended: set[int] = set()
            while len(ended) < _PARTITIONS:
                message = consumer.poll(_READ_TIMEOUT)
                if message is None:
                    raise NotRun("broker-loss", "the topic could not be read to its end")
                if message.error() is None:
                    yield _arrival(message)
                elif message.error().code() == kafka.KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        finally:
            consumer.close()


def _arrival(message: Any) -> Arrival:
    headers = dict(message.headers() or [])
    id_ = headers.get(MESSAGE_ID_HEADER, b"").decode()
    return Arrival(message.key().decode(), id_, message.timestamp()[1] / 1000)


def _start_broker(scenario: str) -> KafkaBroker:
    try:
        find_program("java", "openjdk-17-jre-headless")
        from windrow.embedded.kafka import KafkaBroker

        broker = KafkaBroker.start()
    except (NotInstalled, MissingExtra) as error:
        raise NotRun(scenario, str(error)) from error
    try:
        broker.create_topic(HERO_CREATED, _PARTITIONS)
    except BaseException:
        broker.stop()
        raise
    return broker
