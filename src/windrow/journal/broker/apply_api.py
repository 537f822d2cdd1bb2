"""Apply: create, change and delete journals, all of a request or nothing of it."""

from __future__ import annotations

import secrets
from dataclasses import replace

from windrow.coordination.store import MAX_TXN_OPS, Compare, Delete, Op, Put, Store
from windrow.journal.broker.resolver import Resolver
from windrow.journal.broker.tokens import NotYours, current_claims
from windrow.journal.errors import InvalidField
from windrow.journal.fragments.errors import InvalidTemplate
from windrow.journal.fragments.postfix import check_template
from windrow.journal.messages import (
    ANY_REVISION,
    check_apply_request,
    encode_spec,
    header_to_pb,
    spec_from_pb,
)
from windrow.journal.spec import JournalSpec, with_incarnation
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb

ATTEMPTS = 5


class ApplyApi:
    """Turns a request into one transaction of the store."""

    def __init__(self, resolver: Resolver, store: Store) -> None:
        self._resolver, self._store = resolver, store

    async def apply(self, request: pb.ApplyRequest) -> pb.ApplyResponse:
        """Make all changes, or none if one of the expected revisions is not the present one.

        Returns once this broker itself knows of the changes.

        Raises:
            InvalidField: A change is malformed, or there are more than a transaction holds.
            NotYours: The caller's token does not speak of one of the journals.
        """
        check_apply_request(request)
        if len(request.changes) > MAX_TXN_OPS:
            raise InvalidField(
                "Changes", f"{len(request.changes)} changes; {MAX_TXN_OPS} fit one transaction"
            )
        check_templates(request)
        if not request.changes:
            return self._answer(Status.OK, 0)
        for _ in range(ATTEMPTS):
            compares, ops, is_certain = self._transaction(request)
            result = await self._store.txn(compares, ops)
            await self._resolver.wait_revision(result.revision)
            if result.succeeded:
                return self._answer(Status.OK, result.revision)
            if is_certain:
                break
            # It may have met a journal, or the end of one, that we had not seen; now we have.
        return self._answer(Status.ETCD_TRANSACTION_FAILED, result.revision)

    def _transaction(self, request: pb.ApplyRequest) -> tuple[list[Compare], list[Op], bool]:
        compares: list[Compare] = []
        ops: list[Op] = []
        heads: list[Op] = []
        is_certain = True
        for change in request.changes:
            spec = spec_from_pb(change.upsert) if change.HasField("upsert") else None
            name = change.delete if spec is None else spec.name
            known = self._resolver.view(name)
            _check_allowed(name, known.spec, spec)
            key = self._resolver.keys.item(name)
            expected = change.expect_mod_revision
            if expected != ANY_REVISION:
                compares.append(Compare.mod_revision(key, expected))
            if spec is not None and expected != 0:
                # Whether this creates the journal decides on its incarnation.
                compares.append(Compare.create_revision(key, known.create_revision))
                is_certain = is_certain and 0 < expected <= self._resolver.mirror.revision
            if spec is None:
                ops.append(Delete(key))
                heads += [] if known.head is None else [Delete(known.head.key)]
            else:
                # One that is to be new is not the one that we may still know by its name.
                before = None if expected == 0 else known.spec
                ops.append(Put(key, encode_spec(_with_incarnation(spec, before))))
        # A head that stays behind is one of an earlier journal, and known as such: no harm.
        return compares, ops + heads[: MAX_TXN_OPS - len(ops)], is_certain

    def _answer(self, status: Status, revision: int) -> pb.ApplyResponse:
        header = self._resolver.unrouted_header()
        if revision and status is Status.OK:
            header = replace(header, etcd=replace(header.etcd, revision=revision))
        return pb.ApplyResponse(status=int(status), header=header_to_pb(header))  # type: ignore[arg-type]


def _with_incarnation(spec: JournalSpec, known: JournalSpec | None) -> JournalSpec:
    """A new journal gets an incarnation unless it brings one; an old one keeps what it has."""
    if known is None:
        return spec if spec.incarnation else with_incarnation(spec, secrets.token_hex(16))
    return with_incarnation(spec, known.incarnation) if known.incarnation else spec


def _check_allowed(name: str, *specs: JournalSpec | None) -> None:
    claims = current_claims.get()
    for spec in specs:
        if spec is not None and not claims.allows_journal(spec.labels_with_name()):
            raise NotYours(name)


def check_templates(request: pb.ApplyRequest) -> None:
    """Refuse a path template that could not be evaluated when a fragment is to be stored.

    Raises:
        InvalidField: One of them is wrong.
    """
    for index, change in enumerate(request.changes):
        template = change.upsert.fragment.path_postfix_template
        if template:
            try:
                check_template(template)
            except InvalidTemplate as error:
                context = f"Changes[{index}].Upsert.Fragment.PathPostfixTemplate"
                raise InvalidField(context, error.reason) from error
