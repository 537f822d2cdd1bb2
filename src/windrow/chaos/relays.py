"""The relays of a scenario: child processes that can be started, killed, paused, and struck."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from windrow.embedded.process import Child
from windrow.points import VARIABLE, Points, Strike

SKEWED = ("-m", "windrow.chaos.skewed_clock")


class Relays:
    """Relays on one outbox."""

    def __init__(
        self, directory: Path, program: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        """Get ready to start some.

        Args:
            directory: Where their logs and their points are.
            program: What the interpreter runs; ``relay`` follows.
            variables: Their configuration, in the environment: it holds secrets.
        """
        self._directory, self._program = directory, tuple(program)
        self._points = Points(directory / "points")
        self._points.directory.mkdir()
        self._variables = {**variables, VARIABLE: str(self._points.directory)}
        self._running: dict[str, Child] = {}
        self._started = 0

    def names(self) -> list[str]:
        """Those that run, the oldest first."""
        return list(self._running)

    def start(self, skew: float = 0.0) -> str:
        """Start another one; it need not have begun to work when this returns."""
        self._started += 1
        name = f"relay-{self._started}"
        program = (*SKEWED, f"{skew:g}") if skew else self._program
        variables = {**self._variables, "WINDROW__RELAY__NAME": name}
        self._running[name] = Child.start(
            name,
            [sys.executable, *program, "relay"],
            cwd=self._directory,  # where no configuration lies about
            log=self._directory / f"{name}.log",
            env=variables,
        )
        return name

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self._running.pop(name).kill()

    def pause(self, name: str) -> None:
        """SIGSTOP."""
        self._running[name].pause()

    def resume(self, name: str) -> None:
        """SIGCONT."""
        self._running[name].resume()

    def want_kill(self, point: str) -> None:
        """Have the next one that comes by be gone at once."""
        self._points.want(point, Strike("exit"))

    def killed_at(self, point: str) -> str | None:
        """Who was killed there since it was wanted; it is not among those that run any more."""
        name = self._struck_at(point)
        if name is not None:
            self._points.release(point)
            self.kill(name)
        return name

    def want_wait(self, point: str) -> None:
        """Have the next one that comes by wait there."""
        self._points.want(point, Strike("wait"))

    def waiting_at(self, point: str) -> str | None:
        """Who waits there."""
        return self._struck_at(point)

    def release(self, point: str) -> None:
        """Let it go on."""
        self._points.release(point)

    def _struck_at(self, point: str) -> str | None:
        pids = {struck.pid for struck in self._points.struck(point)}
        return next((name for name, child in self._running.items() if child.pid in pids), None)

    def dead(self) -> list[str]:
        """Those that ended by themselves, each with the last it said; nobody asked them to."""
        ended = [child for child in self._running.values() if not child.is_alive()]
        return [f"{child.name} ended by itself: {child.log_tail(3)}" for child in ended]

    def stop(self) -> None:
        """End all of them in good order, or by force."""
        for child in self._running.values():
            child.stop()
        self._running.clear()
