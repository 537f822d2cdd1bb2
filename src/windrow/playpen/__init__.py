"""A place to see the outbox work, and its naive alternative fail."""

from windrow.playpen.errors import BadRequest, InvalidVariable, MaybeWritten, NotWritten
from windrow.playpen.relays import relay_variables, start_relay
from windrow.playpen.services import PlaypenProducer, PlaypenReceiver
from windrow.playpen.stream import Sent, Stream, ledger_path

__all__ = [
    "BadRequest",
    "InvalidVariable",
    "MaybeWritten",
    "NotWritten",
    "PlaypenProducer",
    "PlaypenReceiver",
    "Sent",
    "Stream",
    "ledger_path",
    "relay_variables",
    "start_relay",
]
