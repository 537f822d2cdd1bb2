"""An archive of Kafka's classes, with which a broker starts for half the processor time.

It lies with the jars and is made once for all: ``python -m windrow.embedded.kafka_archive``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from windrow.embedded.class_archive import digest_of, making
from windrow.embedded.jars import fetch
from windrow.embedded.process import find_program
from windrow.extras import require

TOPIC = "archive"


def place_of_archive(jars: Path, java: Path) -> Path:
    """Where the archive for these jars and this Java belongs, made or not."""
    return jars / f"classes-{digest_of(java.resolve().parent.parent)}.jsa"


def make_archive() -> Path:
    """Have a broker load what it needs to serve a transaction; its JVM keeps that when it ends."""
    from windrow.embedded.kafka import KafkaBroker

    java, jars = find_program("java", "openjdk-17-jre-headless"), fetch("kafka")
    place = place_of_archive(jars, java)
    with making(place) as options, KafkaBroker.start(jvm=options) as broker:
        broker.create_topic(TOPIC)
        _use(broker.bootstrap)
    return place


def _use(bootstrap: str) -> None:
    kafka: Any = require("confluent_kafka")
    producer = kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": TOPIC})
    producer.init_transactions(30.0)
    producer.begin_transaction()
    producer.produce(TOPIC, b"value", b"key")
    producer.commit_transaction(30.0)
    consumer = kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": TOPIC, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    consumer.poll(10.0)
    consumer.close()


def main() -> int:
    """Make it unless it is there; say nothing when it is."""
    try:
        place = place_of_archive(fetch("kafka"), find_program("java", "openjdk-17-jre-headless"))
        if not place.is_file():
            print("archiving the classes of Kafka (once)", flush=True)
            make_archive()
    except Exception as error:  # whatever is wrong with it, set-up goes on: nothing depends on it
        print(f"Kafka will start without an archive of its classes: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
