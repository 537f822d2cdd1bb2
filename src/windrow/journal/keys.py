"""Where a cluster keeps its facts: the keys of journals, brokers, assignments and heads. Pure.

::

    <prefix>/items/<journal>                          a journal's spec
    <prefix>/members/<zone>#<suffix>                  a broker's spec, under its lease
    <prefix>/assign/<journal>#<zone>#<suffix>#<slot>  a broker serves a journal; slot 0 is primary
    <prefix>/heads/<journal>                          the term and members of a journal's head

``#`` sorts before everything a name may hold, so keys sort as their parts do: the assignments of a
journal stand together, in the order of its route. Parsing is strict, since a key that is read
loosely would be a second name of the same thing: what is built is parsed, and nothing else is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from windrow.journal.errors import InvalidField
from windrow.journal.names import KEY_SEPARATOR, valid_journal
from windrow.journal.process import ProcessId

DEFAULT_PREFIX = "/gazette/cluster"

_SLOT = re.compile(r"0|[1-9][0-9]{0,8}")
_PREFIX = re.compile(r"/[^#]*[^#/]")
# One round of the allocator parses each key of a large cluster; few of them are new.
_REMEMBERED = 1 << 17


class AssignmentKey(NamedTuple):
    """That a broker serves a journal, and in which slot; slot 0 is the primary's."""

    journal: str
    member: ProcessId
    slot: int


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one cluster.

    Raises:
        InvalidField: The prefix is not an absolute path, or ends with a slash.
    """

    prefix: str = DEFAULT_PREFIX

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise InvalidField("Prefix", f"expected /path without '#' ({self.prefix})")

    # -- what all keys of a kind begin with --------------------------------------------------------

    @property
    def items(self) -> str:
        """The beginning of every journal's key."""
        return f"{self.prefix}/items/"

    @property
    def members(self) -> str:
        """The beginning of every broker's key."""
        return f"{self.prefix}/members/"

    @property
    def assignments(self) -> str:
        """The beginning of every assignment's key."""
        return f"{self.prefix}/assign/"

    @property
    def heads(self) -> str:
        """The beginning of every head's key."""
        return f"{self.prefix}/heads/"

    def assignments_of(self, journal: str) -> str:
        """The beginning of the assignments of one journal, and of no other."""
        return f"{self.assignments}{_journal(journal)}{KEY_SEPARATOR}"

    # -- building ----------------------------------------------------------------------------------

    def item(self, journal: str) -> str:
        """The key of a journal's spec."""
        return self.items + _journal(journal)

    def member(self, member: ProcessId) -> str:
        """The key of a broker's spec."""
        return self.members + _member_text(member)

    def assignment(self, journal: str, member: ProcessId, slot: int) -> str:
        """The key of an assignment."""
        if slot < 0:
            raise InvalidField("Slot", f"expected 0 or more ({slot})")
        return f"{self.assignments_of(journal)}{_member_text(member)}{KEY_SEPARATOR}{slot}"

    def head(self, journal: str) -> str:
        """The key of a journal's head."""
        return self.heads + _journal(journal)

    # -- parsing -----------------------------------------------------------------------------------

    def parse_item(self, key: str) -> str:
        """The journal of an item's key.

        Raises:
            InvalidField: It is not the key of an item of this cluster.
        """
        return _journal(_behind(key, self.items, "ItemKey"))

    def parse_member(self, key: str) -> ProcessId:
        """The broker of a member's key.

        Raises:
            InvalidField: It is not the key of a member of this cluster.
        """
        return _parse_member(_behind(key, self.members, "MemberKey"))

    def parse_assignment(self, key: str) -> AssignmentKey:
        """The parts of an assignment's key.

        Raises:
            InvalidField: It is not the key of an assignment of this cluster.
        """
        return _parse_assignment(_behind(key, self.assignments, "AssignmentKey"))

    def parse_head(self, key: str) -> str:
        """The journal of a head's key.

        Raises:
            InvalidField: It is not the key of a head of this cluster.
        """
        return _journal(_behind(key, self.heads, "HeadKey"))


def _behind(key: str, beginning: str, context: str) -> str:
    if not key.startswith(beginning):
        raise InvalidField(context, f"expected {beginning}… ({key})")
    return key[len(beginning) :]


@lru_cache(_REMEMBERED)
def _journal(name: str) -> str:
    return valid_journal(name)


@lru_cache(_REMEMBERED)
def _member_text(member: ProcessId) -> str:
    member.validate()
    return str(member)


@lru_cache(_REMEMBERED)
def _parse_member(text: str) -> ProcessId:
    return ProcessId.parse(text)


@lru_cache(_REMEMBERED)
def _parse_assignment(text: str) -> AssignmentKey:
    parts = text.split(KEY_SEPARATOR)
    if len(parts) != 4:
        raise InvalidField("AssignmentKey", f"expected journal#zone#suffix#slot ({text})")
    journal, zone, suffix, slot = parts
    if not _SLOT.fullmatch(slot):
        raise InvalidField("AssignmentKey", f"expected a plain number as slot ({text})")
    return AssignmentKey(_journal(journal), _parse_member(f"{zone}#{suffix}"), int(slot))
