"""One Kafka node, broker and controller in one process, on loopback."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self

from windrow.embedded.class_archive import options_to_use
from windrow.embedded.directory import create_directory
from windrow.embedded.jars import fetch
from windrow.embedded.kafka_archive import place_of_archive
from windrow.embedded.link import Link
from windrow.embedded.ports import LOOPBACK, free_port, port_answers
from windrow.embedded.process import Child, find_program, run_program
from windrow.embedded.service import Service
from windrow.errors import Failed
from windrow.extras import require

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TOPIC_TIMEOUT: Final = 15.0
QUICK: Final = ("-XX:TieredStopAtLevel=1",)
"""Without the optimising compiler, which takes half of the time in which a JVM begins."""
_NODE_ID: Final = "1"
_MAIN_JAR: Final = "kafka_2.13-"


class TopicNotServed(Failed):
    """A topic is there, and its partitions were not served in time."""

    def __init__(self, topic: str, bootstrap: str, seconds: float, reason: str) -> None:
        super().__init__(topic, bootstrap, seconds, reason)
        self.topic, self.bootstrap, self.seconds, self.reason = topic, bootstrap, seconds, reason

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} at {self.bootstrap} is not served after {self.seconds:g} s:"
            f" {self.reason}; see whether the broker is alive"
        )


class KafkaBroker(Service):
    """A cluster of one broker, on ports of the loopback interface."""

    name: ClassVar[str] = "Kafka"

    def __init__(
        self,
        directory: Path,
        jars: Path,
        java: Path,
        link: Link | None,
        settings: Mapping[str, str],
        jvm: Sequence[str] = (),
    ) -> None:
        super().__init__(directory, _version_of(jars))
        self.cluster_id = _new_cluster_id()
        self.port = free_port()
        self.settings = dict(settings)
        self._jars, self._java, self._jvm = jars, java, tuple(jvm)
        self._linked: tuple[str, str] | None = None
        if link is not None:
            link.target = (LOOPBACK, free_port())
            self._linked = (f"{LOOPBACK}:{link.target[1]}", link.address)

    @classmethod
    def start(
        cls,
        *,
        link: Link | None = None,
        settings: Mapping[str, str] | None = None,
        jvm: Sequence[str] = QUICK,
    ) -> Self:
        """Bring up an empty broker.

        Args:
            link: Gets this broker as its target. A client of Kafka goes where the broker tells it
                to go: clients that begin at ``link.address`` stay on the link.
            settings: Broker settings, beside ours or in their place.
            jvm: What its JVM is told: by default to begin soon. ``()`` has it optimise what it
                runs often, as a load that lasts deserves.

        Raises:
            MissingExtra: There is no client to see whether it answers.
            NotInstalled: There is no Java, or no Maven to fetch the jars with.
            FetchFailed: The jars cannot be fetched.
            StartFailed: It did not come up; the tail of its log is in the error.
        """
        require("confluent_kafka.admin")
        java, jars = find_program("java", "openjdk-17-jre-headless"), fetch("kafka")
        return cls(create_directory("kafka"), jars, java, link, settings or {}, jvm)._begin()

    @property
    def bootstrap(self) -> str:
        """Where clients begin; the same after a restart."""
        return f"{LOOPBACK}:{self.port}"

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and wait until all its partitions are served.

        Raises:
            TopicNotServed: They were not in time.
            KafkaException: Kafka refused, for instance because the topic exists.
        """
        create_topic(self.bootstrap, name, partitions, config)

    @property
    def _properties_file(self) -> Path:
        return self.directory / "server.properties"

    def _prepare(self) -> None:
        """Make the data directory one of this cluster."""
        data, controller = self.directory / "data", f"{LOOPBACK}:{free_port()}"
        properties = server_properties(data, self.bootstrap, controller, self._linked)
        lines = (f"{key}={value}\n" for key, value in {**properties, **self.settings}.items())
        self._properties_file.write_text("".join(lines))
        tool = (*QUICK, "kafka.tools.StorageTool", "format")
        argv = self._java_argv(*tool, "-t", self.cluster_id, "-c", str(self._properties_file))
        run_program(f"{self.name} (format)", argv, cwd=self.directory, log=self.log)

    def _launch(self) -> Child:
        arguments = ("-Xmx512m", *self._jvm, "kafka.Kafka", str(self._properties_file))
        argv = self._java_argv(*arguments)
        return Child.start(self.name, argv, cwd=self.directory, log=self.log)

    def _java_argv(self, *arguments: str) -> list[str]:
        return [
            str(self._java),
            "-XX:-UsePerfData",  # and tmpdir: a killed JVM leaves nothing in shared places
            f"-Djava.io.tmpdir={self.directory}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *options_to_use(place_of_archive(self._jars, self._java)),
            "-cp",
            f"{self._jars}/*",
            *arguments,
        ]

    def _is_ready(self, child: Child) -> bool:
        """Whether this broker, and not a stranger on its port, knows its cluster."""
        if not port_answers(self.port):
            return False
        try:
            found = _admin(self.bootstrap).list_topics(timeout=2.0)
        except require("confluent_kafka").KafkaException:
            return False
        return bool(found.brokers) and found.cluster_id == self.cluster_id


