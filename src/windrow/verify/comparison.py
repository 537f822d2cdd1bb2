"""The verdict of a comparison: what is missing, doubled, misordered or unexpected. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

EXAMPLES: Final = 10
"""How many records are named for each kind of trouble."""

TROUBLES: Final = ("missing", "doubled", "misordered", "unexpected")


@dataclass(frozen=True, slots=True)
class Example:
    """A record in trouble.

    Attributes:
        key: What it is about; bytes that are no text are shown in hexadecimal.
        id: Which one it is.
        at: Its place, from 1 on: among what was written if it is missing, else among what arrived.
    """

    key: str
    id: str
    at: int

    def __str__(self) -> str:
        return f"{self.key}/{self.id}" if self.key else self.id


@dataclass(frozen=True)
class Comparison:
    """What was written against what arrived, with the counts of ``tally``.

    Attributes:
        written: Records that were written, those of unknown outcome only if they arrived.
        arrived: Records that arrived, repeats and strangers included.
        missing: Written, and never arrived.
        doubled: The latest of its key once more; without order, any repeat.
        misordered: Not later than the latest of its key that arrived before.
        unexpected: Arrived, and never written.
        forgiven: How many of ``doubled`` were allowed.
        examples: Up to ten records for each kind of trouble there is, the first ones.
        seconds: How long it took.
    """

    written: int = 0
    arrived: int = 0
    missing: int = 0
    doubled: int = 0
    misordered: int = 0
    unexpected: int = 0
    forgiven: int = 0
    examples: dict[str, tuple[Example, ...]] = field(default_factory=dict)
    seconds: float = field(default=0.0, compare=False)

    @property
    def is_clean(self) -> bool:
        """Nothing missing, misordered or unexpected, and no repeat but allowed ones."""
        return not (self.missing or self.misordered or self.unexpected) and (
            self.doubled == self.forgiven
        )

    def count(self, trouble: str) -> int:
        """How many records there are of one of ``TROUBLES``."""
        found: int = getattr(self, trouble)
        return found

    def to_json(self) -> dict[str, Any]:
        """As ``windrow verify --json`` prints it."""
        counts = {name: self.count(name) for name in ("written", "arrived", *TROUBLES, "forgiven")}
        examples = {
            trouble: [asdict(example) for example in self.examples.get(trouble, ())]
            for trouble in TROUBLES
        }
        return {
            **counts,
            "examples": examples,
            "clean": self.is_clean,
            "seconds": round(self.seconds, 3),
        }
