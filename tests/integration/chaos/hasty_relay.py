"""``windrow relay`` as it is, but that a message is finished before it is sent.

It is what a relay does that deletes a row and posts it afterwards, or does not wait for the answer:
as long as nothing goes wrong, nobody can tell.
"""

from __future__ import annotations

import asyncio
import sys

from windrow.cli.main import main
from windrow.relay.competing.contract import Claim, Delivered, Outcome
from windrow.relay.targets.http import HttpTarget

_send = HttpTarget.send
_underway: set[asyncio.Task[Outcome]] = set()


async def send(target: HttpTarget, claim: Claim) -> Outcome:
    task = asyncio.create_task(_send(target, claim))
    _underway.add(task)
    task.add_done_callback(_underway.discard)
    return Delivered()


if __name__ == "__main__":
    HttpTarget.send = send  # type: ignore[method-assign, assignment]
    sys.exit(main())
