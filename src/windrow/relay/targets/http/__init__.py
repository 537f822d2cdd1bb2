"""Messages as CloudEvents, posted to a URL."""

from windrow.relay.targets.http.errors import AddressForbidden, InvalidSignature, NowhereToSend
from windrow.relay.targets.http.signing import new_secret, verify_signature
from windrow.relay.targets.http.target import HttpTarget

__all__ = [
    "AddressForbidden",
    "HttpTarget",
    "InvalidSignature",
    "NowhereToSend",
    "new_secret",
    "verify_signature",
]
