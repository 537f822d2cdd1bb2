"""From the tree that a person wrote to the changes that a broker is asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from windrow.errors import Failed
from windrow.journal.client.requests import Change, Delete, ListedJournal, Upsert
from windrow.journal.spec import INCARNATION_LABEL, JournalSpec
from windrow.journal.spec_node import ANY_REVISION, CREATE, Node
from windrow.journal.spec_tree import flatten, hoist


@dataclass(frozen=True, slots=True)
class Judged:
    """A change, what it does to the journal as it is now, and why it will be refused if it is."""

    journal: str
    action: str
    """create, update, delete, or unchanged."""
    expected: int
    present: int
    """The revision of the journal as it is now; 0 if there is none."""

    @property
    def is_stale(self) -> bool:
        """Whether the journal is not at the revision that the change expects."""
        return self.expected not in (ANY_REVISION, self.present)


class StaleRevisions(Failed):
    """Journals are not at the revisions that changes of them expect; nothing was changed."""

    def __init__(self, stale: Sequence[tuple[str, int, int]]) -> None:
        super().__init__(stale)
        self.stale = tuple(stale)

    def __str__(self) -> str:
        told = "; ".join(_told(*each) for each in self.stale[:5])
        more = f"; and {len(self.stale) - 5} more" if len(self.stale) > 5 else ""
        return f'{told}{more}; nothing was changed: see "windrow journal list --format yaml"'


def _told(journal: str, expected: int, present: int) -> str:
    if expected == CREATE:
        return f"journal {journal!r} exists already, at revision {present}"
    there = f"is at revision {present}" if present else "does not exist"
    return f"journal {journal!r} {there}, and revision {expected} was expected"


def tree_of(journals: Iterable[ListedJournal]) -> Node:
    """The journals as a tree, each with the revision it has."""
    return hoist(Node(journal.spec, journal.mod_revision) for journal in journals)


def changes_of(tree: Node) -> tuple[Change, ...]:
    """What a tree asks for, journal by journal.

    Raises:
        InvalidField: The tree is not well formed, or a journal's spec is not valid.
    """
    return tuple(
        Delete(leaf.name, leaf.revision) if leaf.delete else Upsert(leaf.spec, leaf.revision)
        for leaf in flatten(tree)
    )


def judge(changes: Iterable[Change], present: Iterable[ListedJournal]) -> list[Judged]:
    """What each change comes to, given the journals there are."""
    journals = {journal.spec.name: journal for journal in present}
    return [_judged(change, journals) for change in changes]


def names_of(changes: Iterable[Change]) -> list[str]:
    """The journals that are changed."""
    return [each.spec.name if isinstance(each, Upsert) else each.journal for each in changes]


def _judged(change: Change, journals: dict[str, ListedJournal]) -> Judged:
    [name] = names_of([change])
    now = journals.get(name)
    revision = 0 if now is None else now.mod_revision
    if isinstance(change, Delete):
        return Judged(name, "delete", change.expect_mod_revision, revision)
    action = "create" if now is None else "update"
    if now is not None and _is_same(change.spec, now.spec):
        action = "unchanged"
    return Judged(name, action, change.expect_mod_revision, revision)


def _is_same(wanted: JournalSpec, present: JournalSpec) -> bool:
    # The broker gives a journal its incarnation; whoever wrote the spec need not know it.
    if wanted.incarnation is None:
        present = replace(present, labels=present.labels.without(INCARNATION_LABEL))
    return wanted == present
