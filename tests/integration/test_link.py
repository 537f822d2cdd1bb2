"""A link between real clients and real services, cut, stalled, delayed and reset."""

from __future__ import annotations

import hashlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.fixtures.processes import eventually
from windrow.embedded.link import Link, Target
from windrow.embedded.link_rules import Action, Chunk, Direction, at_match
from windrow.embedded.ports import LOOPBACK, free_port

TEN_MEGABYTES = random.Random(7).randbytes(10_000_000)
SILENCE = 0.2
"""Seconds without a byte that count as none coming."""

Serve = Callable[[socket.socket], None]


class Service:
    """Serves each connection in a thread; remembers how its connections ended."""

    def __init__(self, serve: Serve, listener: socket.socket) -> None:
        self.ends: list[str] = []
        self._serve, self._listener = serve, listener
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def target(self) -> Target:
        address = self._listener.getsockname()
        return Path(address) if isinstance(address, str) else (LOOPBACK, address[1])

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._answer, args=(connection,)))
            self._threads[-1].start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._serve(connection)
                self.ends.append("end")
            except OSError as error:
                self.ends.append(type(error).__name__)

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


@contextmanager
def serving(serve: Serve, listener: socket.socket | None = None) -> Iterator[Service]:
    service = Service(serve, listener or socket.create_server((LOOPBACK, 0)))
    try:
        yield service
    finally:
        service.stop()


def echo(connection: socket.socket) -> None:
    while received := connection.recv(65536):
        connection.sendall(received)


def send_ten_megabytes(connection: socket.socket) -> None:
    connection.sendall(TEN_MEGABYTES)


@pytest.fixture
def link() -> Iterator[Link]:
    """A link to a service that sends back what it gets."""
    with serving(echo) as service, Link.start(service.target) as link:
        yield link


def connect(link: Link) -> socket.socket:
    return socket.create_connection((LOOPBACK, link.port), timeout=10)


@contextmanager
def connected_to(serve: Serve) -> Iterator[tuple[Link, socket.socket]]:
    """A link to a service, and a client that is connected through it."""
    with (
        serving(serve) as service,
        Link.start(service.target) as link,
        connect(link) as client,
    ):
        yield link, client


