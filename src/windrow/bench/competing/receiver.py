"""A receiver that costs next to nothing: it notes the id of each message and answers 204.

``GET /`` says how many messages came, and how many different ones; ``DELETE /`` forgets them.
"""

from __future__ import annotations

import asyncio
import json
import sys

from windrow.embedded.ports import LOOPBACK

HEAD_END = b"\r\n\r\n"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


class Receiver(asyncio.Protocol):
    """One connection; all of them note what they get in the same list."""

    def __init__(self, ids: list[bytes]) -> None:
        self._ids = ids
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole."""
        self._buffer += data
        while self._take_request():
            pass

    def _take_request(self) -> bool:
        head, separator, rest = self._buffer.partition(HEAD_END)
        if not separator:
            return False
        headers = head.lower()
        length = int(_header(headers, b"content-length") or b"0")
        if len(rest) < length:
            return False
        self._buffer = rest[length:]
        assert self._transport is not None
        self._transport.write(self._answer(head, headers))
        return True

    def _answer(self, head: bytes, headers: bytes) -> bytes:
        if head.startswith(b"POST"):
            self._ids.append(_header(headers, b"idempotency-key"))
            return NO_CONTENT
        if head.startswith(b"DELETE"):
            self._ids.clear()
            return NO_CONTENT
        body = json.dumps({"messages": len(self._ids), "different": len(set(self._ids))}).encode()
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def _header(head: bytes, name: bytes) -> bytes:
    _, _, rest = head.partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip()


async def serve(port: int) -> None:
    """Serve until the process ends."""
    ids: list[bytes] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Receiver(ids), LOOPBACK, port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
