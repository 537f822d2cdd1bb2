"""Run one of the services in this process until it is told to stop."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
from typing import TYPE_CHECKING

from windrow.extras import require
from windrow.playpen.errors import CannotListen

if TYPE_CHECKING:
    from starlette.types import ASGIApp

KEEP_ALIVE = 60
"""Seconds an idle connection is kept: longer than relays keep theirs, so that none is closed just
as a message is sent on it."""
GRACE = 2
"""Seconds that requests may take to end once it is time to stop."""


class Served:
    """A server for an application, whose signals are somebody else's business."""

    def __init__(self, app: ASGIApp) -> None:
        uvicorn = require("uvicorn")
        # It tells every request that it makes, and so do those who make them.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=GRACE,
        )
        self._server = uvicorn.Server(config)
        # Or it would raise them again after the end.
        self._server.capture_signals = contextlib.nullcontext

    def run(self, listener: socket.socket) -> bool:
        """Serve until ``stop``; false if it did not come as far as that."""
        self._server.run(sockets=[listener])
        return bool(self._server.started)

    def stop(self, at_once: bool = False) -> None:
        """Take no more requests and end; the second time without waiting for those under way."""
        self._server.should_exit = True
        self._server.force_exit = at_once


def listen(service: str, host: str, port: int) -> socket.socket:
    """A socket on that address, with port 0 on a free one.

    Raises:
        CannotListen: The address is taken, or not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        reason = "something else listens there" if taken else str(error)
        raise CannotListen(service, f"{host}:{port}", reason) from None
    return listener


def url_of(listener: socket.socket) -> str:
    """The address as the beginning of a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
