"""What can be wrong with a place to send to, and with a request that claims to be signed."""

from __future__ import annotations

from windrow.errors import Failed, UsageError


class NowhereToSend(UsageError):
    """No URL is configured."""

    def __str__(self) -> str:
        return "the HTTP target has no URL; set relay.http.url, or relay.http.routes by topic"


class AddressForbidden(UsageError):
    """A host is at an address that nobody has allowed to be sent to."""

    def __init__(self, host: str, address: str, sort: str) -> None:
        super().__init__(host, address, sort)
        self.host, self.address, self.sort = host, address, sort

    def __str__(self) -> str:
        at = "is" if self.host == self.address else f"is at {self.address},"
        allow = f"add {self.host!r} to relay.http.allowed_hosts"
        if self.sort in ("private", "loopback"):
            allow += ", or set relay.http.allow_private"
        return f"host {self.host} {at} a {self.sort} address; if that is meant, {allow}"


class InvalidSignature(Failed):
    """A request was not signed by anyone who knows the secret, or not lately."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the request is not to be trusted: {self.reason}; answer 401"
