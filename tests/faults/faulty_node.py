"""A relay by goharvest's file whose producer fails now and then, as goharvest's own tests have it.

Some records are refused when they are handed over; of some that have arrived the report is turned
into a failure. Those are noted, one line each, because they may be seen twice.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windrow.cli.reaper import read_reaper
from windrow.cli.relay import run
from windrow.config import Config, file_layer, resolve
from windrow.lines import append, open_lines
from windrow.relay import assembly
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.machine import Lane
from windrow.relay.targets.kafka import KafkaTarget
from windrow.telemetry import logs

SIMULATED = Failure(FailureKind.RETRIABLE, "simulated", "a fault of the test's own")


class FaultyTarget(KafkaTarget):
    """Kafka, with a share of faults at either end."""

    share = 0.0
    notes: Path
    seed = 0

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._random = random.Random(self.seed)
        self._notes = open_lines(self.notes)

    def send(self, lanes: list[Lane]) -> None:
        refused = [lane for lane in lanes if self._random.random() < self.share]
        super().send([lane for lane in lanes if lane not in refused])
        for lane in refused:
            self._note("refused", lane)
            self.failed.append((lane, SIMULATED))

    def _on_settled(self, producer: Any, lane: Lane, error: Any, message: Any) -> None:
        if error is None and self._random.random() < self.share:
            self._note("rewritten", lane)
            self.failed.append((lane, SIMULATED))
        else:
            super()._on_settled(producer, lane, error, message)

    def _note(self, what: str, lane: Lane) -> None:
        sequence = int((lane.head.value or b"").rpartition(b"_")[2])
        append(self._notes, json.dumps([what, lane.key, sequence]).encode() + b"\n")


def main(reaper_file: str, share: str, seed: str, notes: str, name: str) -> None:
    FaultyTarget.share, FaultyTarget.seed, FaultyTarget.notes = float(share), int(seed), Path(notes)
    vars(assembly)["KafkaTarget"] = FaultyTarget
    content = read_reaper(Path(reaper_file)).content
    content = {**content, "relay": {**content["relay"], "name": name}}
    logs.configure("info", "console")
    run(resolve(Config, [file_layer(reaper_file, content)]).config)


if __name__ == "__main__":
    main(*sys.argv[1:])
