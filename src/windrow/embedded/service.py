"""What every embedded service can do: come up, be stopped, killed, paused and restarted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from signal import SIGTERM, Signals
from types import TracebackType
from typing import ClassVar, Self

from windrow.embedded.directory import remove_directory
from windrow.embedded.errors import NotRunning
from windrow.embedded.process import Child


class Service(ABC):
    """One server as a child process, with its data in a private temporary directory.

    It is made by the ``start`` of its class, which returns once the server answers.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[Signals] = SIGTERM
    stop_timeout: ClassVar[float] = 15.0
    start_timeout: ClassVar[float] = 60.0

    def __init__(self, directory: Path, version: str) -> None:
        self.directory, self.version = directory, version
        self._child: Child | None = None

    @property
    def log(self) -> Path:
        """Where the server's output goes; removed with the directory."""
        return self.directory / "log"

    @property
    def pid(self) -> int:
        """The server's process, dead or alive; each ``restart`` makes another."""
        assert self._child is not None, "start() returns a server that came up"
        return self._child.pid

    def is_alive(self) -> bool:
        """Whether the server's process runs."""
        return self._child is not None and self._child.is_alive()

    @abstractmethod
    def _prepare(self) -> None:
        """Create the data, once, before the first launch."""

    @abstractmethod
    def _launch(self) -> Child:
        """Start the server on its data, without waiting for it."""

    @abstractmethod
    def _is_ready(self, child: Child) -> bool:
        """Whether it takes connections by now."""

    def _begin(self) -> Self:
        """Prepare and come up, or leave nothing behind."""
        try:
            self._prepare()
            self._come_up()
        except BaseException:
            remove_directory(self.directory)
            raise
        return self

    def _come_up(self) -> None:
        child = self._launch()
        try:
            child.wait_until(lambda: self._is_ready(child), self.start_timeout, "answer")
        except BaseException:
            child.kill()
            raise
        self._child = child

    def stop(self) -> None:
        """End the server in good order and remove its data. Does nothing the second time."""
        self._end()
        remove_directory(self.directory)

    def _end(self) -> None:
        if self._child is not None:
            self._child.stop(self.stop_timeout, self.stop_signal)

    def kill(self) -> None:
        """SIGKILL all processes of the server at once; the data stay for ``restart``."""
        self._running().kill()

    def restart(self) -> None:
        """Come up again on the same data and port, after ``kill`` or from a running server.

        Raises:
            StartFailed: It did not come up again; the data are still there.
        """
        self._end()
        self._come_up()

    def pause(self) -> None:
        """SIGSTOP all processes of the server: it holds its connections and answers nothing."""
        self._running().pause()

    def resume(self) -> None:
        """Let a paused server go on."""
        self._running().resume()

    def _running(self) -> Child:
        if self._child is None or not self._child.is_alive():
            raise NotRunning(self.name, self.pid)
        return self._child

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
