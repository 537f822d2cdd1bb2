"""``windrow journal serve`` on a disk whose syncs fail for as long as a file says so.

A child process, since a broker whose disk has failed ends its process. The file that the
environment names stands in for the disk: no fault of a real one can be had without privileges.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from windrow.cli.main import main
from windrow.embedded.broker import Broker
from windrow.embedded.ports import LOOPBACK
from windrow.embedded.process import Child

FAILS_VARIABLE = "WINDROW_TEST_DISK_FAILS"
ROOT = Path(__file__).parents[3]


class FailingBroker(Broker):
    """A broker whose disk can be made to fail."""

    @property
    def fails(self) -> Path:
        """While it exists, no sync succeeds."""
        return self.directory / "disk-fails"

    def _launch(self) -> Child:
        argv = [sys.executable, "-m", "tests.integration.journal.failing_disk", "journal", "serve"]
        argv += [f"--data-dir={self.data}", f"--host={LOOPBACK}", f"--port={self.port}"]
        argv += [f"--{name}={value}" if value else f"--{name}" for name, value in self._given()]
        env = {FAILS_VARIABLE: str(self.fails), "PYTHONPATH": str(ROOT)}
        return Child.start(self.name, argv, cwd=self.directory, log=self.log, env=env)

    def wait(self, timeout: float) -> int:
        """Wait for its end, and return its exit status."""
        assert self._child is not None
        return self._child.wait(timeout)


def _fail_where_told() -> None:
    honest, switch = os.fdatasync, Path(os.environ[FAILS_VARIABLE])

    def fdatasync(descriptor: int) -> None:
        if switch.exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        honest(descriptor)

    os.fdatasync = fdatasync  # type: ignore[assignment]


if __name__ == "__main__":
    _fail_where_told()
    sys.exit(main())
