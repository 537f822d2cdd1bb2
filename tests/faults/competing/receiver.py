"""An HTTP receiver that notes every arrival in a file before it answers, and survives its death.

``python -m tests.faults.competing.receiver PORT DIRECTORY``. A line of ``arrivals`` is the id of a
message, its key and number, and the relay that sent it. A file ``delay`` in the directory says for
how many seconds answers are held back, a file ``status`` which one is given. With ``INBOX_DSN`` in
the environment the message is also worked on: a row in the table ``effects``, in one transaction
with its claim.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from windrow.lines import append, open_lines


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    directory: Path
    arrivals: int
    inbox: Work | None = None

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message_id = self.headers["ce-id"]
        assert self.headers["idempotency-key"]
        status = int(self._told("status") or 200)
        if status == 200:
            sender = self.headers["ce-source"]
            line = json.dumps([message_id, body["key"], body["number"], sender])
            append(self.arrivals, line.encode() + b"\n")
            if self.inbox is not None:
                self.inbox.take(message_id, body["number"])
        time.sleep(float(self._told("delay") or 0))
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(204)
        self.send_header("content-length", "0")
        self.end_headers()

    def _told(self, name: str) -> str:
        try:
            return (self.directory / name).read_text()
        except FileNotFoundError:
            return ""

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


class Work:
    """What is done with a message, once for each id."""

    def __init__(self, dsn: str) -> None:
        import psycopg

        from windrow.inbox import Inbox

        self._connection, self._inbox = psycopg.connect(dsn), Inbox()
        self._lock = threading.Lock()

    def take(self, message_id: str, number: int) -> None:
        with self._lock, self._connection.transaction():
            if self._inbox.claim(self._connection, message_id):
                self._connection.execute("INSERT INTO effects VALUES (%s)", (number,))


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main(port: int, directory: Path) -> None:
    Receiver.directory = directory
    Receiver.arrivals = open_lines(directory / "arrivals")
    if dsn := os.environ.get("INBOX_DSN"):
        Receiver.inbox = Work(dsn)
    Server(("127.0.0.1", port), Receiver).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
