"""Brokers that break a promise, each in the way a naive one would: the checker has to notice."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from windrow.journal.broker import content_phase
from windrow.journal.broker.group import GroupPlan, Member, WriteHead, evaluate
from windrow.journal.broker.pipeline import Pipeline
from windrow.journal.broker.replica import Replica
from windrow.journal.fragment import Fragment
from windrow.journal.fragments.spool import Spool
from windrow.journal.wire.protocol_pb2 import ReplicateRequest
from windrow.points import VARIABLE

KEPT = 4
"""Commits of a journal that a forgetful broker brings to disk: something has to be found again."""


def acknowledge_before_it_is_durable() -> None:
    """The first commits are brought to disk: a kill of all brokers makes the rest a lie."""
    begin, finish = Spool.begin_flush, Spool.flush
    calls: Counter[str] = Counter()

    def is_kept(spool: Spool) -> bool:
        calls[spool.journal] += 1
        # What is promised at a change of the route is kept, or the journal would refuse to go on.
        return spool.agreed_term != spool.term or calls[spool.journal] <= KEPT

    def begin_flush(spool: Spool) -> int:
        return begin(spool) if is_kept(spool) else 0

    async def flush(spool: Spool, begun: int | None = None) -> None:
        if begun is not None or is_kept(spool):
            await finish(spool, begun)

    Spool.begin_flush = begin_flush  # type: ignore[method-assign, assignment]
    Spool.flush = flush  # type: ignore[method-assign, assignment]


def show_before_all_have_it() -> None:
    """A commit is seen as soon as this broker has it, whatever becomes of it elsewhere.

    While there is a file ``withhold`` among its points it does not send what it shows, and says in
    ``withheld`` of which journal, and how far.
    """
    on_commit, scatter = Replica.on_commit, Pipeline._scatter
    points = Path(os.environ[VARIABLE])
    ends: dict[str, int] = {}

    def show(replica: Replica, fragment: Fragment) -> None:
        on_commit(replica, fragment)
        replica.acknowledge(fragment.end)

    async def withhold(pipeline: Pipeline, request: ReplicateRequest, joined: bytes = b"") -> None:
        journal, end = request.proposal.journal, request.proposal.end
        if request.acknowledge:
            # A pulse proposes again what all have: to withhold that would change nothing.
            is_new = end > ends.setdefault(journal, end)
            while is_new and (points / "withhold").exists():
                (points / "withheld").write_text(json.dumps([journal, end]))
                await asyncio.sleep(0.02)
            ends[journal] = end
        await scatter(pipeline, request, joined)

    Replica.on_commit = show  # type: ignore[method-assign, assignment]
    Pipeline._scatter = withhold  # type: ignore[method-assign, assignment]


def interleave_groups() -> None:
    """Appends that are committed together are written into each other."""

    def mixed(members: Sequence[Member], head: WriteHead) -> GroupPlan:
        plan = evaluate(members, head)
        half = len(members[0].content) // 2
        if sum(verdict.commits for verdict in plan.verdicts) < 2 or not half:
            return plan
        whole = plan.content
        rest = len(members[0].content) - half
        content = whole[:half] + whole[half + rest :] + whole[half : half + rest]
        return replace(plan, content=content)

    content_phase.evaluate = mixed  # type: ignore[attr-defined]


PLANTS: dict[str, Callable[[], None]] = {
    "forgetful": acknowledge_before_it_is_durable,
    "hasty": show_before_all_have_it,
    "mixing": interleave_groups,
}
