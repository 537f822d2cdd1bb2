"""A topic as a target: rows and the high-water in one transaction for each partition.

The transactional id names the processor and the partition of the topic, so that a later writer of
that partition shuts out the earlier one, whichever task, worker or driver it is in. The high-water
is a marker in a topic of its own, written in the same transaction.

A producer that was shut out is not always the older one: tasks move between workers, and two copies
of one task may run. So it begins anew, and the epoch in the marks says who has to yield.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from windrow.extras import require
from windrow.graph.delivery_steps import DeliveredMismatched, DeliveredMoved, Unknown
from windrow.graph.high_water import Delivered, HighWaters, transactional_id
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import Mismatched, WriterFenced, WriteUnknown, Written
from windrow.graph.snapshot import ProcessorUid
from windrow.spark.places import Place
from windrow.spark.targets.errors import RowRefused
from windrow.spark.targets.kafka_markers import (
    MARKER_TOPIC,
    MarkerReader,
    delivered_partition,
    marks_partition,
)
from windrow.spark.targets.kafka_records import blamed, produce_rows
from windrow.spark.targets.kafka_writer import KafkaWriter, Marker, Outcome, Refusal

MAX_FENCINGS = 8
"""How often in a row a writer begins anew after another of the same epoch has shut it out."""

FENCE_THREADS = 8
"""Most of the time that a new producer takes it waits."""

_PAUSE = 0.05


class KafkaTarget:
    """Writes rows as records of a topic.

    Args:
        place: The topic. Its option ``marker_topic`` names the topic of the markers.
    """

    def __init__(self, place: Place) -> None:
        require("confluent_kafka")
        connections = place.connections
        self._topic = place.address
        self._partitions = place.partitions
        self._properties = {**connections.kafka, **connections.kafka_producer}
        marker_topic = str(place.options.get("marker_topic", MARKER_TOPIC))
        self._markers = MarkerReader(connections.kafka, marker_topic)
        self._writers: dict[str, KafkaWriter] = {}
        self._fencings: defaultdict[str, int] = defaultdict(int)

    def targets(self) -> int:
        """How many partitions the topic has."""
        if self._partitions is None:
            self._partitions = self._markers.partitions_of(self._topic)
        return self._partitions

    # -- the high-water --------------------------------------------------------------------------

    def read_high_water(self, uid: ProcessorUid, target: int) -> HighWaters:
        """The marks of a partition; nobody else can write to it from here on, until it is fenced.

        A writer that wrote there last knows the marks. If it was shut out meanwhile its next write
        finds out; what it drops until then was written for certain.
        """
        writer = self._writer(uid, target)
        if not writer.has_committed:
            writer.close()
        return self._held(writer, uid, target)

    def _held(self, writer: KafkaWriter, uid: ProcessorUid, target: int) -> HighWaters:
        if not writer.is_open:
            self._rest(writer)
            writer.open()
        return _waters(writer.marker, uid, target)

    def write(
        self, rows: Sequence[SinkRow], expected: HighWaters, marks: HighWaters
    ) -> Written | Mismatched | WriteUnknown | WriterFenced:
        """Write the rows and the marks in one transaction, if the marks are the expected ones."""
        writer = self._writer(expected.uid, expected.target)
        found = self._held(writer, expected.uid, expected.target)
        if found.epoch > marks.epoch:
            return WriterFenced(marks.epoch, found.epoch)
        if found != expected:
            writer.close()  # what is read next is to be the newest
            return Mismatched()
        seq = _seq(writer.marker)
        produce = partial(
            produce_rows, rows=rows, topic=self._topic, partition=expected.target, first_seq=seq
        )
        outcome = writer.commit({"waters": marks.to_json(), "seq": seq + len(rows)}, produce)
        match outcome:
            case Outcome.COMMITTED:
                self._fencings.pop(writer.name, None)
                return Written()
            case Outcome.UNKNOWN:
                return WriteUnknown()
            case Outcome.FENCED:
                return self._on_fenced(writer, marks)
            case Refusal():
                raise RowRefused(f"topic {self._topic!r}", *blamed(rows, outcome))

    def _on_fenced(self, writer: KafkaWriter, marks: HighWaters) -> WriteUnknown | WriterFenced:
        found = _waters(writer.peek(), marks.uid, marks.target)
        self._fencings[writer.name] += 1
        if found.epoch > marks.epoch or self._fencings[writer.name] > MAX_FENCINGS:
            return WriterFenced(marks.epoch, found.epoch)
        return WriteUnknown()

    def _rest(self, writer: KafkaWriter) -> None:
        """Two copies of one task shut each other out, until one of them has the time to write."""
        fencings = self._fencings[writer.name]
        if fencings:
            time.sleep(random.uniform(0, _PAUSE * 2**fencings))

    def fence(self, uid: ProcessorUid, epoch: int) -> Sequence[HighWaters]:
        """Shut out every earlier writer, and write the epoch into the marks of every partition."""
        targets = range(self.targets())
        writers = [self._delivered_writer(uid), *(self._writer(uid, each) for each in targets)]
        with ThreadPoolExecutor(FENCE_THREADS) as threads:
            list(threads.map(KafkaWriter.shut_out, writers))
        for writer in writers:
            writer.open()
        return [self._fence(uid, target, epoch) for target in targets]

    def _fence(self, uid: ProcessorUid, target: int, epoch: int) -> HighWaters:
        writer = self._writer(uid, target)
        while True:
            found = self._held(writer, uid, target)
            owned = found.owned_by(epoch)
            if owned == found or isinstance(self.write((), found, owned), Written):
                writer.close()  # others write there from now on
                return owned

    # -- the record of what was delivered --------------------------------------------------------

    def read_delivered(self, uid: ProcessorUid) -> Delivered | None:
        """The record as it is committed; nobody is shut out."""
        return _delivered(self._delivered_writer(uid).peek())

    def commit_delivered(
        self, expected: Delivered | None, delivered: Delivered
    ) -> DeliveredMoved | DeliveredMismatched | Unknown:
        """Move the record, if it is the expected one."""
        writer = self._delivered_writer(delivered.uid)
        is_fresh = False
        for _ in range(MAX_FENCINGS):
            if not writer.is_open:
                writer.open()
                is_fresh = True
            found = _delivered(writer.marker)
            if found == delivered:
                return DeliveredMoved()
            if found != expected:
                writer.close()  # another process may have moved it since
                if is_fresh:
                    return DeliveredMismatched(found)
                continue
            outcome = writer.commit({"delivered": delivered.to_json()})
            if outcome is Outcome.COMMITTED:
                return DeliveredMoved()
            if outcome is not Outcome.FENCED:
                return Unknown(f"the transaction of {writer.name} did not end in time")
        return Unknown(f"{writer.name} was shut out {MAX_FENCINGS} times by another writer")

    def close(self) -> None:
        """End all connections; does nothing the second time."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        self._markers.close()

    # -- writers ---------------------------------------------------------------------------------

    def _writer(self, uid: ProcessorUid, target: int) -> KafkaWriter:
        return self._kept(transactional_id(uid, target), marks_partition(uid.digest, target))

    def _delivered_writer(self, uid: ProcessorUid) -> KafkaWriter:
        return self._kept(f"windrow-{uid.digest}-delivered", delivered_partition(uid.digest))

    def _kept(self, name: str, partition: int) -> KafkaWriter:
        if name not in self._writers:
            self._writers[name] = KafkaWriter(self._properties, self._markers, name, partition)
        return self._writers[name]


def _waters(marker: Marker | None, uid: ProcessorUid, target: int) -> HighWaters:
    return HighWaters(uid, target) if marker is None else HighWaters.from_json(marker["waters"])


def _seq(marker: Marker | None) -> int:
    return 0 if marker is None else int(marker["seq"])


def _delivered(marker: Marker | None) -> Delivered | None:
    return None if marker is None else Delivered.from_json(marker["delivered"])
