"""Stand in for Python where Spark starts a process: have it forked, and end as it ends.

It is run by its path, isolated and without ``site``, which takes some 20 ms; so it imports the
standard library only. The server imports it for its end of the wire.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Final, NamedTuple, NoReturn

_NUMBER: Final = 4


class Order(NamedTuple):
    """What a process is to be: as given to ``exec``, but for the program, which is Python."""

    arguments: list[str]
    environment: dict[str, str]
    directory: str


def send_order(connection: socket.socket, order: Order, streams: list[int]) -> None:
    """Send it, with the three standard streams of the process."""
    data = json.dumps(order).encode()
    socket.send_fds(connection, [len(data).to_bytes(_NUMBER)], streams)
    connection.sendall(data)


def receive_order(connection: socket.socket) -> tuple[Order, list[int]]:
    """Read what was sent.

    Raises:
        EOFError: The other side has gone.
    """
    head, streams, _, _ = socket.recv_fds(connection, _NUMBER, 3)
    return Order(*json.loads(_receive(connection, int.from_bytes(head)))), streams


def send_status(connection: socket.socket, status: int) -> None:
    """Tell how the process ended: its exit status, negative for a signal."""
    connection.sendall(status.to_bytes(_NUMBER, signed=True))


def _receive(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = connection.recv(length - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _launch(path: str, arguments: list[str]) -> int:
    """Have a process forked and wait for its end."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        send_order(connection, Order(arguments, dict(os.environ), os.getcwd()), [0, 1, 2])
        return int.from_bytes(_receive(connection, _NUMBER), signed=True)


def main(path: str, *arguments: str) -> None:
    """Have a module run by the server at this path; anything else is for Python itself."""
    if arguments[:1] != ("-m",):
        _be_python(arguments)
    try:
        status = _launch(path, list(arguments))
    except EOFError:
        status = 1  # the server is gone, and with it what it forked
    except OSError:
        _be_python(arguments)  # there is no server
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(abs(status))


def _be_python(arguments: tuple[str, ...]) -> NoReturn:
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
