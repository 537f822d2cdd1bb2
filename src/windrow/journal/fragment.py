"""A span of a journal's bytes, known by its content.

Journal, offsets and SHA-1 of the uncompressed bytes identify a fragment wherever it is: in a
replica's spool, in a store, or on its way between two brokers.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from windrow.journal.codec import CODEC_OF_EXTENSION, EXTENSION, Codec
from windrow.journal.errors import InvalidField, field
from windrow.journal.names import valid_journal, valid_path
from windrow.journal.store_url import valid_store

ZERO_SUM = bytes(20)
"""The sum of an empty fragment: not the SHA-1 of nothing, but nothing."""

MAX_OFFSET = (1 << 63) - 1

_CONTENT_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{40})((?:\.[a-z]+)?)")


@dataclass(frozen=True, slots=True)
class Fragment:
    """Bytes ``begin`` up to and without ``end`` of a journal.

    ``backing_store``, ``mod_time`` (Unix seconds) and ``path_postfix`` say where a persisted
    fragment is kept; they are unset for a local one.
    """

    journal: str
    begin: int = 0
    end: int = 0
    sum: bytes = ZERO_SUM
    codec: Codec = Codec.NONE
    backing_store: str = ""
    mod_time: int = 0
    path_postfix: str = ""

    @property
    def length(self) -> int:
        """How many uncompressed bytes it spans."""
        return self.end - self.begin

    @property
    def is_empty(self) -> bool:
        """Whether it spans nothing."""
        return self.begin == self.end

    @property
    def is_persisted(self) -> bool:
        """Whether it is known to be in a store."""
        return bool(self.backing_store)

    def contains(self, offset: int) -> bool:
        """Whether the byte at ``offset`` is in it."""
        return self.begin <= offset < self.end

    def content_name(self) -> str:
        """The file name that tells the span, the sum and the codec."""
        return f"{self.begin:016x}-{self.end:016x}-{self.sum.hex()}{EXTENSION[self.codec]}"

    def content_path(self) -> str:
        """Where it is kept below the root of its store."""
        return posixpath.join(self.journal, self.path_postfix, self.content_name())

    @classmethod
    def parse_name(cls, journal: str, name: str) -> Fragment:
        """The fragment of ``journal`` kept as ``name``, relative to the journal's directory.

        Raises:
            InvalidField: The name is not one that ``content_name`` could have given.
        """
        postfix, content_name = posixpath.split(name)
        found = _CONTENT_NAME.fullmatch(content_name)
        if found is None:
            raise InvalidField("ContentName", f"wrong format ({name})")
        begin, end, digest, extension = found.groups()
        if extension not in CODEC_OF_EXTENSION:
            raise InvalidField("ContentName", f"unknown compression extension ({extension})")
        fragment = cls(
            journal,
            int(begin, 16),
            int(end, 16),
            bytes.fromhex(digest),
            CODEC_OF_EXTENSION[extension],
            path_postfix=postfix,
        )
        with field("ContentName"):
            fragment.validate()
        return fragment

    def validate(self) -> None:
        """Check every field.

        Raises:
            InvalidField: The journal, the span, the codec or the place is not possible.
        """
        # The sum of an empty fragment is not checked: stock brokers answer an empty append with
        # the SHA-1 of nothing.
        valid_journal(self.journal)
        if not 0 <= self.begin <= self.end <= MAX_OFFSET:
            raise InvalidField(
                "End", f"expected 0 <= Begin <= End (have {self.begin} and {self.end})"
            )
        if len(self.sum) != len(ZERO_SUM):
            raise InvalidField("Sum", f"expected {len(ZERO_SUM)} bytes (have {len(self.sum)})")
        if self.codec is Codec.INVALID:
            raise InvalidField("CompressionCodec", "is not set")
        if self.backing_store:
            valid_store(self.backing_store, context="BackingStore")
        if self.path_postfix:
            valid_path(self.path_postfix, 1, 512, context="PathPostfix")
