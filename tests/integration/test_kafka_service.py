"""Kafka, used for real, killed, and gone afterwards."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.processes import eventually, is_gone
from tests.fixtures.services import start_service
from windrow.embedded.groups import find_process, living_family
from windrow.embedded.jars import fetch
from windrow.embedded.kafka import KafkaBroker, create_topic
from windrow.embedded.kafka_archive import place_of_archive
from windrow.embedded.link import Link
from windrow.embedded.link_rules import Direction
from windrow.embedded.ports import port_answers
from windrow.embedded.process import find_program, groups_below
from windrow.errors import StartFailed

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer

STARTER = """
from windrow.embedded.kafka import KafkaBroker
broker = KafkaBroker.start()
print(broker.pid, broker.directory, flush=True)
input()
"""


@pytest.fixture(scope="module")
def link() -> Iterator[Link]:
    with Link.start() as link:
        yield link


@pytest.fixture(scope="module")
def own_kafka(pytestconfig: pytest.Config, link: Link) -> Iterator[KafkaBroker]:
    """A broker of this file's own, behind a link as well, to be killed and paused."""
    start = partial(KafkaBroker.start, link=link)
    with start_service(pytestconfig, "Kafka (own)", start) as broker:
        yield broker


@pytest.fixture
def own_topic(own_kafka: KafkaBroker) -> str:
    name = f"test-{secrets.token_hex(6)}"
    own_kafka.create_topic(name)
    return name


def producer(bootstrap: str, **settings: object) -> Producer:
    from confluent_kafka import Producer

    # Quiet: a broker that is gone is what these tests are about.
    return Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})


def send(client: Producer, topic: str, value: bytes, outcomes: list[str]) -> None:
    """Hand over a value; its outcome, ``ok`` or an error's name, is noted when it is known."""

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        outcomes.append("ok" if error is None else error.name())

    client.produce(topic, value, on_delivery=on_delivery)


def produce(bootstrap: str, topic: str, values: Iterable[bytes]) -> None:
    """Send values and see each one acknowledged."""
    client, outcomes = producer(bootstrap), list[str]()
    for value in values:
        send(client, topic, value, outcomes)
    assert client.flush(20) == 0
    assert set(outcomes) == {"ok"}


def consumer(bootstrap: str, isolation: str) -> Consumer:
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"group-{secrets.token_hex(6)}",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "log_level": 0,
    }
    return Consumer(settings)


def values_in(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes | None]:
    """All values of a topic of one partition."""
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    with closing(consumer(bootstrap, isolation)) as client:
        client.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        return poll_to_the_end(client)


def poll_to_the_end(client: Consumer) -> list[bytes | None]:
    values: list[bytes | None] = []
    while True:
        message = client.poll(20)
        assert message is not None, f"{len(values)} values, then nothing for 20 s"
        error = message.error()
        if error is not None:
            assert error.name() == "_PARTITION_EOF", error
            return values
        values.append(message.value())


@pytest.mark.proves("real-services")
def test_what_is_produced_is_consumed_in_order_by_a_group(kafka: str, topic: str) -> None:
    values = [b"%d" % number for number in range(1_000)]
    produce(kafka, topic, values)
    with closing(consumer(kafka, "read_committed")) as client:
        client.subscribe([topic])
        assert poll_to_the_end(client) == values


@pytest.mark.proves("real-services")
def test_committed_transaction_is_read_and_an_aborted_one_is_not(kafka: str, topic: str) -> None:
    client = producer(kafka, **{"transactional.id": topic})
    client.init_transactions(20)
    client.begin_transaction()
    client.produce(topic, b"aborted")
    client.flush(20)  # it is in the log before it is taken back
    client.abort_transaction(20)
    client.begin_transaction()
    client.produce(topic, b"committed")
    client.commit_transaction(20)
    assert values_in(kafka, topic) == [b"committed"]
    assert values_in(kafka, topic, "read_uncommitted") == [b"aborted", b"committed"]


@pytest.mark.parametrize("attempt", [1, 2])
def test_each_test_has_an_empty_topic_of_its_own(kafka: str, topic: str, attempt: int) -> None:
    assert values_in(kafka, topic) == []
    produce(kafka, topic, [b"%d" % attempt])


def test_topic_has_the_partitions_and_the_settings_asked_for(kafka: str) -> None:
    from confluent_kafka import admin as kafka_admin

    name = f"test-{secrets.token_hex(6)}"
    create_topic(kafka, name, partitions=3, config={"cleanup.policy": "compact"})
    admin = kafka_admin.AdminClient({"bootstrap.servers": kafka})
    assert len(admin.list_topics(name, timeout=10).topics[name].partitions) == 3
    resource = kafka_admin.ConfigResource("topic", name)  # type: ignore[attr-defined]
    settings = admin.describe_configs([resource])[resource].result(10)
    assert settings["cleanup.policy"].value == "compact"
    admin.delete_topics([name])[name].result(10)


