"""A journal broker as a child process: alone with its own keys, or as a member of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import ClassVar, Self

from windrow.embedded.directory import create_directory
from windrow.embedded.ports import LOOPBACK, free_port, port_answers
from windrow.embedded.process import Child
from windrow.embedded.service import Service
from windrow.version import __version__


class Broker(Service):
    """A broker on a port of the loopback interface, with its spools in a private directory."""

    name: ClassVar[str] = "broker"
    stop_timeout: ClassVar[float] = 30.0

    def __init__(self, directory: Path, id: str, flags: Mapping[str, str]) -> None:
        super().__init__(directory, __version__)
        self.id, self.flags = id, dict(flags)
        self.port = free_port()

    @classmethod
    def start(
        cls,
        *,
        etcd_url: str | None = None,
        prefix: str = "/gazette/cluster",
        zone: str = "local",
        id: str = "broker",
        file_root: Path | None = None,
        flags: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Bring up a broker; it takes calls when this returns.

        Args:
            etcd_url: The etcd of its cluster; without it the broker is alone and keeps the keys.
            prefix: What the cluster's keys begin with.
            zone: Its failure domain.
            id: Its name inside the zone, the same after every restart.
            file_root: Where ``file://`` stores lie; ``fragments`` in its own directory by default.
            flags: Further flags of ``windrow journal serve``, as ``{"pulse-interval": "1s"}``.
            env: Further variables of its environment.

        Raises:
            StartFailed: It did not come up; the tail of its log is in the error.
        """
        where = (
            {"embedded": ""}
            if etcd_url is None
            else {"etcd-address": etcd_url, "etcd-prefix": prefix}
        )
        directory = create_directory("broker")
        root = directory / "fragments" if file_root is None else file_root
        fixed = {"zone": zone, "id": id, "file-root": str(root), "drain-timeout": "10s"}
        broker = cls(directory, id, {**where, **fixed, **(flags or {})})
        broker._env = None if env is None else dict(env)
        return broker._begin()

    _env: dict[str, str] | None = None

    @property
    def data(self) -> Path:
        """Where its spools are; there until ``stop``."""
        return self.directory / "data"

    @property
    def address(self) -> str:
        """Host and port, as a gRPC channel wants them."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def url(self) -> str:
        """The endpoint that it announces."""
        return f"http://{self.address}"

    def end(self) -> None:
        """End it in good order, its journals handed over first; the data stay for ``restart``."""
        self._end()

    def _prepare(self) -> None:
        self.data.mkdir()
        Path(self.flags["file-root"]).mkdir(parents=True, exist_ok=True)

    def _launch(self) -> Child:
        argv = [sys.executable, "-m", "windrow", "journal", "serve"]
        argv += [f"--data-dir={self.data}", f"--host={LOOPBACK}", f"--port={self.port}"]
        argv += [f"--{name}={value}" if value else f"--{name}" for name, value in self._given()]
        return Child.start(self.name, argv, cwd=self.directory, log=self.log, env=self._env)

    def _given(self) -> list[tuple[str, str]]:
        return list(self.flags.items())

    def _is_ready(self, child: Child) -> bool:
        if self.flags.get("gateway") == "off" or "tls-cert-file" in self.flags:
            return port_answers(self.port)  # from then on, calls wait until it is ready
        return _says_ready(self.port)


def _says_ready(port: int) -> bool:
    connection = HTTPConnection(LOOPBACK, port, timeout=2.0)
    try:
        connection.request("GET", "/debug/ready")
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
