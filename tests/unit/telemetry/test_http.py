from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from windrow.telemetry import CheckKind, Health, Metrics
from windrow.telemetry import http as telemetry_http
from windrow.telemetry.errors import CannotListen
from windrow.telemetry.http import MAX_REQUEST_BYTES, TelemetryServer, start


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def server(metrics: Metrics, health: Health) -> Iterator[TelemetryServer]:
    server = start("127.0.0.1", 0, metrics, health)
    yield server
    server.stop()


def ask(
    server: TelemetryServer, path: str, method: str = "GET", body: bytes | None = None
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection(*server.address, timeout=10)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers
    finally:
        connection.close()


def send_raw(server: TelemetryServer, request: bytes) -> bytes:
    """What the server answers until it closes the connection."""
    with socket.create_connection(server.address, timeout=10) as connection:
        connection.sendall(request)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    answer = b""
    while chunk := connection.recv(4096):
        answer += chunk
    return answer


def test_metrics_are_served_in_the_text_format(server: TelemetryServer, metrics: Metrics) -> None:
    metrics.counter("log_events_total", level="info").inc(3)
    status, body, headers = ask(server, "/metrics")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'windrow_log_events_total{level="info"} 3.0' in body


def test_a_scrape_brings_the_gauges_of_the_checks_up_to_date(
    server: TelemetryServer, health: Health
) -> None:
    health.add("kafka", lambda: "no broker")
    assert 'windrow_health_check_up{check="kafka"} 0.0' in ask(server, "/metrics")[1]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/readyz?verbose"])
def test_a_healthy_process_answers_200(server: TelemetryServer, health: Health, path: str) -> None:
    health.add("loop", lambda: None, kind=CheckKind.LIVE)
    status, body, headers = ask(server, path)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(body)["status"] == "ok"


def test_a_process_that_is_not_ready_is_still_alive(
    server: TelemetryServer, health: Health
) -> None:
    health.add("loop", lambda: None, kind=CheckKind.LIVE)
    health.add("kafka", lambda: "no broker", kind=CheckKind.READY)
    assert ask(server, "/healthz")[0] == 200
    status, body, _ = ask(server, "/readyz")
    assert status == 503
    assert [c["name"] for c in json.loads(body)["checks"] if not c["ok"]] == ["kafka"]


def test_a_process_that_is_not_alive_is_not_ready_either(
    server: TelemetryServer, health: Health
) -> None:
    health.add("loop", lambda: "stands still", kind=CheckKind.LIVE)
    assert (ask(server, "/healthz")[0], ask(server, "/readyz")[0]) == (503, 503)


def test_a_hanging_check_is_answered_with_503_at_its_time_out(
    server: TelemetryServer, health: Health
) -> None:
    released = threading.Event()
    health.add("hangs", lambda: str(released.wait()), timeout=0.2)
    began = time.monotonic()
    status, body, _ = ask(server, "/readyz")
    released.set()
    assert status == 503
    assert "no answer" in json.loads(body)["checks"][0]["problem"]
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("path", ["/", "/metrics/", "/healthz/live", "/%6detrics"])
def test_any_other_path_is_answered_with_404(server: TelemetryServer, path: str) -> None:
    status, body, _ = ask(server, path)
    assert (status, json.loads(body)) == (404, {"error": "try /metrics, /healthz or /readyz"})


def test_head_is_answered_as_get_without_the_body(server: TelemetryServer) -> None:
    body = ask(server, "/healthz")[1]
    answer = send_raw(server, b"HEAD /healthz HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 200 ")
    assert answer.endswith(b"Content-Length: %d\r\n\r\n" % len(body))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_refused(server: TelemetryServer, method: str) -> None:
    status, _, headers = ask(server, "/metrics", method, body=b"x" * 100_000)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


def test_a_refused_client_that_goes_on_sending_is_not_reset(server: TelemetryServer) -> None:
    """A reset may overtake the answer, and the client would not read why it was refused."""
    with socket.create_connection(server.address, timeout=10) as connection:
        connection.sendall(b"POST /metrics HTTP/1.1\r\nContent-Length: 200000\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.0 405 ")
        for _ in range(20):  # one that was reset is refused at the second
            connection.sendall(b"x" * 1000)
            time.sleep(0.01)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 150 + b"\r\n",
    ],
    ids=["long line", "long header", "many headers"],
)
def test_a_request_that_is_too_large_is_refused(
    server: TelemetryServer, request_bytes: bytes
) -> None:
    assert send_raw(server, request_bytes).startswith(b"HTTP/1.0 431 ")


