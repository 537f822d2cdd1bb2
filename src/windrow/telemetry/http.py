"""The small server of ``/metrics``, ``/healthz`` and ``/readyz``.

One request per connection, GET and HEAD only. A client has ``REQUEST_TIMEOUT`` seconds for its
whole request and ``MAX_REQUEST_BYTES`` to say it in, so none can hold a thread by being slow.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, NamedTuple

from windrow.telemetry.errors import CannotListen
from windrow.telemetry.health import CheckKind, Health, HealthReport
from windrow.telemetry.health_runner import HealthRunner
from windrow.telemetry.metrics import CONTENT_TYPE, Metrics

REQUEST_TIMEOUT = 5.0
MAX_REQUEST_BYTES = 16 * 1024

_DRAIN_TIMEOUT = 1.0
_MAX_DRAIN_BYTES = 1024 * 1024
_log = logging.getLogger(__name__)


class TelemetryServer:
    """A server that is listening; made by ``start``."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, args=(0.05,), name="windrow-telemetry-http", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on."""
        host, port = self._server.server_address[:2]
        return str(host), port

    @property
    def url(self) -> str:
        """The address as the beginning of a URL."""
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def stop(self) -> None:
        """Close the port. An answer under way may still end; stopping again changes nothing."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def start(host: str, port: int, metrics: Metrics, health: Health) -> TelemetryServer:
    """Listen on that address, with port 0 on a free one, and serve from a daemon thread.

    Raises:
        CannotListen: The address is taken, or not one of this machine.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        server = _Server(family, (host, port), metrics, health)
    except (OSError, OverflowError) as error:
        raise CannotListen(host, port, _reason(error)) from error
    return TelemetryServer(server)


def _reason(error: OSError | OverflowError) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "something else listens there"
    return str(getattr(error, "strerror", None) or error)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self,
        family: socket.AddressFamily,
        address: tuple[str, int],
        metrics: Metrics,
        health: Health,
    ) -> None:
        self.address_family = family
        self.metrics = metrics
        self.health = HealthRunner(health, metrics)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks the name service for this machine's name: where that is
        # slow, every start would be.
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log it; the library would print it as it is."""
        _log.exception("request failed")


class _Reply(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


class _Refused(Exception):
    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "windrow", ""
    default_request_version = "HTTP/1.0"  # or what cannot be parsed would get no status line

    def handle(self) -> None:
        """Read one request, answer it, and be done."""
        self.command, self.request_version = "", self.default_request_version  # until known
        try:
            self._handle_one()
        except OSError:
            _log.debug("client went away")

    def _handle_one(self) -> None:
        try:
            head = _read_head(self.connection)
        except _Refused as refusal:
            self.send_error(refusal.status)
            return
        self.rfile.close()
        self.rfile = io.BytesIO(head)
        self.raw_requestline = self.rfile.readline()
        if not self.parse_request():
            return  # it has sent the error itself
        if self.command in ("GET", "HEAD"):
            self._send(self._reply())
        else:
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

    def _reply(self) -> _Reply:
        try:
            return self._reply_to(self.path.partition("?")[0])
        except Exception:
            _log.exception("request failed", extra={"path": self.path})
            return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "see the log")

    def _reply_to(self, path: str) -> _Reply:
        metrics, health = self.server.metrics, self.server.health
        match path:
            case "/metrics":
                health.report()  # so that the gauges of the checks are of now
                return _Reply(HTTPStatus.OK, CONTENT_TYPE, metrics.exposition())
            case "/healthz":
                return _health(health.report(CheckKind.LIVE))
            case "/readyz":
                return _health(health.report())  # what must be restarted is not ready either
        return _error(HTTPStatus.NOT_FOUND, "try /metrics, /healthz or /readyz")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse in JSON, also where the library found the fault."""
        self._send(_error(HTTPStatus(code), message or HTTPStatus(code).phrase))
        _drain(self.connection)

    def _send(self, reply: _Reply) -> None:
        self.connection.settimeout(REQUEST_TIMEOUT)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        if reply.status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing: a line per scrape helps nobody."""


def _health(report: HealthReport) -> _Reply:
    status = HTTPStatus.OK if report.is_ok else HTTPStatus.SERVICE_UNAVAILABLE
    return _Reply(status, "application/json", report.to_json().encode())


def _error(status: HTTPStatus, text: str) -> _Reply:
    return _Reply(status, "application/json", json.dumps({"error": text}).encode())


def _read_head(connection: socket.socket) -> bytes:
    """The request up to its empty line, and whatever of a body came with it."""
    deadline = time.monotonic() + REQUEST_TIMEOUT
    head = b""
    while b"\r\n\r\n" not in head:
        # One deadline for all of it: a time-out per read would let a byte a second go on for ever.
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            chunk = connection.recv(4096)
        except TimeoutError as error:
            raise _Refused(HTTPStatus.REQUEST_TIMEOUT) from error
        if not chunk:
            raise _Refused(HTTPStatus.BAD_REQUEST)
        head += chunk
        if len(head) > MAX_REQUEST_BYTES:
            raise _Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    return head


def _drain(connection: socket.socket) -> None:
    """Take in what a refused client still sends.

    Closing on unread bytes resets the connection, and the client would not see why.
    """
    connection.shutdown(socket.SHUT_WR)
    deadline, taken = time.monotonic() + _DRAIN_TIMEOUT, 0
    while taken < _MAX_DRAIN_BYTES and (left := deadline - time.monotonic()) > 0:
        connection.settimeout(left)
        chunk = connection.recv(65536)
        if not chunk:
            return
        taken += len(chunk)
