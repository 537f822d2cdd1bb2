"""What a journal is: its name, replication, labels, and how its fragments are kept.

A field that is zero is unset, as on the wire; ``validate`` tells which may not be. The brokers'
own types are in ``windrow.journal.process`` and importable from here too.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from windrow.journal.codec import Codec
from windrow.journal.errors import InvalidField, field
from windrow.journal.labels import EMPTY, Label, LabelSet
from windrow.journal.names import valid_journal
from windrow.journal.process import BrokerSpec, EtcdHeader, Header, ProcessId, Route
from windrow.journal.store_url import store_scheme, valid_store

INCARNATION_LABEL: Final = "windrow.dev/incarnation"
"""A random id given at creation: a journal deleted and created again is another journal."""

SEQUENCED_LABEL: Final = "windrow.dev/sequenced"
"""Marks a journal whose writers number their appends through its registers."""

SINGLE_VALUED: Final = (
    "app.gazette.dev/instance",
    "app.gazette.dev/managed-by",
    "app.gazette.dev/message-subtype",
    "app.gazette.dev/message-type",
    "app.gazette.dev/region",
    "content-type",
    INCARNATION_LABEL,
    SEQUENCED_LABEL,
)
META_LABELS: Final = ("name", "prefix")
_NEEDS: Final = {
    "app.gazette.dev/message-type": "content-type",
    "app.gazette.dev/message-subtype": "app.gazette.dev/message-type",
}
_MEDIA_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_MEDIA_TYPE: Final = re.compile(f"{_MEDIA_TOKEN}(?:/{_MEDIA_TOKEN})?")

MAX_REPLICATION: Final = 5
MIN_LENGTH, MAX_LENGTH = 1 << 10, 1 << 34
MIN_REFRESH, MAX_REFRESH = 1.0, 24 * 3600.0
MIN_FLUSH = 60.0
MAX_SECONDS = (2**63 - 1) / 1e9
"""Beyond this a duration does not fit the nanoseconds that other implementations keep."""


class Flag(IntEnum):
    """Which requests a journal takes; numbered as on the wire."""

    NOT_SPECIFIED = 0
    O_RDONLY = 1
    O_WRONLY = 2
    O_RDWR = 4


class SuspendLevel(IntEnum):
    """How far an idle journal is given up: to one replica, or to none."""

    NONE = 0
    PARTIAL = 1
    FULL = 2


class SuspendControl(IntEnum):
    """What an append does about suspension; numbered as on the wire."""

    RESUME = 0
    NO_RESUME = 1
    IF_FLUSHED = 2
    NOW = 3
    KEEP = 4


@dataclass(frozen=True, slots=True)
class Suspend:
    """A journal's suspension, and the offset below which nothing may be written again."""

    level: SuspendLevel = SuspendLevel.NONE
    offset: int = 0


@dataclass(frozen=True, slots=True)
class FragmentSpec:
    """How a journal's bytes are cut, compressed and kept. Durations are seconds."""

    length: int = 0
    codec: Codec = Codec.INVALID
    stores: tuple[str, ...] = ()
    refresh_interval: float = 0.0
    retention: float = 0.0
    flush_interval: float = 0.0
    path_postfix_template: str = ""

    def validate(self) -> None:
        """Check every field but the template, which only its evaluation can check.

        Raises:
            InvalidField: A field is out of its range, or codec and store do not go together.
        """
        _check_range("Length", self.length, MIN_LENGTH, MAX_LENGTH)
        if self.codec is Codec.INVALID:
            raise InvalidField("CompressionCodec", "is not set")
        for index, store in enumerate(self.stores):
            valid_store(store, context=f"Stores[{index}]")
        is_offload = self.codec is Codec.GZIP_OFFLOAD_DECOMPRESSION
        if is_offload and self.stores and store_scheme(self.stores[0]) == "file":
            raise InvalidField(
                "CompressionCodec", f"{self.codec.name} needs a store other than file"
            )
        _check_range("RefreshInterval", self.refresh_interval, MIN_REFRESH, MAX_REFRESH)
        _check_range("Retention", self.retention, -MAX_SECONDS, MAX_SECONDS)
        if self.flush_interval != 0:
            _check_range("FlushInterval", self.flush_interval, MIN_FLUSH, MAX_SECONDS)


