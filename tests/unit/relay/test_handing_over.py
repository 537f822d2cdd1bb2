"""How many threads a record passes on its way."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tests.unit.relay.scripted import ScriptedStore, ScriptedTarget, Stage, wait_for
from windrow.relay.machine import Lane


class WitnessingStore(ScriptedStore):
    """Remembers who purged."""

    def __init__(self) -> None:
        super().__init__()
        self.purged_by: list[int] = []

    def purge(self, ids: Sequence[int]) -> int:
        self.purged_by.append(threading.get_ident())
        return super().purge(ids)


class WitnessingTarget(ScriptedTarget):
    """Remembers who heard its reports, and who sent."""

    def __init__(self) -> None:
        super().__init__()
        self.heard_by: set[int] = set()
        self.sent_by: list[int] = []

    def send(self, lanes: list[Lane]) -> None:
        self.sent_by += [threading.get_ident()] * len(lanes)
        super().send(lanes)

    def poll(self, timeout: float) -> int:
        self.heard_by.add(threading.get_ident())
        return super().poll(timeout)


def test_a_key_moves_on_without_one_thread_waiting_for_another() -> None:
    """Report, purge and the next record: a hand-over between them would slow down every step."""
    store, target = WitnessingStore(), WitnessingTarget()
    stage = Stage(store=store, target=target)
    store.add("key", "key", "key")
    with stage.running():
        for count in (1, 2, 3):
            stage.sent(count)
            target.acknowledge()
        wait_for(lambda: not store.rows, "all are purged")
    assert len(target.heard_by) == 1
    assert set(store.purged_by) == set(target.sent_by[1:]) == target.heard_by
