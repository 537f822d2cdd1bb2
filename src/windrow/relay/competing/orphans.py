"""What is done with rows whose relay ended without a word? Pure.

One of them may be what it ended of, and nobody knows which. The first tries go as ever, since most
relays end of something else; then orphans are suspects, which are sent one at a time; and one that
goes on like that until its tries are used up is not sent any more.
"""

from __future__ import annotations

from windrow.relay.competing.contract import Claim, Suspects

LEAST_TRIES = 2
"""One try among others, of which nothing follows, and one alone."""


class OrphanRules:
    """The rules for orphans, where failures of any kind are counted up to ``max_attempts``."""

    def __init__(self, max_attempts: int) -> None:
        self._hopeless_from = max(max_attempts, LEAST_TRIES)
        self._suspect_from = self._hopeless_from // 2

    def suspects(self, *, may_claim: bool) -> Suspects:
        """How suspects are to be claimed."""
        return Suspects(self._suspect_from, 1 if may_claim else 0)

    def is_suspect(self, claim: Claim) -> bool:
        """Whether that row may be what ended its relays."""
        return claim.is_orphan and claim.attempts >= self._suspect_from

    def is_hopeless(self, claim: Claim) -> bool:
        """Whether it has had all its tries, the last of them alone."""
        return claim.is_orphan and claim.attempts >= self._hopeless_from
