"""Ports of the loopback interface."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
_LOWEST = 10_240
_ATTEMPTS = 200


def free_port() -> int:
    """A TCP port that nobody uses at this moment.

    It lies below those the kernel gives to outgoing connections. One of these would be taken by
    any client while its server is down, so the server could not come back to its own port; worse,
    a client that keeps trying such a port in vain may in the end connect to itself.
    """
    for port in random.sample(range(_LOWEST, _first_outgoing_port()), _ATTEMPTS):
        if _can_bind(port):
            return port
    raise OSError(f"no free port among {_ATTEMPTS} tried on {LOOPBACK}")


def port_answers(port: int) -> bool:
    """Whether somebody accepts connections there."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=0.5):
            return True
    except OSError:
        return False


def _first_outgoing_port() -> int:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    # A machine may use nearly all ports for outgoing connections; then there is no better choice.
    return first if first >= _LOWEST + _ATTEMPTS else 32_768


def _can_bind(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