@pytest.mark.parametrize(
    "request_bytes",
    [b"nonsense\r\n\r\n", b"GET / FTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\r\n\r\n"],
)
def test_what_is_not_http_is_refused_in_json(server: TelemetryServer, request_bytes: bytes) -> None:
    head, _, body = send_raw(server, request_bytes).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 400 ")
    assert "error" in json.loads(body)


def test_a_client_that_sends_a_byte_now_and_then_is_let_go(
    server: TelemetryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time-out is for the whole request: each byte comes well within it."""
    monkeypatch.setattr(telemetry_http, "REQUEST_TIMEOUT", 0.5)
    began, answer = time.monotonic(), b""
    with socket.create_connection(server.address, timeout=0.05) as connection:
        while not answer and time.monotonic() - began < 10:
            connection.sendall(b"G")
            try:
                answer = connection.recv(4096)
            except TimeoutError:
                continue
    assert answer.startswith(b"HTTP/1.0 408 ")
    assert time.monotonic() - began < 5


def test_a_client_that_stays_silent_keeps_nobody_waiting(server: TelemetryServer) -> None:
    with socket.create_connection(server.address, timeout=10):
        began = time.monotonic()
        assert ask(server, "/healthz")[0] == 200
        assert time.monotonic() - began < 2


def test_a_client_that_leaves_early_breaks_nothing(
    server: TelemetryServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(5):
        with socket.create_connection(server.address, timeout=10) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            linger = b"\1\0\0\0\0\0\0\0"  # reset instead of closing
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    assert ask(server, "/healthz")[0] == 200
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
    assert capfd.readouterr().err == ""


def test_an_error_of_ours_is_answered_with_500_and_logged(
    health: Health, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Metrics):
        def exposition(self) -> bytes:
            raise RuntimeError("a collector failed")

    server = start("127.0.0.1", 0, Broken(), health)
    try:
        status, body, _ = ask(server, "/metrics")
    finally:
        server.stop()
    assert (status, json.loads(body)) == (500, {"error": "see the log"})
    assert "a collector failed" in caplog.text


def test_a_stopped_server_has_closed_its_port(metrics: Metrics, health: Health) -> None:
    server = start("127.0.0.1", 0, metrics, health)
    address = server.address
    server.stop()
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=1)
    start(*address, metrics, health).stop()


def test_a_stopped_server_leaves_no_thread(metrics: Metrics, health: Health) -> None:
    server = start("127.0.0.1", 0, metrics, health)
    ask(server, "/healthz")
    server.stop()
    assert "windrow-telemetry-http" not in [thread.name for thread in threading.enumerate()]


def test_a_port_in_use_is_named_together_with_the_key_that_sets_it(
    server: TelemetryServer, metrics: Metrics, health: Health
) -> None:
    host, port = server.address
    with pytest.raises(CannotListen) as failure:
        start(host, port, metrics, health)
    assert str(failure.value) == (
        f"cannot serve metrics and health on 127.0.0.1:{port}: something else listens there;"
        ' set "http.port" to one that is free, or correct "http.host"'
    )


@pytest.mark.parametrize(("host", "port"), [("203.0.113.7", 0), ("127.0.0.1", 70_000)])
def test_an_address_that_cannot_be_is_an_error_of_ours(
    host: str, port: int, metrics: Metrics, health: Health
) -> None:
    with pytest.raises(CannotListen, match=f"{host}:{port}"):
        start(host, port, metrics, health)


def test_the_url_is_one_that_can_be_opened(server: TelemetryServer) -> None:
    host, port = server.address
    assert server.url == f"http://{host}:{port}"


def test_the_limit_of_a_request_leaves_room_for_a_usual_one() -> None:
    assert MAX_REQUEST_BYTES >= 8 * 1024
