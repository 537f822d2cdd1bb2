from __future__ import annotations

import socket
from pathlib import Path

from windrow.embedded.ports import LOOPBACK, free_port, port_answers


def test_a_free_port_can_be_listened_on_and_then_answers() -> None:
    port = free_port()
    assert not port_answers(port)
    with socket.create_server((LOOPBACK, port)):
        assert port_answers(port)


def test_no_outgoing_connection_can_take_the_port_of_a_server_that_is_down() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(free_port() < first for _ in range(50))
