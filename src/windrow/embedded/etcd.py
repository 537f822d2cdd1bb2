"""etcd as a child process."""

from __future__ import annotations

import json
import subprocess
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import ClassVar, Self

from windrow.embedded.directory import create_directory
from windrow.embedded.ports import LOOPBACK, free_port
from windrow.embedded.process import Child, find_program
from windrow.embedded.service import Service


class Etcd(Service):
    """An etcd cluster of one member, on a port of the loopback interface."""

    name: ClassVar[str] = "etcd"

    def __init__(self, directory: Path, version: str, program: Path) -> None:
        super().__init__(directory, version)
        self._program = program
        self.port, self._peer_port = free_port(), free_port()

    @classmethod
    def start(cls) -> Self:
        """Bring up an empty member.

        Raises:
            NotInstalled: There is no etcd on this machine.
            StartFailed: It did not come up; the tail of its log is in the error.
        """
        program = find_program("etcd", "etcd-server")
        return cls(create_directory("etcd"), _version_of(program), program)._begin()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        """Nothing: etcd makes its own data directory."""

    def _launch(self) -> Child:
        peer_url = f"http://{LOOPBACK}:{self._peer_port}"
        argv = [
            str(self._program),
            "--name=windrow",
            f"--data-dir={self.directory / 'data'}",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=windrow={peer_url}",
        ]
        return Child.start(self.name, argv, cwd=self.directory, log=self.log)

    def _is_ready(self, child: Child) -> bool:
        return is_healthy(self.port)


def is_healthy(port: int) -> bool:
    """Whether an etcd answers on that port and has a leader."""
    # Not by urllib, which would take the way over a proxy if the environment names one.
    connection = HTTPConnection(LOOPBACK, port, timeout=2.0)
    try:
        connection.request("GET", "/health")
        return bool(json.load(connection.getresponse()).get("health") == "true")
    except (OSError, HTTPException, ValueError):
        return False
    finally:
        connection.close()


def _version_of(program: Path) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return said.splitlines()[0].split()[-1]