def receive(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count and (part := connection.recv(count - len(parts))):
        parts += part
    return bytes(parts)


def receive_all(connection: socket.socket, at_a_time: int = 1 << 20) -> bytes:
    """Everything up to the end, whichever kind of end it is."""
    parts = bytearray()
    try:
        while part := connection.recv(at_a_time):
            parts += part
    except ConnectionResetError:
        pass
    return bytes(parts)


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(SILENCE)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    else:
        return False
    finally:
        connection.settimeout(10)


def test_bytes_pass_both_ways_and_are_counted(link: Link) -> None:
    with connect(link) as first, connect(link) as second:
        first.sendall(b"one")
        second.sendall(b"three")
        assert receive(first, 3) == b"one"
        assert receive(second, 5) == b"three"
        assert link.open_connections == 2
    assert eventually(lambda: link.open_connections == 0)
    assert link.connections == 2
    assert link.bytes_passed == {Direction.TO_SERVICE: 8, Direction.TO_CLIENT: 8}


def test_service_behind_a_unix_socket_is_reached(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    listener.listen()
    with serving(echo, listener) as service, Link.start(service.target) as link:
        assert isinstance(service.target, Path)
        with connect(link) as client:
            client.sendall(b"hello")
            assert receive(client, 5) == b"hello"


def test_answer_arrives_after_the_client_has_ended_its_side() -> None:
    def answer_at_the_end(connection: socket.socket) -> None:
        received = receive_all(connection)
        connection.sendall(received[::-1])

    with connected_to(answer_at_the_end) as (_, client):
        client.sendall(b"abc")
        client.shutdown(socket.SHUT_WR)
        assert receive_all(client) == b"cba"


def test_client_of_a_service_that_is_not_there_is_reset() -> None:
    with (
        Link.start((LOOPBACK, free_port())) as link,
        pytest.raises(ConnectionResetError),  # which may come before connect returns
        connect(link) as client,
    ):
        client.recv(1)


def test_cut_link_refuses_until_it_is_restored(link: Link) -> None:
    with connect(link) as client:
        client.sendall(b"x")
        assert receive(client, 1) == b"x"
        link.cut()
        assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(link)
    link.restore()
    with connect(link) as client:
        client.sendall(b"y")
        assert receive(client, 1) == b"y"


def test_nobody_takes_the_port_of_a_cut_link(link: Link) -> None:
    link.cut()
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind((LOOPBACK, link.port))


def test_stalled_link_passes_no_byte_and_loses_none(link: Link) -> None:
    with connect(link) as client:
        link.stall()
        client.sendall(b"held")
        assert is_silent(client)
        assert link.bytes_passed == {Direction.TO_SERVICE: 0, Direction.TO_CLIENT: 0}
        link.resume()
        assert receive(client, 4) == b"held"


def test_connection_made_during_a_stall_comes_to_life_afterwards(link: Link) -> None:
    link.stall()
    with connect(link) as client:
        client.sendall(b"early")
        assert is_silent(client)
        link.resume()
        assert receive(client, 5) == b"early"


def test_delay_holds_bytes_in_each_direction(link: Link) -> None:
    with connect(link) as client:
        link.delay(0.2)
        began = time.monotonic()
        client.sendall(b"ping")
        assert receive(client, 4) == b"ping"
        assert time.monotonic() - began >= 0.4
        link.delay(0)
        began = time.monotonic()
        client.sendall(b"pong")
        assert receive(client, 4) == b"pong"
        assert time.monotonic() - began < 0.4


def test_shorter_delay_does_not_let_bytes_overtake(link: Link) -> None:
    with connect(link) as client:
        link.delay(0.3)
        client.sendall(b"first ")
        assert eventually(lambda: held_bytes(link) == 6)
        link.delay(0)
        client.sendall(b"second")
        assert receive(client, 12) == b"first second"


def held_bytes(link: Link) -> int:
    return sum(pipe.line.size for connection in link._open for pipe in connection.pipes)


def test_reset_is_seen_as_a_reset_at_both_ends() -> None:
    with serving(echo) as service, Link.start(service.target) as link:
        with connect(link) as client:
            client.sendall(b"x")
            assert receive(client, 1) == b"x"
            link.reset()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert eventually(lambda: service.ends == ["ConnectionResetError"])
        with connect(link) as client:
            client.sendall(b"y")
            assert receive(client, 1) == b"y"


def test_reset_by_the_client_reaches_the_service() -> None:
    with serving(echo) as service, Link.start(service.target) as link:
        client = connect(link)
        client.sendall(b"x")
        assert receive(client, 1) == b"x"
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        assert eventually(lambda: service.ends == ["ConnectionResetError"])


def test_ten_megabytes_arrive_whole(link: Link) -> None:
    with connect(link) as client:
        sender = threading.Thread(target=client.sendall, args=(TEN_MEGABYTES,))
        sender.start()
        received = receive(client, len(TEN_MEGABYTES))
        sender.join(10)
    assert hashlib.sha256(received).digest() == hashlib.sha256(TEN_MEGABYTES).digest()
    assert link.bytes_passed[Direction.TO_CLIENT] == len(TEN_MEGABYTES)


def test_delay_costs_a_large_transfer_latency_and_no_bandwidth() -> None:
    with serving(send_ten_megabytes) as service, Link.start(service.target) as link:
        link.delay(0.5)
        began = time.monotonic()
        with connect(link) as client:
            received = receive_all(client)
        assert received == TEN_MEGABYTES
        # 40 chunks and more: one delay each would be 20 s.
        assert 0.5 <= time.monotonic() - began < 5.0


def test_stall_amid_ten_megabytes_holds_the_rest() -> None:
    with connected_to(send_ten_megabytes) as (link, client):
        received = receive(client, 1_000_000)
        link.stall()
        passed = link.bytes_passed[Direction.TO_CLIENT]
        received += receive(client, passed - len(received))
        assert is_silent(client)
        assert passed == link.bytes_passed[Direction.TO_CLIENT] < len(TEN_MEGABYTES)
        link.resume()
        assert received + receive_all(client) == TEN_MEGABYTES


def test_not_one_byte_passes_once_stall_has_returned() -> None:
    def send_without_end(connection: socket.socket) -> None:
        while True:
            connection.sendall(TEN_MEGABYTES[:1_000_000])

    with connected_to(send_without_end) as (link, client):
        reader = threading.Thread(target=receive_all, args=(client, 10_000))
        reader.start()
        moments = []
        for _ in range(100):
            link.stall()
            passed = link.bytes_passed[Direction.TO_CLIENT]
            time.sleep(0.001)  # room for a byte that slips through
            assert link.bytes_passed[Direction.TO_CLIENT] == passed
            moments.append(passed)
            link.resume()
            assert eventually(partial(has_passed_more, link, passed))
        link.cut()
        reader.join(10)
        assert len(set(moments)) == 100


def has_passed_more(link: Link, count: int) -> bool:
    return link.bytes_passed[Direction.TO_CLIENT] > count


@pytest.mark.parametrize("break_it", [Link.cut, Link.reset])
def test_break_amid_ten_megabytes_leaves_a_true_beginning(
    break_it: Callable[[Link], None],
) -> None:
    with serving(send_ten_megabytes) as service, Link.start(service.target) as link:
        with connect(link) as client:
            received = receive(client, 1_000_000)
            break_it(link)
            received += receive_all(client)
        assert 1_000_000 <= len(received) < len(TEN_MEGABYTES)
        assert TEN_MEGABYTES.startswith(received)
        # It may have handed over its last byte by then: all that counts is that it was let go.
        assert eventually(lambda: service.ends != [])


def test_slow_reader_does_not_keep_the_link_busy() -> None:
    with connected_to(send_ten_megabytes) as (link, client):
        client.recv(1)
        assert eventually(lambda: held_bytes(link) > 0)
        began = time.process_time()
        time.sleep(0.3)  # what is measured is this very time
        assert time.process_time() - began < 0.25
        assert len(receive_all(client)) == len(TEN_MEGABYTES) - 1


@pytest.mark.parametrize("lost", Direction)
def test_link_is_cut_at_the_nth_message(lost: Direction) -> None:
    """Either the service never sees the third request, or the client its answer."""
    seen: list[bytes] = []

    def number(connection: socket.socket) -> None:
        while received := connection.recv(100):
            seen.append(received)
            connection.sendall(received)

    hook = at_match(3, lambda payload: payload.startswith(b"do"), Action.CUT, lost)
    with serving(number) as service, Link.start(service.target, on_bytes=hook) as link:
        with connect(link) as client:
            answers = 0
            for _ in range(5):
                client.sendall(b"do it")
                if receive(client, 5) != b"do it":
                    break
                answers += 1
        assert link.acted.wait(10)
        assert answers == 2
        assert len(seen) == (2 if lost is Direction.TO_SERVICE else 3)
        with pytest.raises(ConnectionRefusedError):
            connect(link)


def test_message_that_stalls_the_link_is_delivered_once_it_is_resumed(link: Link) -> None:
    link.on_bytes = at_match(1, lambda payload: payload == b"stop", Action.STALL)
    with connect(link) as client:
        client.sendall(b"stop")
        assert link.acted.wait(10)
        assert link.is_stalled
        assert is_silent(client)
        link.resume()
        assert receive(client, 4) == b"stop"


def test_message_that_resets_the_link_is_lost_and_the_next_connection_works(link: Link) -> None:
    link.on_bytes = at_match(1, lambda payload: True, Action.RESET)
    with connect(link) as client:
        client.sendall(b"lost")
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with connect(link) as client:
        client.sendall(b"kept")
        assert receive(client, 4) == b"kept"


def test_error_of_the_hook_ends_the_link_and_is_raised_at_its_end() -> None:
    def broken(chunk: Chunk) -> Action:
        raise ValueError("what is this?")

    with serving(echo) as service:
        link = Link.start(service.target, on_bytes=broken)
        with connect(link) as client:
            client.sendall(b"x")
            assert client.recv(1) == b""
        with pytest.raises(ValueError, match="what is this"):
            link.stop()


def test_hook_that_controls_its_own_link_is_told_so() -> None:
    """It would wait for itself for ever."""
    with serving(echo) as service:
        own_link = Link.start(service.target)

        def cut(chunk: Chunk) -> Action:
            own_link.cut()
            return Action.PASS

        own_link.on_bytes = cut
        with connect(own_link) as client:
            client.sendall(b"x")
            assert client.recv(1) == b""
        with pytest.raises(AssertionError, match="by the Action it returns"):
            own_link.stop()


def test_stopped_link_is_gone() -> None:
    with serving(echo) as service:
        link = Link.start(service.target)
        with connect(link) as client:
            link.stop()
            link.stop()
            assert client.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            connect(link)
        assert not [t for t in threading.enumerate() if t.name == f"link-{link.port}"]


@contextmanager
def linked_database(database: str) -> Iterator[tuple[Link, str]]:
    """A link to a database, and the address of the database through it."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    parts = conninfo_to_dict(database)
    host, port = str(parts["host"]), int(str(parts["port"]))
    target: Target = Path(host, f".s.PGSQL.{port}") if host.startswith("/") else (host, port)
    with Link.start(target) as link:
        yield link, make_conninfo(database, host=LOOPBACK, port=link.port, sslmode="disable")


def test_query_passes_and_a_stall_holds_it(database: str) -> None:
    import psycopg

    with linked_database(database) as (link, address), psycopg.connect(address) as connection:
        assert connection.execute("SELECT 6 * 7").fetchone() == (42,)
        link.stall()
        answers: list[object] = []
        asker = threading.Thread(
            target=lambda: answers.append(connection.execute("SELECT 1").fetchone())
        )
        asker.start()
        asker.join(SILENCE)
        assert answers == []
        link.resume()
        asker.join(10)
        assert answers == [(1,)]


@pytest.mark.parametrize(("lost", "rows"), [(Direction.TO_SERVICE, 0), (Direction.TO_CLIENT, 1)])
def test_commit_cut_on_its_way_did_not_happen_and_cut_on_its_return_did(
    database: str, lost: Direction, rows: int
) -> None:
    """The client gets the same error both times: that is what an unknown outcome is."""
    import psycopg

    with psycopg.connect(database) as direct:
        direct.execute("CREATE TABLE thing (id int)")
        direct.commit()
        with (
            linked_database(database) as (link, address),
            closing(psycopg.connect(address)) as connection,
        ):
            connection.execute("INSERT INTO thing VALUES (1)")
            link.on_bytes = at_match(1, lambda payload: b"COMMIT" in payload, Action.CUT, lost)
            with pytest.raises(psycopg.OperationalError):
                connection.commit()

        def count() -> int:
            row = direct.execute("SELECT count(*) FROM thing").fetchone()
            direct.rollback()
            assert row is not None
            return int(row[0])

        assert eventually(lambda: count() == rows)
