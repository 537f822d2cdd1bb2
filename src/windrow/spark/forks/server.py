"""The process that all Python processes of a session are forked from.

It loads what they need once, and forks one for each launcher that asks. It tells the launcher how
the process ended; when the launcher is ended, as Spark ends it, so is the process.

Nothing here may start a thread: a fork would not have it, but would have the locks that it held.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import selectors
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from windrow.spark.forks.launcher import Order, receive_order, send_status

LOADED: Final = (
    "grpc.aio",
    # Arrow loads it as soon as an array is made of anything: the dearest of all.
    "pandas",
    "pyarrow.compute",
    "pyarrow.ipc",
    "pyarrow.pandas_compat",
    "pyarrow.vendored.version",
    "pyspark.daemon",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
    "windrow.journal.client.sync",
    "windrow.journal.wire.protocol_pb2_grpc",
    "windrow.journal.wire.record_pb2",
    "windrow.spark.formats.graph",
    "windrow.spark.query.arrow_function",
    "windrow.spark.query.effects",
    "windrow.spark.queues.frame_columns",
    "windrow.spark.queues.frames",
    "windrow.spark.queues.journal",
    "windrow.spark.queues.open",
    "windrow.spark.targets.journal",
    "windrow.spark.targets.open",
)
_PATIENCE: Final = 10.0


def load() -> None:
    """Load what Spark's processes need, for all that are forked from here on.

    What is loaded stays for ever, so the collector of garbage is told to leave it alone: it would
    look through all of it after every task, and now and then while one runs.
    """
    for module in LOADED:
        with suppress(ModuleNotFoundError):  # of an extra that is not installed, and not needed
            importlib.import_module(module)
    if numpy := sys.modules.get("numpy"):
        # Otherwise all of them would draw the same random numbers.
        os.register_at_fork(after_in_child=numpy.random.seed)
    gc.collect()
    gc.freeze()


class Fork(NamedTuple):
    """A process that was forked, and the launcher that stands for it."""

    pid: int
    pidfd: int
    launcher: socket.socket


class ForkServer:
    """Forks a process for each that connects, until it is ended."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def serve(self) -> tuple[Order, list[int]]:
        """Serve for ever; return in each process that is forked, with what it is to become."""
        while True:
            for key, _ in self._selector.select():
                fork: Fork | None = key.data
                if fork is None:
                    if (forked := self._accept()) is not None:
                        return forked
                elif key.fd == fork.pidfd:
                    self._has_ended(fork)
                else:
                    self._is_unwanted(fork)

    def _accept(self) -> tuple[Order, list[int]] | None:
        """Fork for the one that connects; only in the new process there is something to return."""
        launcher, _ = self._listener.accept()
        launcher.settimeout(_PATIENCE)
        try:
            order, streams = receive_order(launcher)
        except (OSError, EOFError, ValueError):
            launcher.close()  # gone, or not one of ours
            return None
        pid = os.fork()
        if pid == 0:
            self._forget_all(launcher)
            return order, streams
        for stream in streams:
            os.close(stream)
        fork = Fork(pid, os.pidfd_open(pid), launcher)
        self._selector.register(fork.pidfd, selectors.EVENT_READ, fork)
        self._selector.register(launcher, selectors.EVENT_READ, fork)
        return None

    def _forget_all(self, launcher: socket.socket) -> None:
        """In a process that was forked: close what belongs to the server."""
        launcher.close()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
            else:
                os.close(key.fd)
        self._selector.close()

    def _has_ended(self, fork: Fork) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
        self._selector.unregister(fork.pidfd)
        os.close(fork.pidfd)
        if fork.launcher.fileno() >= 0:
            self._selector.unregister(fork.launcher)
            with suppress(OSError):
                send_status(fork.launcher, status)
            fork.launcher.close()

    def _is_unwanted(self, fork: Fork) -> None:
        """Its launcher was ended, as the process would have been."""
        if fork.launcher.fileno() >= 0:
            self._selector.unregister(fork.launcher)
            fork.launcher.close()
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fork.pidfd, signal.SIGTERM)


def become(order: Order, streams: list[int]) -> None:
    """Be the process that was ordered, as if Python had been started for it."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(order.environment)
    os.chdir(order.directory)
    module = order.arguments[1]
    sys.orig_argv = [sys.executable, *order.arguments]
    sys.argv = order.arguments[1:]
    sys.path[:] = _search_path(order, sys.path[1:])
    _set_name(module)
    sys.modules.pop(module, None)  # it is run again, under the name of the main one
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _search_path(order: Order, ours: list[str]) -> list[str]:
    """Where modules are looked for by ``python -m``; what is loaded stays loaded."""
    given = order.environment.get("PYTHONPATH", "").split(os.pathsep)
    first = [order.directory, *filter(None, given)]
    return [*first, *(place for place in ours if place not in first)]


def _set_name(module: str) -> None:
    """Be told apart from the server in a list of processes, of which this much can be changed."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(module.rpartition(".")[2])


def main(path: str) -> None:
    """Listen first: whoever is early waits until all is loaded."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in all that Spark starts
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen(128)
    Path(f"{path}.new").rename(path)  # it is there when somebody listens, and not before
    load()
    become(*ForkServer(listener).serve())


if __name__ == "__main__":
    main(sys.argv[1])
