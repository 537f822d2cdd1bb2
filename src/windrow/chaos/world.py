"""A producer, a receiver, relays between them and a stream of requests: what scenarios strike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from windrow.chaos.accounts import KINDS, Arrival, Ends, Kind, Written
from windrow.chaos.databases import Server
from windrow.chaos.letters import buried_keys, retry_all
from windrow.chaos.options import Options
from windrow.chaos.relays import Relays
from windrow.embedded.directory import create_directory, remove_directory
from windrow.embedded.link import Link
from windrow.embedded.ports import LOOPBACK
from windrow.errors import WindrowError
from windrow.outbox.table import Table
from windrow.playpen import PlaypenProducer, PlaypenReceiver, Stream, relay_variables
from windrow.playpen.heroes import Heroes

_PAGE = 5_000
_MANY = 1_000_000
_STREAM_PATIENCE = 15.0


class PlaypenWorld:
    """Everything of one scenario but the database server, which lives through all of them."""

    def __init__(self, scenario: str, options: Options, server: Server) -> None:
        """Bring everything up; ``close`` ends it.

        Raises:
            StartFailed: A service did not come up.
        """
        self._server, self._options = server, options
        self.lock_expiry = options.lock_expiry
        with ExitStack() as stack:
            self._directory = create_directory("chaos")
            stack.callback(remove_directory, self._directory)
            self._dsn = server.create()
            self._receiver = stack.enter_context(PlaypenReceiver.start())
            self._link = stack.enter_context(Link.start((LOOPBACK, self._receiver.port)))
            is_linked = scenario == "slow-network"
            url = f"http://{self._link.address}" if is_linked else self._receiver.url
            timeout = options.send_timeout(scenario)
            self._producer = stack.enter_context(
                PlaypenProducer.start(self._dsn, url, sync_timeout=timeout)
            )
            self._heroes = Heroes(self._dsn)
            stack.callback(self._heroes.close)
            self._relays = Relays(
                self._directory, options.relay_program, self._variables(scenario, url)
            )
            stack.callback(self._relays.stop)
            for _ in range(options.relays):
                self._relays.start()
            self._stream = self._make_stream()
            stack.callback(self._stream.stop)
            self._stack = stack.pop_all()

    def _variables(self, scenario: str, receiver_url: str) -> dict[str, str]:
        settings = self._options.relay_settings(scenario)
        given = relay_variables(self._dsn, receiver_url, "", {})
        return given | {f"WINDROW__{key}": value for key, value in settings.items()}

    def _make_stream(self) -> Stream:
        return Stream(
            self._producer.url,
            self._directory / "stream",
            rate=2 * self._options.rate,
            timeout=_STREAM_PATIENCE,
        )

    def close(self) -> None:
        """End everything; what it left on the disk is removed."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # -- the stream ------------------------------------------------------------------------------

    def start_stream(self) -> None:
        """Begin to send requests."""
        self._stream.start()

    def stop_stream(self) -> None:
        """Send no more; returns when all are answered or given up."""
        self._stream.stop()

    # -- what can be struck: see `windrow.chaos.stage.World` ---------------------------------------

    def kill_receiver(self) -> None:  # noqa: D102
        self._receiver.kill()

    def restart_receiver(self) -> None:  # noqa: D102
        self._receiver.restart()

    def set_fault(self, **fault: Any) -> None:  # noqa: D102
        self._receiver.set_fault(**({"mode": "none"} | fault))

    def kill_database(self) -> None:  # noqa: D102
        self._server.kill()

    def restart_database(self) -> None:  # noqa: D102
        self._server.restart()

    def relay_names(self) -> list[str]:  # noqa: D102
        return self._relays.names()

    def start_relay(self, skew: float = 0.0) -> str:  # noqa: D102
        return self._relays.start(skew)

    def kill_relay(self, name: str) -> None:  # noqa: D102
        self._relays.kill(name)

    def pause_relay(self, name: str) -> None:  # noqa: D102
        self._relays.pause(name)

    def resume_relay(self, name: str) -> None:  # noqa: D102
        self._relays.resume(name)

    def want_kill(self, point: str) -> None:  # noqa: D102
        self._relays.want_kill(point)

    def killed_at(self, point: str) -> str | None:  # noqa: D102
        return self._relays.killed_at(point)

    def want_wait(self, point: str) -> None:  # noqa: D102
        self._relays.want_wait(point)

    def waiting_at(self, point: str) -> str | None:  # noqa: D102
        return self._relays.waiting_at(point)

    def release(self, point: str) -> None:  # noqa: D102
        self._relays.release(point)

    def delay_network(self, seconds: float) -> None:  # noqa: D102
        self._link.delay(seconds)

    def stall_network(self) -> None:  # noqa: D102
        self._link.stall()

    def reset_network(self) -> None:  # noqa: D102
        self._link.reset()
        self._link.resume()

    def waiting(self) -> int | None:  # noqa: D102
        counts = self._counts()
        return None if counts is None else counts["waiting"]

    def buried(self) -> int | None:  # noqa: D102
        counts = self._counts()
        return None if counts is None else counts["dead"]

    def retry_buried(self) -> int:  # noqa: D102
        return retry_all(self._dsn, Table())

    def ended_relays(self) -> list[str]:  # noqa: D102
        return self._relays.dead()

    def _counts(self) -> dict[str, int] | None:
        try:
            return self._heroes.counts()
        except WindrowError:
            return None  # the database is away, or the connection was from before it was

    # -- what is counted -------------------------------------------------------------------------

    def make_well(self) -> None:
        """End every fault that a scenario left behind, as far as that can be done."""
        with suppress(WindrowError):
            self._server.restart()
        with suppress(WindrowError):
            self._receiver.restart()

    def has_delivered(self) -> bool:
        """Whether a message of the outbox has arrived."""
        ends = self.ends()
        outbox = {each.hero for each in ends.written["outbox"]}
        return any(arrival.hero in outbox for arrival in ends.arrived)

    def ends(self) -> Ends:
        """What the database and the receiver hold now; the database first, so that it may lag."""
        written = {kind: self._written(kind) for kind in KINDS}
        return Ends(written, list(self._arrivals()), self._heroes_waiting())

    def _written(self, kind: Kind) -> list[Written]:
        written: list[Written] = []
        after = 0
        while heroes := self._page(after, kind):
            written += [Written(str(hero.id), hero.created.timestamp()) for hero in heroes]
            after = heroes[-1].id
        return written

    def _page(self, after: int, kind: Kind) -> list[Any]:
        try:
            return self._heroes.page(after, _PAGE, kind)
        except WindrowError:  # once: the connection is older than the server
            return self._heroes.page(after, _PAGE, kind)

    def _arrivals(self) -> Iterator[Arrival]:
        after: int | None = 0
        while after is not None:
            answer = self._receiver.get(f"/messages?after={after}&limit={_PAGE}")
            for message in answer["messages"]:
                at = datetime.fromisoformat(message["receivedAt"]).timestamp()
                yield Arrival(str(message["payload"]["id"]), message["id"], at)
            after = answer["next"]

    def _heroes_waiting(self) -> list[str]:
        """Whose messages are in the outbox or among the dead letters: a key is a hero's id."""
        waiting = [row["key"] for row in self._heroes.waiting(_MANY)]
        return waiting + buried_keys(self._dsn, Table())
