"""Claims on an outbox in MySQL or SQLite: what both do in the same way.

A claim first looks without a lock whether anything is due, so that an idle relay is one statement
at a time and takes no lock from writers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from windrow.outbox.claims.contract import NOBODY, Burial, Claim, Retry, Suspects, Topics
from windrow.outbox.claims.identity import message_id
from windrow.outbox.claims.session import ClaimSession, Rows, Run
from windrow.outbox.claims.sql import ClaimStatements
from windrow.outbox.dialects.schema import require_outbox
from windrow.outbox.errors import WrongSchema
from windrow.outbox.table import Table


class ClaimsElsewhere:
    """Claims on one table; see ``ClaimStore``."""

    def __init__(self, session: ClaimSession, table: Table) -> None:
        self.table = table
        self._session = session
        self._statements = ClaimStatements(session.dialect, table)
        self._incarnation = UUID(int=0)

    def open(self) -> None:
        """Connect and look at the schema.

        Raises:
            Unreachable: The database gives no answer.
            WrongSchema: The table, a column or a companion is missing.
        """
        dialect = self._session.dialect
        self._session.on_connection(
            lambda connection: require_outbox(connection, dialect, self.table)
        )
        rows = self._session.read(self._statements.incarnation())
        if not rows:
            raise WrongSchema(str(self.table), "has no incarnation beside it", "windrow init")
        self._incarnation = UUID(rows[0][0])

    def claim(
        self,
        token: UUID,
        limit: int,
        lease: float,
        topics: Topics,
        suspects: Suspects = NOBODY,
    ) -> list[Claim]:
        """See ``ClaimStore.claim``.

        Raises:
            Unreachable: There is no connection; nothing was claimed.
            DatabaseFailed: Rows may have been claimed; without an end, their lease ends by itself.
        """
        wanted = self._wanted(topics)
        if wanted is None:
            return []
        asked = token, wanted, suspects
        if not self._session.read(self._statements.is_due(*asked))[0][0]:
            return []

        def work(run: Run) -> Rows:
            found = [row for part in self._statements.due(limit, *asked) for row in run(part)]
            rows = sorted(found, key=lambda row: int(row[0]))[:limit]
            if rows:
                run(self._statements.take(token, [row[0] for row in rows], lease))
            return rows

        return [self._claim(token, *row) for row in self._session.change(work)]

    def _wanted(self, topics: Topics) -> Sequence[str] | None:
        """The topics to look at; empty is any, and None is none at all."""
        if topics.are_wanted:
            return topics.names or None
        if not topics.names:
            return ()
        return [topic for topic in self._present() if topic not in topics.names] or None

    def _present(self) -> Iterator[str]:
        """The topics there are rows of: from one to the next, and not from row to row."""
        topic = ""
        while topic is not None:
            if topic:
                yield topic
            ((topic,),) = self._session.read(self._statements.next_topic(topic))

    def _claim(
        self,
        token: UUID,
        row: int,
        topic: str,
        key: str | None,
        text: str | None,
        data: bytes | None,
        names: str,
        values: str,
        created: datetime | str,
        attempts: int,
        holder: str | None,
    ) -> Claim:
        headers = tuple(
            (name, value or "")
            for name, value in zip(json.loads(names), json.loads(values), strict=False)
        )
        value = text.encode() if data is None and text is not None else data
        identity = message_id(self._incarnation, row, headers)
        is_orphan = holder is not None and holder != str(token)
        made, counted = moment_of(created), attempts + is_orphan
        return Claim(row, identity, topic, key, value, headers, made, counted, is_orphan)

    def finish(
        self,
        token: UUID,
        delivered: Sequence[int],
        retries: Sequence[Retry] = (),
        burials: Sequence[Burial] = (),
    ) -> set[int]:
        """See ``ClaimStore.finish``; may be repeated, and then finds nothing of it ours.

        Raises:
            Unreachable: There is no connection; nothing was done.
            DatabaseFailed: All of it may have been done, or nothing.
        """
        asked = {*delivered, *(one.id for one in retries), *(one.id for one in burials)}

        def work(run: Run) -> set[int]:
            ours = self._ours(run, token, asked)
            for statement in self._statements.end(ours, delivered, retries, burials):
                run(statement)
            return asked - ours

        return self._session.change(work) if asked else set()

    def renew(self, token: UUID, ids: Sequence[int], lease: float) -> set[int]:
        """See ``ClaimStore.renew``.

        Raises:
            Unreachable: There is no connection; nothing was done.
            DatabaseFailed: It may have been done, or not.
        """

        def work(run: Run) -> set[int]:
            ours = self._ours(run, token, set(ids))
            if ours:
                run(self._statements.renew(sorted(ours), lease))
            return set(ids) - ours

        return self._session.change(work) if ids else set()

    def release(self, token: UUID, ids: Sequence[int]) -> None:
        """See ``ClaimStore.release``.

        Raises:
            Unreachable: There is no connection; nothing was done.
            DatabaseFailed: It may have been done, or not.
        """
        if ids:
            self._session.change(lambda run: run(self._statements.release(token, ids)))

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def _ours(self, run: Run, token: UUID, ids: set[int]) -> set[int]:
        return {row[0] for row in run(self._statements.ours(token, sorted(ids)))}


def moment_of(written: Any) -> datetime:
    """A moment of the database's, which is UTC."""
    moment = datetime.fromisoformat(written) if isinstance(written, str) else written
    naive: datetime = moment
    return naive.replace(tzinfo=UTC)
