"""A relay that breaks its promise, to see that the tests notice: it finishes, and then sends.

``python -m tests.faults.competing.planted …`` takes what ``windrow`` takes.
"""

from __future__ import annotations

from windrow.cli.main import main
from windrow.relay.competing.service import CompetingRelay
from windrow.relay.competing.steps import ClaimRows, StoreStep

honest = CompetingRelay._perform_at


async def finish_before_send(relay: CompetingRelay, step: StoreStep, began: float) -> None:
    if not isinstance(step, ClaimRows):
        await honest(relay, step, began)
        return
    claim = relay._store.claim

    def claim_and_finish(*arguments: object) -> object:
        claims = claim(*arguments)  # type: ignore[arg-type]
        relay._store.finish(relay.token, [each.id for each in claims])
        return claims

    relay._store.claim = claim_and_finish  # type: ignore[method-assign, assignment]
    try:
        await honest(relay, step, began)
    finally:
        relay._store.claim = claim  # type: ignore[method-assign]


if __name__ == "__main__":
    CompetingRelay._perform_at = finish_before_send  # type: ignore[method-assign, assignment]
    main()
