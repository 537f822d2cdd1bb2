"""What fits one transaction? As many journals as its limits allow, each as a whole. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windrow.coordination.store import MAX_TXN_OPS, Compare, Op


@dataclass(frozen=True, slots=True)
class Group:
    """The changes of one journal, which happen together or not at all."""

    compares: tuple[Compare, ...]
    ops: tuple[Op, ...]
    added: int = 0
    removed: int = 0
    moved: int = 0


@dataclass(frozen=True, slots=True)
class Transaction:
    """Groups that are sent together, under the condition that their sender still leads."""

    guard: Compare
    groups: tuple[Group, ...]

    @property
    def compares(self) -> list[Compare]:
        """The conditions of all groups, each once, the guard first."""
        conditions = (compare for group in self.groups for compare in group.compares)
        return list(dict.fromkeys((self.guard, *conditions)))

    @property
    def ops(self) -> list[Op]:
        """The changes of all groups."""
        return [op for group in self.groups for op in group.ops]

    def halves(self) -> tuple[Transaction, ...]:
        """The same in two, to be tried if it failed; nothing if it cannot be parted.

        A journal that changed meanwhile then keeps no other from its change.
        """
        middle = len(self.groups) // 2
        if middle == 0:
            return ()
        first, second = self.groups[:middle], self.groups[middle:]
        return Transaction(self.guard, first), Transaction(self.guard, second)


def batch(guard: Compare, groups: Iterable[Group], limit: int = MAX_TXN_OPS) -> list[Transaction]:
    """Put groups into transactions of at most ``limit`` conditions and as many changes."""
    transactions: list[Transaction] = []
    taken: list[Group] = []
    conditions, changes = {guard}, 0
    for group in groups:
        together = conditions.union(group.compares)
        if taken and (len(together) > limit or changes + len(group.ops) > limit):
            transactions.append(Transaction(guard, tuple(taken)))
            taken, changes = [], 0
            together = {guard, *group.compares}
        taken.append(group)
        conditions = together
        changes += len(group.ops)
    if taken:
        transactions.append(Transaction(guard, tuple(taken)))
    return transactions
