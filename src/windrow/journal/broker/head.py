"""Which branch of a journal is the true one? The key ``heads/<journal>``, and who counts. Pure.

A durable spool outlives the broker that wrote it, so a spool that comes back may hold bytes of a
branch that was given up while it was away. Each pipeline therefore has a random *term*. Its members
first promise the term; then the head is written by compare-and-set; only then does anybody change
what it holds, and only then is content sent::

    promise (sync) ──▶ decide (head) ──▶ settle (rewind or roll to head.end) ──▶ content

A spool counts if it belongs to the head's members and carries the head's term, be it as the term
of its last commit or as its last promise. A member that only promised may not have heard of the
decision yet: the head tells it where the term begins, and with which registers, so that it can
settle by itself.

All other spools may hold an abandoned branch. Spools of one term are prefixes of one sequence, and
the head remembers where each of the last terms ended: what a spool has below that end is still the
journal's, and may be the only copy left of bytes that were acknowledged. The rest is set aside.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from windrow.errors import Failed
from windrow.journal.labels import EMPTY, LabelSet

MEMORY_TERM = 1
"""What a primary with memory spools sends for a term: it keeps none, but it is one of ours."""


REMEMBERED_TERMS = 64
"""Terms back, for which a spool that was away can be put right; an older one is all set aside."""


class UnreadableHead(Failed):
    """The value of a head's key cannot be understood."""

    def __init__(self, journal: str, reason: str) -> None:
        super().__init__(journal, reason)
        self.journal, self.reason = journal, reason

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: the key of its head cannot be read ({self.reason});"
            " it was written by a newer broker or by hand: correct it before appending"
        )


@dataclass(frozen=True, slots=True)
class Head:
    """The term that a journal's bytes are written under, by whom, and from where on."""

    create_revision: int
    """Of the journal's specification: a journal that was made anew has no head yet."""
    term: int
    members: tuple[str, ...]
    end: int = 0
    """Where the term begins: what all its members held when it was decided."""
    registers: LabelSet = EMPTY
    """The registers at ``end``."""
    ended: tuple[tuple[int, int], ...] = ()
    """The terms before, latest first, each with the offset below which its bytes hold."""
    mod_revision: int = 0
    """Of the key itself; not a part of its value."""

    def encode(self) -> bytes:
        """The value of the key."""
        return json.dumps(
            {
                "create_revision": self.create_revision,
                "term": self.term,
                "members": list(self.members),
                "end": self.end,
                "registers": [[label.name, label.value] for label in self.registers],
                "ended": self.ended,
            }
        ).encode()

    @classmethod
    @lru_cache(maxsize=4096)  # asked for by every append, and changed by few
    def decode(cls, journal: str, value: bytes, mod_revision: int) -> Head:
        """The head written as ``value``.

        Raises:
            UnreadableHead: It is not what ``encode`` writes.
        """
        try:
            fields = json.loads(value)
            pairs = [(str(name), str(value)) for name, value in fields["registers"]]
            return cls(
                create_revision=int(fields["create_revision"]),
                term=int(fields["term"]),
                members=tuple(str(member) for member in fields["members"]),
                end=int(fields["end"]),
                registers=LabelSet.of(pairs),
                ended=tuple((int(term), int(end)) for term, end in fields["ended"]),
                mod_revision=mod_revision,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UnreadableHead(journal, repr(error)) from error

    def ended_terms(self, end: int) -> tuple[tuple[int, int], ...]:
        """What a head that begins at ``end`` remembers, if it follows this one."""
        return ((self.term, end), *self.ended)[:REMEMBERED_TERMS]

    def end_of(self, term: int) -> int:
        """Below which offset the bytes of a term before are the journal's; 0 if not known."""
        return next((end for ended, end in self.ended if ended == term), 0)

    def closed(self) -> Head:
        """The head of a journal that has no replica: the next term begins where this one ended."""
        return replace(self, term=0, members=())

    @property
    def is_closed(self) -> bool:
        """Whether all that there is to know of the journal's end stands here."""
        return not self.members

    def written_at(self, revision: int) -> Head:
        """The same head, once its key was written."""
        return replace(self, mod_revision=revision)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a spool carries: the term of its last commit, and the one it promised since."""

    term: int = 0
    agreed: int = 0


NO_TERMS = Terms()
"""What a spool carries that never held or promised anything."""


def next_term(known: Iterable[int] = ()) -> int:
    """A random term that is none of those known."""
    taken = {0, MEMORY_TERM, *known}
    while (term := secrets.randbits(63)) in taken:
        pass
    return term


def counts(head: Head | None, member: str, terms: Terms) -> bool:
    """Whether a member's spool is of the journal's true branch."""
    if head is None:
        return True
    return member in head.members and head.term in (terms.term, terms.agreed)


def is_settled(head: Head | None, terms: Terms) -> bool:
    """Whether a spool that counts is past where the head's term begins.

    If not, it only promised the term, and has to begin it at ``head.end``.
    """
    return head is None or terms.term == head.term


def promised(head: Head | None, terms: Terms, term: int) -> Terms:
    """The terms of a settled spool once it has promised ``term``."""
    return Terms(terms.term if head is None else head.term, term)
