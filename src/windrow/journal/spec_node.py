"""A node of the tree of journal specs: a journal, or a directory of them."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.journal.spec import JournalSpec

CREATE = 0
"""The expected revision of a journal that is to be created."""

ANY_REVISION = -1
"""The expected revision of a journal that may have any."""


@dataclass(frozen=True, slots=True)
class Node:
    """A journal, or a directory of them.

    ``revision`` is the one that a journal is expected to have when it is applied. ``delete`` at a
    directory deletes every journal listed below.
    """

    spec: JournalSpec
    revision: int = CREATE
    delete: bool = False
    children: tuple[Node, ...] = ()

    @property
    def name(self) -> str:
        """The journal's name, or the directory's with its slash; a root may have none."""
        return self.spec.name

    @property
    def is_directory(self) -> bool:
        """Whether journals may lie below it."""
        return not self.name or self.name.endswith("/")
