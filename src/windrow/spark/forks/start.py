"""The driver's side: start the server of a session, and name the program that asks it."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windrow.embedded.process import Child
from windrow.errors import StartFailed
from windrow.spark.forks import launcher

_ENVIRONMENT: Final = {"PYTHONUNBUFFERED": "YES"}
"""What Spark gives to each of its processes, and Python heeds only when it starts."""

_PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Forks:
    """The server that runs, and what Spark is to take for Python."""

    program: Path
    _socket: Path
    _server: Child

    @classmethod
    def start(cls, directory: Path) -> Forks:
        """Start one, with all that it needs in this directory; it loads while the JVM starts."""
        socket = directory / "forks.sock"
        server = Child.start(
            "forks",
            [sys.executable, "-m", "windrow.spark.forks.server", str(socket)],
            cwd=directory,
            log=directory / "forks.log",
            env={**_ENVIRONMENT, "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")},
        )
        return cls(_write_program(directory / "python", socket), socket, server)

    def wait_until_listening(self) -> None:
        """Return when it can be asked; whoever asks before it has loaded everything waits.

        One that did not come up is done without: then Spark starts Python as it ever did.
        """
        with suppress(StartFailed):
            self._server.wait_until(self._socket.exists, _PATIENCE, "listen")

    def stop(self) -> None:
        """End it, and whatever was forked from it and is still there."""
        self._server.kill()


def _write_program(path: Path, socket: Path) -> Path:
    command = [sys.executable, "-I", "-S", launcher.__file__, str(socket)]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o700)
    # A file system may be mounted so that nothing on it can be executed.
    return path if os.access(path, os.X_OK) else Path(sys.executable)
