"""A broker in this process: announced, allocated to, serving, and leaving in good order.

Starting: take the data directory, recover its spools, listen, announce this broker, load the keys,
and only then answer. Ending: say so, let others take the journals over, let calls under way come to
their end, and withdraw.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from windrow.coordination.announce import Announcement
from windrow.coordination.etcd import EtcdStore
from windrow.coordination.local import LocalStore
from windrow.coordination.mirror import Mirror
from windrow.coordination.store import Lease, Store
from windrow.errors import Failed, Unreachable
from windrow.journal.allocation.service import Allocator
from windrow.journal.broker.assembly import Assembly
from windrow.journal.broker.decoders import decoders
from windrow.journal.broker.front import Front
from windrow.journal.broker.home import Home
from windrow.journal.broker.leaving import can_be_spared
from windrow.journal.broker.resolution import JournalView
from windrow.journal.broker.settings import BrokerSettings
from windrow.journal.broker.tls import server_context, server_credentials
from windrow.journal.fragments.errors import SpoolBroken
from windrow.journal.frames.serving import FrameServer
from windrow.journal.keys import Keys
from windrow.journal.messages import encode_broker_spec
from windrow.journal.spec import BrokerSpec, ProcessId, SuspendLevel
from windrow.journal.wire.protocol_pb2_grpc import add_JournalServicer_to_server
from windrow.telemetry import get_logger

ASSIGNED_TIMEOUT = 10.0
LONGEST_SOCKET = 107
"""Bytes that the path of a socket may have."""

_log = get_logger(__name__)


def _awaits_broker(view: JournalView) -> bool:
    is_wanted = view.spec is not None and view.spec.suspend.level is not SuspendLevel.FULL
    return is_wanted and not view.assignments


class LeaseLost(Failed):
    """The cluster takes this broker for dead, and gives its journals to others."""

    def __init__(self, process: str, ttl: float) -> None:
        super().__init__(process, ttl)
        self.process, self.ttl = process, ttl

    def __str__(self) -> str:
        return (
            f"broker {self.process} could not renew its lease for {self.ttl:g} s, so its journals"
            " go to others; restart it once etcd can be reached"
        )


class BrokerServer:
    """One broker; ``start`` returns when it takes calls."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.keys = Keys(settings.etcd_prefix)
        self._home: Home | None = None
        self._sockets: Path | None = None
        self._front: Front | None = None
        self._frames: FrameServer | None = None
        self._http: asyncio.Server | None = None
        self._announcement: Announcement | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed: asyncio.Future[None] | None = None
        self._is_ready = False
        self._is_leaving = False

    # Set by start, in this order.
    id: ProcessId
    store: Store
    lease: Lease
    port: int
    http_port: int
    mirror: Mirror
    assembly: Assembly
    allocator: Allocator
    _grpc: grpc.aio.Server

    @property
    def endpoint(self) -> str:
        """What this broker announces."""
        return f"{self.settings.scheme}://{self.address}"

    @property
    def address(self) -> str:
        """Host and port, as a gRPC channel wants them."""
        host = self.settings.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    # -- beginning ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Come up, or raise and leave nothing behind.

        Raises:
            DataDirInUse: Another broker runs on the data directory.
            Unreachable: etcd does not answer.
            UsageError: A setting cannot be used.
        """
        self._failed = asyncio.get_running_loop().create_future()
        try:
            await self._start()
        except BaseException:
            await self.stop(grace=0.0)
            raise

    async def _start(self) -> None:
        settings = self.settings
        home = self._home = Home(settings.data_dir)
        self.id = home.process_id(settings.zone, settings.id)
        self.store = self._open_store(home)
        self.mirror = Mirror(
            self.store, self.keys.prefix + "/", settings.watch_delay, decoders(self.keys)
        )
        self.assembly = await Assembly.build(
            settings,
            home,
            self.id,
            self.store,
            self.mirror,
            self.keys,
            self._problem,
            self._on_spool_broken,
        )
        # Others call as soon as they see us announced; until the keys are here, calls wait.
        await self._listen(self._bind())
        await self._announce()
        # Made first, since the mirror tells it of every change, the load included.
        self.allocator = Allocator(
            self.mirror,
            self.store,
            self.keys.member(self.id),
            keys=self.keys,
            max_replication=settings.max_replication,
        )
        await self.mirror.start()
        self._run(self.allocator.run(), "allocator")
        self._run(self.mirror.wait_failed(), "mirror")
        self._run(self._watch_lease(), "lease")
        self.assembly.start()
        if settings.embedded:
            await self._wait_assigned()
        self._is_ready = True
        _log.info("broker serves", id=str(self.id), endpoint=self.endpoint, keys=self._where())

    async def _wait_assigned(self) -> None:
        """Wait a little for our own journals to be ours again: nobody else could serve them."""
        resolver = self.assembly.resolver
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ASSIGNED_TIMEOUT):
                while any(_awaits_broker(view) for view in resolver.views()):
                    await resolver.wait_change()

    def _open_store(self, home: Home) -> Store:
        if self.settings.embedded:
            return LocalStore(home.keys)
        return EtcdStore(self.settings.etcd_address)

    def _where(self) -> str:
        return "embedded" if self.settings.embedded else self.settings.etcd_address

    async def _announce(self) -> None:
        ttl = self.settings.etcd_lease
        await self._end_last_lease()
        self.lease = await self.store.grant_lease(ttl)
        assert self._home is not None
        self._home.keep_lease(self.lease.id)
        spec = encode_broker_spec(self._spec())
        self._announcement = await Announcement.make(
            self.store, self.lease, self.keys.member(self.id), spec, min(1.0, ttl / 4)
        )

    async def _end_last_lease(self) -> None:
        """End that of the process before us, which may have been killed: we hold its directory.

        Otherwise its announcement would stand, and keep us from ours, until the lease runs out.
        """
        assert self._home is not None
        if not self.settings.embedded and (last := self._home.last_lease):
            await self.store.revoke_lease(last)

    def _spec(self) -> BrokerSpec:
        return BrokerSpec(self.id, self.endpoint, self.settings.journal_limit, self._is_leaving)

    def _bind(self) -> socket.socket:
        """Take the port now, so that it can be announced, and accept nobody yet."""
        host = self.settings.host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, self.settings.port))
        except OSError as error:
            listening.close()
            address = f"{host}:{self.settings.port}"
            raise Unreachable("the address to listen on", address, str(error)) from error
        self.port = listening.getsockname()[1]
        return listening

    async def _listen(self, listening: socket.socket) -> None:
        limit = self.settings.max_message_bytes
        self._grpc = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", max(limit, 4 * 1024 * 1024)),
                ("grpc.so_reuseport", 0),
                # Brokers and clients look after idle streams themselves.
                ("grpc.http2.min_ping_interval_without_data_ms", 1000),
            ]
        )
        add_JournalServicer_to_server(self.assembly.service, self._grpc)
        tls = self.settings.tls
        if self.settings.gateway == "shared":
            await self._listen_by_front(listening)
        else:
            listening.close()
            credentials = None if tls is None else server_credentials(tls)
            self._add_port(self.address, credentials)
            await self._grpc.start()
        if self.settings.http_port is not None:
            self._http = await asyncio.start_server(
                self.assembly.gateway.serve,
                self.settings.host,
                self.settings.http_port,
                ssl=None if tls is None else server_context(tls),
            )
            self.http_port = self._http.sockets[0].getsockname()[1]

    async def _listen_by_front(self, listening: socket.socket) -> None:
        inside = self._inner_socket()
        self._add_port(f"unix:{inside}", None)
        await self._grpc.start()
        tls = self.settings.tls
        self._frames = FrameServer(self.assembly.service, self.settings.max_message_bytes)
        self._front = Front(inside, self.assembly.gateway.serve, self._frames.take)
        await self._front.start(listening, None if tls is None else server_context(tls))
        self.http_port = self.port

    def _inner_socket(self) -> str:
        """Where the part of us that speaks gRPC listens, behind the front."""
        place = self.settings.data_dir.resolve() / "grpc.sock"
        if len(os.fsencode(place)) <= LONGEST_SOCKET:
            place.unlink(missing_ok=True)  # of a broker that was killed; the directory is ours
            return str(place)
        self._sockets = Path(tempfile.mkdtemp(prefix="windrow-"))
        return str(self._sockets / "grpc.sock")

    def _add_port(self, address: str, credentials: grpc.ServerCredentials | None) -> None:
        try:
            if credentials is None:
                self._grpc.add_insecure_port(address)
            else:
                self._grpc.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise Unreachable("the address to listen on", address, str(error)) from error

    # -- running -----------------------------------------------------------------------------------

    async def wait_failed(self) -> None:
        """Return when the broker was stopped.

        Raises:
            LeaseLost: It was cut off from etcd for too long.
            SpoolBroken: A sync failed, so what its disk holds is unknown until it is started again.
            Exception: Whatever else ended one of its parts.
        """
        assert self._failed is not None, "wait_failed() comes after start()"
        await asyncio.shield(self._failed)

    async def _watch_lease(self) -> None:
        await self.lease.lost.wait()
        raise LeaseLost(str(self.id), self.lease.ttl)

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"{name} of {self.id}")
        self._tasks.add(task)
        task.add_done_callback(self._on_task_ended)

    def _on_task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._fail(error)

    def _on_spool_broken(self, error: SpoolBroken) -> None:
        """End, so that others take over; a start reads back what the disk really has (J4)."""
        _log.error("broker ends because a sync failed", journal=error.journal, error=str(error))
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)
            self._failed.exception()  # asked for, so that nobody need be there to hear it

    def _problem(self) -> str | None:
        """Why this broker should get no calls now, if so."""
        if not self._is_ready:
            return "starting"
        if self._is_leaving:
            return "leaving"
        if self._failed is not None and self._failed.done():
            return "failed"
        return None

    # -- ending ------------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Ask for our journals to be taken over, and wait until they are, or cannot be."""
        if self.settings.embedded or self._announcement is None or self._is_leaving:
            return
        self._is_leaving = True
        spec = replace(self._spec(), exiting=True)
        try:
            async with asyncio.timeout(self.settings.drain_timeout):
                revision = await self._announcement.update(encode_broker_spec(spec))
                await self.assembly.resolver.wait_revision(revision)
                if self.settings.is_durable and not can_be_spared(
                    self.mirror, self.keys, self.id, self.settings.max_replication
                ):
                    _log.warning("no other broker can take over; journals wait for a restart")
                    return
                await self.allocator.local_items_drained()
        except TimeoutError:
            left = len(self.allocator.local_items())
            _log.warning("left with journals not taken over", journals=left)
        except Failed as error:
            _log.warning("could not announce that this broker leaves", error=str(error))

    async def stop(self, grace: float | None = None) -> None:
        """End calls and replicas, upload what is complete, and withdraw.

        Args:
            grace: Seconds for which calls may go on; by default as set.
        """
        self._is_leaving = True
        grace = self.settings.stop_timeout if grace is None else grace
        if hasattr(self, "assembly"):
            await self._stop_serving(grace)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if hasattr(self, "mirror"):
            await self.mirror.stop()
        await self._withdraw()
        if hasattr(self, "store"):
            await self.store.close()
        if self._home is not None:
            self._home.close()
            self._home = None
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(None)

    async def _withdraw(self) -> None:
        if hasattr(self, "lease"):
            with contextlib.suppress(Failed):
                await self.lease.revoke()

    async def _end_calls(self, grace: float) -> None:
        ends = [self._grpc.stop(grace)]
        if self._frames is not None:
            ends.append(self._frames.stop(grace))
        await asyncio.gather(*ends)

    async def _stop_serving(self, grace: float) -> None:
        self.assembly.read.stop()
        if self._http is not None:
            self._http.close()
        if self._front is not None:
            self._front.close()
        if hasattr(self, "_grpc"):
            # Appends that come now are told that they were not begun. A server that stops just cuts
            # them off, and their clients could not know.
            self.assembly.service.refuse_appends()
            began = asyncio.get_running_loop().time()
            await self.assembly.service.wait_appends_ended(grace)
            grace = max(0.0, grace - (asyncio.get_running_loop().time() - began))
            ended = asyncio.create_task(self._end_calls(grace))
            # Primaries that replicate to us are to go on without us before our replicas end.
            self.assembly.keeper.stop()
            await self._withdraw()
            await self.assembly.stop(grace)
            await ended
        else:
            await self.assembly.stop(0.0)
        if self._front is not None:
            self._front.abort()
        if self._sockets is not None:
            shutil.rmtree(self._sockets, ignore_errors=True)
