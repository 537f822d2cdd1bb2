"""The delivery hashes of many inputs that stand next to each other.

They are those of ``DeliveryHasher``; only the text that is hashed is put together with less work,
because all positions of a span are the same but for the index.
"""

from __future__ import annotations

import hashlib
import json

from windrow.graph.planning import Split
from windrow.graph.snapshot import ProcessorUid, canonical


class SplitHasher:
    """Hashes the inputs of a split, each by its number in it."""

    def __init__(self, uid: ProcessorUid, split: Split) -> None:
        self._begun = hashlib.sha256(canonical(["windrow-delivery-1", *uid.base.to_json()]))
        self._spans = [
            (f"[{_text(span.source)},{_text(span.incarnation)},{span.partition},", span.start)
            for span in sorted(split.spans)
        ]

    def hash(self, nth: int, ordinal: int = 0) -> str:
        """Of the nth input, or of one of its outputs."""
        if not ordinal and len(self._spans) == 1:
            head, start = self._spans[0]
            digest = self._begun.copy()
            digest.update(f"[{head}{start + nth}]]".encode())
            return digest.hexdigest()
        tail = f",{ordinal}]" if ordinal else "]"
        places = ",".join([f"{head}{start + nth}{tail}" for head, start in self._spans])
        digest = self._begun.copy()
        digest.update(f"[{places}]".encode())
        return digest.hexdigest()


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
