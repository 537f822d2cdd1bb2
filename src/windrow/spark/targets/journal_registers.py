"""Which registers does a write to a journal check, and which does it move? Pure.

A check names every register that was read with its value, and the next one of that name as absent:
so it holds for exactly what was read, be it nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windrow.graph.packing import DELIVERED_PREFIX, MARKS_PREFIX
from windrow.graph.snapshot import ProcessorUid
from windrow.journal.client.sequence import SEQ
from windrow.journal.labels import Label, LabelSelector, LabelSet

Registers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Move:
    """Registers that are to be what one side has and shall be what the other has.

    Attributes:
        family: What the names of all of them begin with, up to the number.
        old: What they must be.
        new: What they become.
    """

    family: str
    old: Registers
    new: Registers

    def check(self, seq: int | None, count: int) -> LabelSelector:
        """What an append of so many records at this sequence has to check."""
        include = [Label(name, value) for name, value in self.old.items()]
        exclude = [Label(f"{self.family}{len(self.old)}")]
        if seq is None:
            exclude.append(Label(SEQ))
        elif count:
            # Without records nothing is numbered, and what others append does not matter.
            include.append(Label(SEQ, str(seq)))
        return LabelSelector(LabelSet.of(include), LabelSet.of(exclude))

    def is_possible(self, registers: Registers) -> bool:
        """Whether the registers are what they must be, so that only the sequence was another.

        Their text is compared and not their meaning: the check compares it, too.
        """
        found = {n: value for n, value in registers.items() if n.startswith(self.family)}
        return found == dict(self.old)

    def union(self, seq: int | None, count: int) -> LabelSet:
        """What the append sets."""
        changed = {name: value for name, value in self.new.items() if self.old.get(name) != value}
        if count or seq is None:
            changed[SEQ] = str((seq or 0) + count)
        return LabelSet.of(changed)

    @property
    def subtract(self) -> LabelSet:
        """What the append removes."""
        return LabelSet.of({n: value for n, value in self.old.items() if n not in self.new})


def marks_family(uid: ProcessorUid) -> str:
    """What the names of a processor's marks begin with."""
    return f"{MARKS_PREFIX}{uid.digest}/"


def delivered_family(uid: ProcessorUid) -> str:
    """What the names of a processor's delivered record begin with."""
    return f"{DELIVERED_PREFIX}{uid.digest}/"


def seq_of(registers: LabelSet) -> int | None:
    """The index of the next record; ``None`` before the first append."""
    value = registers.value(SEQ)
    return None if value is None else int(value)


def by_name(registers: LabelSet) -> dict[str, str]:
    """Registers as a mapping; ours have one value each."""
    return {label.name: label.value for label in registers}