@dataclass(frozen=True, slots=True)
class JournalSpec:
    """A journal as it is kept in etcd and applied by its users."""

    name: str
    replication: int = 0
    labels: LabelSet = EMPTY
    fragment: FragmentSpec = FragmentSpec()
    flags: int = Flag.NOT_SPECIFIED
    max_append_rate: int = 0
    suspend: Suspend = Suspend()

    @property
    def readable(self) -> bool:
        """Whether its flags allow reads."""
        return self.flags in (Flag.NOT_SPECIFIED, Flag.O_RDONLY, Flag.O_RDWR)

    @property
    def writable(self) -> bool:
        """Whether its flags allow appends."""
        return self.flags in (Flag.NOT_SPECIFIED, Flag.O_WRONLY, Flag.O_RDWR)

    @property
    def incarnation(self) -> str | None:
        """The random id of its creation, if it was given one."""
        return self.labels.value(INCARNATION_LABEL)

    @property
    def is_sequenced(self) -> bool:
        """Whether its writers number their appends."""
        return self.labels.value(SEQUENCED_LABEL) is not None

    def desired_replication(self, max_replication: int) -> int:
        """How many replicas it should have now, a suspension and the broker's cap considered."""
        match self.suspend.level:
            case SuspendLevel.FULL:
                return 0
            case SuspendLevel.PARTIAL:
                return 1
        return min(self.replication, max_replication)

    def labels_with_name(self) -> LabelSet:
        """What selectors are matched against: its labels and its name as one more."""
        return self.labels.assigned(LabelSet((Label("name", self.name),)))

    def validate(self) -> None:
        """Check every field.

        Raises:
            InvalidField: A field is out of its range or form; the message names it.
        """
        valid_journal(self.name, context="Name")
        _check_range("Replication", self.replication, 1, MAX_REPLICATION)
        with field("Labels"):
            self.labels.validate()
            _check_conventions(self.labels)
        with field("Fragment"):
            self.fragment.validate()
        if self.flags not in tuple(Flag):
            raise InvalidField("Flags", f"invalid flags ({self.flags}; expected 0, 1, 2 or 4)")
        _check_range("MaxAppendRate", self.max_append_rate, 0, 2**63 - 1)
        _check_range("Suspend.Offset", self.suspend.offset, 0, 2**63 - 1)


def with_incarnation(spec: JournalSpec, random_id: str) -> JournalSpec:
    """``spec`` as a journal of its own, told by ``random_id`` from others of its name."""
    label = LabelSet((Label(INCARNATION_LABEL, random_id),))
    return replace(spec, labels=spec.labels.assigned(label))


def _check_range(context: str, number: float, low: float, high: float) -> None:
    if not (math.isfinite(number) and low <= number <= high):
        raise InvalidField(context, f"invalid value ({number}; expected {low} <= value <= {high})")


def _check_conventions(labels: LabelSet) -> None:
    for name in META_LABELS:
        if labels.values(name):
            raise InvalidField("", f"label {name} is reserved for selectors")
    for name in SINGLE_VALUED:
        if len(labels.values(name)) > 1:
            raise InvalidField("", f"label {name} may have one value only {labels.values(name)}")
    for name, needed in _NEEDS.items():
        if labels.values(name) and not labels.values(needed):
            raise InvalidField("", f"label {name} needs a label {needed}")
    content_type = labels.value("content-type")
    if content_type is not None and not _MEDIA_TYPE.fullmatch(content_type):
        raise InvalidField("", f"content-type is not a media type ({content_type})")


__all__ = [
    "INCARNATION_LABEL",
    "SEQUENCED_LABEL",
    "BrokerSpec",
    "Codec",
    "EtcdHeader",
    "Flag",
    "FragmentSpec",
    "Header",
    "JournalSpec",
    "ProcessId",
    "Route",
    "Suspend",
    "SuspendControl",
    "SuspendLevel",
    "with_incarnation",
]
