"""Copies what one member of a pipeline has to those who lack it, before its head is decided.

Those who lack it begin an empty fragment, take the content as they would take an append's, and
commit it under the term that they promised. If the head is not decided after all, they do not
count, and what they took is set aside again; the donor still has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING

from windrow.journal.broker.pipeline import Peer, PeerFailed, Pipeline
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.messages import MAX_FETCH, fragment_to_pb, labels_to_pb
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb

if TYPE_CHECKING:
    from windrow.journal.broker.sync import Copy
    from windrow.journal.fragment import Fragment


async def back_fill(pipeline: Pipeline, copy: Copy, empty: Fragment) -> None:
    """Return once the span is on the disks of all who lacked it.

    Raises:
        PeerFailed: The donor did not give it, or somebody did not take it.
        SpoolError: Our own spool cannot take it.
    """
    takers = [peer for peer in pipeline.peers if str(peer.member) in copy.to]
    is_ours = pipeline.replica.member in copy.to
    await _propose(pipeline, takers, is_ours, empty, EMPTY, acknowledge=False)
    running, delta = hashlib.sha1(usedforsecurity=False), 0
    async for content in _read(pipeline, copy):
        if is_ours:
            pipeline.spool.apply_content(content, delta)
        for peer in takers:
            await pipeline.send(peer, pb.ReplicateRequest(content=content, content_delta=delta))
        running.update(content)
        delta += len(content)
    whole = replace(empty, end=copy.end, sum=running.digest())
    await _propose(pipeline, takers, is_ours, whole, copy.registers, acknowledge=True)
    if is_ours:
        await pipeline.spool.flush()
    await pipeline.gather_ok(takers)


async def _propose(
    pipeline: Pipeline,
    takers: list[Peer],
    is_ours: bool,
    proposal: Fragment,
    registers: LabelSet,
    *,
    acknowledge: bool,
) -> None:
    if is_ours:
        status = pipeline.replica.adopt(
            pipeline.spool, proposal, registers, term=pipeline.term, primary=True
        )
        assert status is Status.OK, f"refused {proposal}, have {pipeline.spool.fragment}"
    request = pb.ReplicateRequest(
        proposal=fragment_to_pb(proposal),
        registers=labels_to_pb(registers),
        acknowledge=acknowledge,
        term=pipeline.term,
    )
    for peer in takers:
        await pipeline.send(peer, request)


async def _read(pipeline: Pipeline, copy: Copy) -> AsyncIterator[bytes]:
    """The span, from our own spool or from a peer's."""
    donor = next((peer for peer in pipeline.peers if str(peer.member) == copy.donor), None)
    offset = copy.begin
    while offset < copy.end:
        length = min(MAX_FETCH, copy.end - offset)
        if donor is None:
            content = pipeline.spool.read_at(offset, length)
        else:
            content = await _fetch(pipeline, donor, offset, length)
        yield content
        offset += length


async def _fetch(pipeline: Pipeline, donor: Peer, offset: int, length: int) -> bytes:
    request = pb.ReplicateRequest(fetch_offset=offset, fetch_length=length)
    await pipeline.send(donor, request)
    if donor.send_error is not None:
        raise donor.send_error
    (answer,) = await pipeline.gather([donor])
    if len(answer.content) != length:
        reason = f"{len(answer.content)} of {length} bytes from offset {offset}"
        raise PeerFailed(pipeline.replica.journal, str(donor.member), "fetching from", reason)
    return answer.content
