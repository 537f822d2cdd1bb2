"""List: journals by selector, once or for as long as somebody watches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator

from windrow.journal.broker.resolution import JournalView
from windrow.journal.broker.resolver import Resolver
from windrow.journal.broker.tokens import current_claims
from windrow.journal.labels import LabelSelector
from windrow.journal.messages import (
    check_list_request,
    header_from_pb,
    header_to_pb,
    list_selector,
    route_to_pb,
    spec_to_pb,
)
from windrow.journal.spec import Route
from windrow.journal.wire import protocol_pb2 as pb

MESSAGE_JOURNALS = 25


class ListApi:
    """Answers List from the mirror."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def journals(self, request: pb.ListRequest) -> AsyncGenerator[pb.ListResponse, None]:
        """One snapshot; or, for a watch, one more after each change of a matching spec.

        A watch fires on specs alone: routes change far more often, and are asked for by whoever
        needs one.

        Raises:
            InvalidField: The request is malformed.
        """
        check_list_request(request)
        selector = list_selector(request)
        if request.watch:
            if request.HasField("watch_resume"):
                seen = header_from_pb(request.watch_resume).etcd.revision
                await self._resolver.wait_revision(seen + 1)
            async for message in self._watch(selector):
                yield message
            return
        for message in self._snapshot(self._matching(selector)):
            yield message

    async def _watch(self, selector: LabelSelector) -> AsyncIterator[pb.ListResponse]:
        told: list[tuple[str, int]] | None = None
        while True:
            views = self._matching(selector)
            now = [(view.journal, _mod_revision(view)) for view in views]
            if now != told:
                told = now
                for message in self._snapshot(views):
                    yield message
                yield pb.ListResponse()  # marks the end of a snapshot
            await self._resolver.wait_change()

    def _matching(self, selector: LabelSelector) -> list[JournalView]:
        allowed = current_claims.get().selector
        return [
            view
            for view in self._resolver.views()
            if view.spec is not None
            and selector.matches(labels := view.spec.labels_with_name())
            and allowed.matches(labels)
        ]

    def _snapshot(self, views: list[JournalView]) -> Iterator[pb.ListResponse]:
        header = header_to_pb(self._resolver.unrouted_header())
        for begin in range(0, max(len(views), 1), MESSAGE_JOURNALS):
            page = [_journal(view) for view in views[begin : begin + MESSAGE_JOURNALS]]
            yield pb.ListResponse(header=header if begin == 0 else None, journals=page)


def _journal(view: JournalView) -> pb.ListResponse.Journal:
    assert view.spec is not None, "only journals that exist are listed"
    route = view.route if view.route.members else Route.NONE
    return pb.ListResponse.Journal(
        spec=spec_to_pb(view.spec),
        mod_revision=_mod_revision(view),
        route=route_to_pb(route),
        create_revision=view.create_revision,
    )


def _mod_revision(view: JournalView) -> int:
    return 0 if view.item is None else view.item.mod_revision
