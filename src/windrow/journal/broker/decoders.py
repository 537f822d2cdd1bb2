"""What the values of a cluster's keys mean; one that contradicts its own key means nothing."""

from __future__ import annotations

from collections.abc import Mapping

from windrow.coordination.keyspace import Decoder
from windrow.coordination.store import KeyValue
from windrow.journal.errors import InvalidField
from windrow.journal.keys import Keys
from windrow.journal.messages import decode_broker_spec, decode_route, decode_spec
from windrow.journal.spec import BrokerSpec, JournalSpec, Route


def decoders(keys: Keys) -> Mapping[str, Decoder]:
    """By beginning of the key, what a mirror makes of its value."""

    def item(kv: KeyValue) -> JournalSpec:
        spec, journal = decode_spec(kv.value), keys.parse_item(kv.key)
        if spec.name != journal:
            raise InvalidField("JournalSpec.Name", f"key and value differ ({journal}, {spec.name})")
        return spec

    def member(kv: KeyValue) -> BrokerSpec:
        spec, process = decode_broker_spec(kv.value), keys.parse_member(kv.key)
        if spec.id != process:
            raise InvalidField("BrokerSpec.Id", f"key and value differ ({process}, {spec.id})")
        return spec

    def assignment(kv: KeyValue) -> Route | None:
        keys.parse_assignment(kv.key)
        return decode_route(kv.value) if kv.value else None

    return {keys.items: item, keys.members: member, keys.assignments: assignment}
