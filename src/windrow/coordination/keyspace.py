"""What does the store hold under one prefix? A sorted copy, kept current by changes. Pure.

Two revisions matter. ``revision`` is the largest at which a key under the prefix changed: it is
the one to tell others, since whoever mirrors the same prefix reaches it too. ``complete_through``
is how far this copy is known to hold everything, changes elsewhere in the store included: after
it a watch goes on, and nobody else need ever get there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from windrow.coordination.errors import ClusterChanged, EventsInconsistent, RevisionWentBack
from windrow.coordination.store import (
    DELETE,
    Event,
    KeyValue,
    Snapshot,
    WatchBatch,
    largest_mod_revision,
)

Decoder = Callable[[KeyValue], Any]
"""Turns a key and its value into what they mean, or raises because they mean nothing."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A value that its decoder refused; the key stays as it was before."""

    kv: KeyValue
    error: Exception


@dataclass(frozen=True, slots=True)
class Change:
    """What a load or a batch of changes did."""

    is_change: bool
    rejected: tuple[Rejected, ...] = ()


class KeySpace:
    """The keys under a prefix, in order.

    A value that its decoder refuses is ignored: its key stays as it was, absent or with its last
    good value, until a good one comes or it is deleted.
    """

    def __init__(self, prefix: str, decoders: Mapping[str, Decoder] | None = None) -> None:
        self.prefix = prefix
        self.cluster_id = 0
        self.revision = 0
        self.complete_through = 0
        self._decoders = dict(decoders or {})
        self._stored: dict[str, KeyValue] = {}
        self._shown: dict[str, tuple[KeyValue, Any]] = {}
        self._keys: list[str] = []
        self._last_event = 0
        self._last_progress = 0

    # -- what it holds ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: str) -> KeyValue | None:
        """The key, if it is there."""
        shown = self._shown.get(key)
        return shown[0] if shown else None

    def decoded(self, key: str) -> Any | None:
        """What the decoder made of the key; None if it is not there or has no decoder.

        The same object is returned until the key changes.
        """
        shown = self._shown.get(key)
        return shown[1] if shown else None

    def prefixed(self, prefix: str) -> list[KeyValue]:
        """Every key that begins so, in order."""
        keys = self._keys
        found = (keys[at] for at in range(bisect_left(keys, prefix), len(keys)))
        return [self._shown[key][0] for key in takewhile(lambda k: k.startswith(prefix), found)]

    # -- how it changes --------------------------------------------------------------------------

    def load(self, snapshot: Snapshot) -> Change:
        """Become the snapshot.

        Raises:
            ClusterChanged: It is from another cluster than what came before.
            RevisionWentBack: It is older than what came before.
        """
        self._check_cluster(snapshot.cluster_id)
        if snapshot.revision < self.complete_through:
            raise RevisionWentBack(self.complete_through, snapshot.revision)
        is_first = not self.complete_through
        shown_before, rejected = self._shown, []
        self._stored = {kv.key: kv for kv in snapshot.kvs}
        self._shown = {}
        for kv in snapshot.kvs:
            before = shown_before.get(kv.key)
            if before and before[0].create_revision == kv.create_revision:
                self._shown[kv.key] = before
            rejected += self._show(kv)
        self._keys = sorted(self._shown)
        self.revision = max(self.revision, largest_mod_revision(snapshot.kvs))
        self.complete_through = snapshot.revision
        return Change(is_first or self._shown != shown_before, tuple(rejected))

    def begin_watch(self) -> int:
        """The revision after which a new watch has to tell everything."""
        self._last_event = self.complete_through
        return self.complete_through

    def apply(self, batches: Sequence[WatchBatch]) -> Change:
        """Take over what a watch told, all of it at once.

        Raises:
            ClusterChanged: It is from another cluster than what came before.
            EventsInconsistent: A change is missing or out of order: the copy stays as it was, and
                has to be loaded again.
        """
        for batch in batches:
            self._check_cluster(batch.cluster_id)
            self._check_order(batch)
        events = [event for batch in batches for event in batch.events]
        events.sort(key=lambda event: (event.kv.key, event.kv.mod_revision))
        self._check_succession(events)
        rejected = [refusal for event in events for refusal in self._change(event)]
        for batch in batches:
            self._move_on(batch)
        return Change(bool(events), tuple(rejected))

    def _check_cluster(self, cluster_id: int) -> None:
        self.cluster_id = self.cluster_id or cluster_id
        if cluster_id != self.cluster_id:
            raise ClusterChanged(self.cluster_id, cluster_id)

    def _check_order(self, batch: WatchBatch) -> None:
        for event in batch.events:
            if not event.kv.key.startswith(self.prefix):
                raise EventsInconsistent(event.kv.key, f"is not under {self.prefix!r}")
            if event.kv.mod_revision <= self._last_event:
                reason = f"at {event.kv.mod_revision} follows one at {self._last_event}"
                raise EventsInconsistent(event.kv.key, reason)
        self._last_event = max(self._last_event, _latest(batch))

    def _check_succession(self, events: Sequence[Event]) -> None:
        """Make sure that each change follows from the one before it of the same key."""
        stored: dict[str, KeyValue | None] = {}
        for event in events:
            kv = event.kv
            known = stored[kv.key] if kv.key in stored else self._stored.get(kv.key)
            if event.kind is DELETE and known is None:
                raise EventsInconsistent(kv.key, "deletes what was not there")
            if event.kind is not DELETE and not _follows(kv, known):
                raise EventsInconsistent(kv.key, f"to {_position(kv)} follows {_position(known)}")
            stored[kv.key] = None if event.kind is DELETE else kv

    def _move_on(self, batch: WatchBatch) -> None:
        """Note how far the copy has come.

        A report without events counts one report late: a member may name a revision just before it
        tells the changes of that very revision, and by the next report it has told them.
        """
        if batch.events:
            self.revision = max(self.revision, _latest(batch))
            self.complete_through = max(self.complete_through, batch.revision)
        else:
            self.complete_through = max(self.complete_through, self._last_progress)
            self._last_progress = max(self._last_progress, batch.revision)

    def _change(self, event: Event) -> list[Rejected]:
        kv = event.kv
        if event.kind is DELETE:
            del self._stored[kv.key]
            self._hide(kv.key)
            return []
        self._stored[kv.key] = kv
        was_shown = kv.key in self._shown
        rejected = self._show(kv)
        if not was_shown and kv.key in self._shown:
            insort(self._keys, kv.key)
        return rejected

    def _show(self, kv: KeyValue) -> list[Rejected]:
        """Let the key be seen if its value is good; otherwise leave what is seen alone."""
        shown = self._shown.get(kv.key)
        if shown and shown[0] == kv:
            return []
        try:
            decoded = self._decode(kv)
        except Exception as error:  # whatever a decoder trips over, the other keys matter
            return [Rejected(kv, error)]
        self._shown[kv.key] = (kv, decoded)
        return []

    def _hide(self, key: str) -> None:
        if self._shown.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def _decode(self, kv: KeyValue) -> Any | None:
        for prefix, decoder in self._decoders.items():
            if kv.key.startswith(prefix):
                return decoder(kv)
        return None


def _follows(kv: KeyValue, known: KeyValue | None) -> bool:
    """Whether a put is the very next one of its key."""
    if known is None:
        return kv.version == 1 and kv.create_revision == kv.mod_revision
    return kv.version == known.version + 1 and kv.create_revision == known.create_revision


def _latest(batch: WatchBatch) -> int:
    return largest_mod_revision(event.kv for event in batch.events)


def _position(kv: KeyValue | None) -> str:
    return f"version {kv.version} of {kv.create_revision}" if kv else "no version"