def test_topic_that_exists_is_refused(kafka: str, topic: str) -> None:
    from confluent_kafka import KafkaException

    with pytest.raises(KafkaException, match="already exists"):
        create_topic(kafka, topic)


def test_topic_nobody_created_does_not_come_into_being(kafka: str) -> None:
    from confluent_kafka.admin import AdminClient

    client = producer(kafka, **{"topic.metadata.propagation.max.ms": 500})
    outcomes: list[str] = []
    send(client, "nobody-created-me", b"x", outcomes)
    assert client.flush(20) == 0
    assert outcomes == ["UNKNOWN_TOPIC_OR_PART"]
    topics = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=10).topics
    assert "nobody-created-me" not in topics


def test_broker_has_the_archive_of_its_classes_in_its_memory(
    own_kafka: KafkaBroker, pytestconfig: pytest.Config
) -> None:
    java, jars = find_program("java", "openjdk-17-jre-headless"), fetch("kafka")
    place = place_of_archive(jars, java)
    if not place.is_file() and not pytestconfig.getoption("require_services"):
        pytest.skip("there is none; run: python -m windrow.embedded.kafka_archive")
    assert str(place) in Path(f"/proc/{own_kafka.pid}/maps").read_text()


def test_acknowledged_records_survive_kill_9(own_kafka: KafkaBroker, own_topic: str) -> None:
    bootstrap, values = own_kafka.bootstrap, [b"%d" % number for number in range(500)]
    produce(bootstrap, own_topic, values)
    own_kafka.kill()
    assert not own_kafka.is_alive()
    assert not port_answers(own_kafka.port)
    own_kafka.restart()
    assert own_kafka.bootstrap == bootstrap
    assert values_in(bootstrap, own_topic) == values


def test_records_survive_a_restart_in_good_order(own_kafka: KafkaBroker, own_topic: str) -> None:
    produce(own_kafka.bootstrap, own_topic, [b"x"])
    before = own_kafka.pid
    own_kafka.restart()
    assert own_kafka.pid != before
    assert values_in(own_kafka.bootstrap, own_topic) == [b"x"]


def test_paused_broker_acknowledges_only_after_it_is_resumed(
    own_kafka: KafkaBroker, own_topic: str
) -> None:
    client, outcomes = producer(own_kafka.bootstrap), list[str]()
    send(client, own_topic, b"before", outcomes)
    client.flush(20)
    own_kafka.pause()
    send(client, own_topic, b"meanwhile", outcomes)
    assert client.flush(0.5) == 1
    own_kafka.resume()
    assert client.flush(20) == 0
    assert outcomes == ["ok", "ok"]


def test_client_of_the_link_stays_on_the_link(
    own_kafka: KafkaBroker, link: Link, own_topic: str
) -> None:
    """Kafka tells clients where to go; one that was told the broker's own port would bypass us."""
    client, outcomes = producer(link.address), list[str]()
    send(client, own_topic, b"before", outcomes)
    assert client.flush(20) == 0
    assert link.bytes_passed[Direction.TO_SERVICE] > 0
    link.cut()
    send(client, own_topic, b"meanwhile", outcomes)
    assert client.flush(0.5) == 1
    link.restore()
    assert client.flush(20) == 0
    assert outcomes == ["ok", "ok"]
    assert values_in(own_kafka.bootstrap, own_topic) == [b"before", b"meanwhile"]


def test_broker_that_cannot_start_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(StartFailed, match=r"log\.retention\.hours"):
        KafkaBroker.start(settings={"log.retention.hours": "soon"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.proves("real-services")
def test_stopped_broker_is_gone_with_its_group_and_directory(pytestconfig: pytest.Config) -> None:
    broker = start_service(pytestconfig, "Kafka (own)", KafkaBroker.start)
    family, directory = living_family(broker.pid), broker.directory
    assert broker.pid in groups_below(os.getpid())
    broker.stop()
    broker.stop()
    assert family
    assert all(is_gone(process) for process in family)
    assert not groups_below(os.getpid()) & {process.group for process in family}
    assert not directory.exists()


@pytest.mark.proves("nothing-left-behind")
def test_broker_goes_with_a_parent_that_is_killed(own_kafka: KafkaBroker) -> None:
    argv = [sys.executable, "-c", STARTER]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, directory = parent.stdout.readline().split()
        broker = find_process(int(pid))
        assert broker is not None
        assert Path(directory).is_dir()
        parent.send_signal(signal.SIGKILL)
    assert eventually(lambda: is_gone(broker))
    assert eventually(lambda: not Path(directory).exists())