def _version_of(jars: Path) -> str:
    (jar,) = jars.glob(f"{_MAIN_JAR}*.jar")
    return jar.stem.removeprefix(_MAIN_JAR)


def server_properties(
    data: Path, address: str, controller: str, linked: tuple[str, str] | None
) -> dict[str, str]:
    """The settings of a node that stands alone.

    Args:
        data: Where it keeps its logs.
        address: Where it listens for clients.
        controller: Where it listens for itself.
        linked: A second place to listen, and the address under which clients reach that one.
    """
    listeners = {"DIRECT": address, "CONTROLLER": controller}
    advertised = {"DIRECT": address}
    if linked is not None:
        listeners["LINKED"], advertised["LINKED"] = linked
    one = dict.fromkeys(
        (
            "offsets.topic.replication.factor",
            "transaction.state.log.replication.factor",
            "transaction.state.log.min.isr",
            "share.coordinator.state.topic.replication.factor",
            "share.coordinator.state.topic.min.isr",
        ),
        "1",
    )
    return {
        "process.roles": "broker,controller",
        "node.id": _NODE_ID,
        "controller.quorum.voters": f"{_NODE_ID}@{controller}",
        "listeners": _listener_list(listeners),
        "advertised.listeners": _listener_list(advertised),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "DIRECT",
        "log.dirs": str(data),
        **one,
        # 50 each by default: more to make at first use, more to recover after a kill.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "4",
        "auto.create.topics.enable": "false",
        # A killed broker is let in again when its old session has run out: 9 s by default.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
    }


def _listener_list(listeners: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in listeners.items())


def create_topic(
    bootstrap: str, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic on any cluster and wait until all its partitions are served.

    Raises:
        TopicNotServed: They were not in time.
        KafkaException: Kafka refused, for instance because the topic exists.
    """
    admin_module = require("confluent_kafka.admin")
    admin = _admin(bootstrap)
    wanted = admin_module.NewTopic(name, num_partitions=partitions, config=dict(config or {}))
    admin.create_topics([wanted], operation_timeout=TOPIC_TIMEOUT)[name].result(TOPIC_TIMEOUT)
    deadline = time.monotonic() + TOPIC_TIMEOUT
    while (reason := _unserved(admin, name, partitions)) is not None:
        if time.monotonic() > deadline:
            raise TopicNotServed(name, bootstrap, TOPIC_TIMEOUT, reason)
        time.sleep(0.02)  # brokers tell nobody when a topic is ready


def _unserved(admin: AdminClient, topic: str, partitions: int) -> str | None:
    """Why a partition is not served; None when the leader of each one answers.

    The metadata names a leader a moment before that leader serves, so it is asked itself.
    """
    kafka = require("confluent_kafka")
    latest = require("confluent_kafka.admin").OffsetSpec.latest()
    asked = {kafka.TopicPartition(topic, number): latest for number in range(partitions)}
    try:
        for answer in admin.list_offsets(asked, request_timeout=2.0).values():
            answer.result()
    except kafka.KafkaException as error:
        return str(error.args[0])
    return None


def _admin(bootstrap: str) -> AdminClient:
    # Quiet: a broker that is not there yet is no news here.
    settings = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin: AdminClient = require("confluent_kafka.admin").AdminClient(settings)
    return admin


def _new_cluster_id() -> str:
    """A random id as Kafka writes it; one in 64 would begin with a dash and be taken for a flag."""
    while True:
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not name.startswith("-"):
            return name
