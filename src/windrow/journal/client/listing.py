"""Which journals there are, and which fragments they have."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TYPE_CHECKING

from windrow.errors import Failed, UsageError
from windrow.journal.client.calls import Calls
from windrow.journal.client.errors import CallFailed, InvalidAnswer
from windrow.journal.client.reader import Reader
from windrow.journal.client.requests import (
    Change,
    ListedFragment,
    ListedJournal,
    Listing,
    ReadRequest,
    Upsert,
)
from windrow.journal.client.retrying import is_append_retried, is_refused
from windrow.journal.errors import OffsetNotYetAvailable
from windrow.journal.labels import LabelSelector
from windrow.journal.process import Header

if TYPE_CHECKING:
    from windrow.journal.wire import protocol_pb2 as pb


async def list_all(calls: Calls, selector: LabelSelector) -> Listing:
    """One listing, tried again while no broker can be reached."""
    began, attempt = calls.clock.monotonic(), 0
    while True:
        snapshots = _snapshots(calls, selector, watch=False)
        try:
            async for snapshot in snapshots:
                return snapshot
            raise InvalidAnswer("List", "it ended without a message")
        except Failed as error:
            if not is_append_retried(error) or calls.is_patience_over(began):
                raise
        finally:
            await snapshots.aclose()
        await calls.pause("List", attempt)
        attempt += 1


async def watch(calls: Calls, selector: LabelSelector) -> AsyncIterator[Listing]:
    """Listings without end: the first at once, then one after each change.

    A call that breaks is taken up again from the last listing, by another broker if need be.
    """
    resume: Header | None = None
    attempt = 0
    while True:
        snapshots = _snapshots(calls, selector, watch=True, resume=resume)
        try:
            async for snapshot in snapshots:
                resume, attempt = snapshot.header, 0
                yield snapshot
        except CallFailed as error:
            if is_refused(error.code):
                raise
            resume = None  # if it was refused for what it resumes, a fresh one will do
        except Failed as error:
            if not is_append_retried(error):
                raise
        finally:
            await snapshots.aclose()
        await calls.pause("List", attempt)
        attempt += 1


async def _snapshots(
    calls: Calls, selector: LabelSelector, *, watch: bool, resume: Header | None = None
) -> AsyncGenerator[Listing, None]:
    """The listings of one call; an empty message ends each of a watch."""
    import grpc

    from windrow.journal.client import translation

    request = translation.list_request(selector, watch=watch, resume=resume)
    endpoint, call = calls.list(request)
    header: Header | None = None
    journals: list[ListedJournal] = []
    try:
        async for message in call:
            if header is None or message.HasField("header"):
                header = _header_of(message)
            journals += translation.listed_journals(message)
            if watch and not message.journals and not message.HasField("header"):
                yield _listing(header, journals)
                journals = []
        if not watch and header is not None:
            yield _listing(header, journals)
    except grpc.aio.AioRpcError as error:
        raise calls.on_error("List", "", endpoint, error) from error
    finally:
        call.cancel()


def _header_of(message: pb.ListResponse) -> Header:
    from windrow.journal import messages
    from windrow.journal.client import translation

    translation.with_status("", message)
    try:
        messages.check_list_response(message, True)
    except UsageError as error:
        raise InvalidAnswer("List", str(error)) from error
    return messages.header_from_pb(message.header)


def _listing(header: Header, journals: list[ListedJournal]) -> Listing:
    return Listing(header, tuple(sorted(journals, key=lambda journal: journal.spec.name)))


async def apply(calls: Calls, changes: Sequence[Change], batch: int = 0) -> int:
    """Make changes, all in one transaction or ``batch`` in each; returns the last revision.

    Calls of this client made afterwards wait until their broker has seen that revision.
    """
    revision = 0
    size = batch or len(changes) or 1
    for begin in range(0, len(changes), size):
        revision = await _apply(calls, changes[begin : begin + size])
        calls.min_revision = max(calls.min_revision, revision)
    return revision


async def _apply(calls: Calls, changes: Sequence[Change]) -> int:
    import grpc

    from windrow.journal.client import translation

    endpoint, call = calls.apply(translation.apply_request(changes))
    try:
        answer: pb.ApplyResponse = await call
    except grpc.aio.AioRpcError as error:
        raise calls.on_error("Apply", "", endpoint, error) from error
    translation.with_status(_names_of(changes), answer)
    return answer.header.etcd.revision


def _names_of(changes: Sequence[Change]) -> str:
    names = [each.spec.name if isinstance(each, Upsert) else each.journal for each in changes]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


async def list_fragments(
    calls: Calls,
    journal: str,
    *,
    begin_mod_time: int = 0,
    end_mod_time: int = 0,
    signature_ttl: float = 0.0,
    page_limit: int = 0,
) -> list[ListedFragment]:
    """Every fragment of a journal, page by page.

    Args:
        calls: Whom to ask.
        journal: Of which journal.
        begin_mod_time: Leave out those stored before this moment (Unix seconds).
        end_mod_time: Leave out those stored after it, and those not stored.
        signature_ttl: Seconds for which URLs to fetch them are to be valid; 0 for no URLs.
        page_limit: Fragments of one answer; 0 leaves it to the broker.
    """
    import grpc

    from windrow.journal.client import translation

    request = translation.fragments_request(
        journal, page_limit, begin_mod_time, end_mod_time, signature_ttl
    )
    fragments: list[ListedFragment] = []
    while True:
        endpoint, call = calls.fragments(request)
        try:
            answer: pb.FragmentsResponse = await call
        except grpc.aio.AioRpcError as error:
            raise calls.on_error("ListFragments", journal, endpoint, error) from error
        translation.with_status(journal, answer)
        calls.on_answer(journal, endpoint, answer.header)
        fragments += translation.listed_fragments(answer)
        if not answer.next_page_token:
            return fragments
        request.next_page_token = answer.next_page_token


async def store_health(
    calls: Calls, store: str, *, check_delete: bool = False, check_delete_prefix: str = ""
) -> str:
    """Have a broker try a store: what is wrong with it, or nothing.

    Args:
        calls: Whom to ask.
        store: The store's URL.
        check_delete: Also try whether objects can be deleted.
        check_delete_prefix: Below which path of the store to try that.
    """
    import grpc

    from windrow.journal.client import translation
    from windrow.journal.wire import protocol_pb2 as pb

    request = translation.store_health_request(store, check_delete, check_delete_prefix)
    endpoint, call = calls.store_health(request)
    try:
        answer: pb.FragmentStoreHealthResponse = await call
    except grpc.aio.AioRpcError as error:
        raise calls.on_error("FragmentStoreHealth", "", endpoint, error) from error
    return "" if answer.status == pb.OK else answer.store_health_error or "it is not healthy"


async def write_head(calls: Calls, journal: str) -> int:
    """The offset at which the next append will begin."""
    reader = Reader(calls, ReadRequest(journal, offset=-1, metadata_only=True))
    try:
        while await reader.next() is not None:
            pass
    except OffsetNotYetAvailable as error:
        return error.write_head
    finally:
        reader.close()
    return reader.write_head
