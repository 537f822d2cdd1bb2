"""A world of no processes at all, which notes what was done to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from windrow.chaos.accounts import Arrival, Ends, Written

ALL_WELL = Ends(
    {"outbox": [Written("1", 0.0)], "sync": [Written("2", 0.0)]}, [Arrival("1", "id-1", 0.1)]
)


class NotedScene:
    """Does what `windrow.chaos.runner.Scene` asks for, without doing it."""

    lock_expiry = 0.01

    def __init__(self, ends: Ends = ALL_WELL, waiting: Iterable[int] = (), buried: int = 0) -> None:
        self.calls: Counter[str] = Counter()
        self.faults: list[dict[str, Any]] = []
        self.delays: list[float] = []
        self.paused: set[str] = set()
        self.relays = ["relay-1", "relay-2"]
        self.killed_points: list[str] = []
        self.most_relays = 2
        self.ended: list[str] = []
        self._ends, self._waiting, self._buried = ends, list(waiting), buried

    def kill_receiver(self) -> None:
        self.calls["receiver"] += 1

    def restart_receiver(self) -> None:
        self.calls["receiver"] -= 1

    def set_fault(self, **fault: Any) -> None:
        self.faults.append(fault)

    def kill_database(self) -> None:
        self.calls["database"] += 1

    def restart_database(self) -> None:
        self.calls["database"] -= 1

    def relay_names(self) -> list[str]:
        return list(self.relays)

    def start_relay(self, skew: float = 0.0) -> str:
        self.calls["started"] += 1
        self.relays.append(f"relay-{2 + self.calls['started']}")
        self.most_relays = max(self.most_relays, len(self.relays))
        return self.relays[-1]

    def kill_relay(self, name: str) -> None:
        self.relays.remove(name)

    def pause_relay(self, name: str) -> None:
        self.paused.add(name)

    def resume_relay(self, name: str) -> None:
        self.paused.remove(name)

    def want_kill(self, point: str) -> None:
        self.killed_points.append(f"{point} of {len(self.relays)}")

    def killed_at(self, point: str) -> str | None:
        return self.relays.pop()

    def want_wait(self, point: str) -> None:
        self.calls["point"] += 1

    def waiting_at(self, point: str) -> str | None:
        return self.relays[0]

    def release(self, point: str) -> None:
        self.calls["point"] -= 1

    def delay_network(self, seconds: float) -> None:
        self.delays.append(seconds)

    def stall_network(self) -> None:
        self.calls["network"] += 1

    def reset_network(self) -> None:
        self.calls["network"] -= 1

    def waiting(self) -> int | None:
        return self._waiting.pop(0) if self._waiting else 0

    def buried(self) -> int | None:
        return self._buried

    def retry_buried(self) -> int:
        self.calls["retried"] += 1
        return self._buried

    def start_stream(self) -> None:
        self.calls["stream"] += 1

    def stop_stream(self) -> None:
        self.calls["stream"] = 0

    def has_delivered(self) -> bool:
        return True

    def ended_relays(self) -> list[str]:
        return self.ended

    def make_well(self) -> None:
        self.calls["made well"] += 1

    def ends(self) -> Ends:
        return self._ends

    def close(self) -> None:
        self.calls["closed"] += 1
