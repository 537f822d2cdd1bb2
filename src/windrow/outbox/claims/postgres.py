"""Claims on an outbox in PostgreSQL, and the guard that keeps ordered relays away from it.

The table is that of the ordered relays, with no column more: ``leader_id`` holds the token of a
claim, ``not_before`` the end of its lease or, without a leader, of the delay before the next try.

**The guard.** An outbox is either led by one ordered relay or shared by competing ones. That is a
row in its table of holds, ``('relay', 'competing')``: ordered relays of any election, and of the
releases before this one, read nothing while the relay is held, and those of this release refuse to
open the outbox (`SharedByOthers`). The first competing relay writes it, under the lock of all
epochs, and only if no lease to lead is running and no batch is in doubt (`LedByOthers`); it also
raises every epoch, so that a leader elected by other means marks nothing more, takes the marks of
the dead off the rows, and makes the indexes by which claims are found. Every claim asks for that
row, so whoever removes it, to give the outbox to an ordered relay, ends the claims
(`NoLongerShared`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from windrow.outbox.claims.contract import NOBODY, Burial, Claim, Retry, Suspects, Topics
from windrow.outbox.claims.identity import message_id
from windrow.outbox.claims.indexes import PRESENT, index_statements, missing_indexes
from windrow.outbox.claims.reasons import storable
from windrow.outbox.errors import LedByOthers, NoLongerShared, WrongSchema
from windrow.outbox.queries import load_queries
from windrow.outbox.stores.session import DURABLE_COMMIT, LAZY_COMMIT, Session, Settings
from windrow.outbox.stores.statements import build_statements
from windrow.outbox.table import WINDROW, Table, in_format, quote

QUERIES = load_queries("windrow.outbox.claims", "postgres.sql")
BY_INDEX: Settings = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
"""On a table analysed while it was empty the planner would scan the whole of it."""


class PostgresClaims:
    """Claims on one table; see ``ClaimStore``."""

    def __init__(
        self,
        dsn: str,
        table: Table,
        *,
        pooler: bool = False,
        connect_timeout: float = 5.0,
        answer_timeout: float = 10.0,
    ) -> None:
        self.table = table

        def session(commit: Settings) -> Session:
            return Session(
                dsn,
                BY_INDEX | commit,
                pooler=pooler,
                connect_timeout=connect_timeout,
                answer_timeout=answer_timeout,
            )

        # A claim that a crash of the server undoes is one that is made again: at worst a message is
        # sent twice, as after any crash. The end of a claim has to last.
        self._claiming = session(LAZY_COMMIT)
        self._ending = session(DURABLE_COMMIT)
        self._queries: dict[str, str] = {}
        self._incarnation = UUID(int=0)

    def open(self) -> None:
        """Look at the schema, and share the outbox with whoever does so already.

        Raises:
            Unreachable: The database gives no answer.
            WrongSchema: The table, its companions or a column are missing.
            LedByOthers: An ordered relay is at work, or has left a batch in doubt.
        """
        self._require_columns()
        self._queries = _statements(self.table)
        row = self._ending.run(self._queries["incarnation"], {}).fetchone()
        if row is None:
            raise WrongSchema(str(self.table), "has no incarnation beside it")
        self._incarnation = row[0]
        self._share()

    def _require_columns(self) -> None:
        run, names = self._ending.run, {"outbox": self.table.sql}
        query = "SELECT to_regclass(%(outbox)s) IS NULL"
        if run(query, names).fetchone() == (True,):
            raise WrongSchema(str(self.table), "does not exist", "windrow init")
        present = {row[0] for row in run(_COLUMNS, names)}
        missing = WINDROW.used - present
        if missing:
            raise WrongSchema(str(self.table), f"has no column {quote(min(missing))}")
        companions = [self.table.companion(f"_{name}") for name in _COMPANIONS]
        absent = run(
            "SELECT name FROM unnest(%(names)s::text[]) AS name WHERE to_regclass(name) IS NULL",
            {"names": companions},
        ).fetchall()
        if absent:
            raise WrongSchema(str(self.table), f"has no companion {absent[0][0]}")

    def _share(self) -> None:
        """Write down that competing relays share the outbox, unless an ordered one has it."""
        if self._ending.run(self._queries["is_shared"], {}).fetchone() is not None:
            return
        with self._ending.transaction() as run:
            run(self._queries["lock_epochs"], {})
            if run(self._queries["is_shared"], {}).fetchone() is not None:
                return  # another was quicker
            self._refuse_if_led(run)
            for step in ("share", "fence_leaders", "unmark"):
                run(self._queries[step], {})
            self._make_indexes(run)

    def _make_indexes(self, run: Any) -> None:
        """Make what claims are found by, unless it is there: only the owner of the table may.

        Raises:
            WrongSchema: It is not there, and this role does not own the table.
        """
        names = {"outbox": self.table.sql}
        missing = missing_indexes({row[0] for row in run(PRESENT, names)}, self.table)
        (owns,) = run(_OWNS, names).fetchone()
        if missing and not owns:
            problem = f"has no index {missing[0]}, and this role may not make it"
            command = "windrow init with relay.mode = 'competing', as its owner"
            raise WrongSchema(str(self.table), problem, command)
        for statement in index_statements(self.table) if missing else ():
            run(in_format(statement), {})

    def _refuse_if_led(self, run: Any) -> None:
        leaders = [row[0] for row in run(self._queries["leaders"], {})]
        if leaders:
            why = f"the ordered relay {leaders[0]!r} leads it"
            raise LedByOthers(str(self.table), why, "stop it first")
        if run(self._queries["in_doubt"], {}).fetchone() == (True,):
            why = "a batch of an ordered relay, or of a graph that reads it, is in doubt"
            advice = "start that once more to settle it, stop it, and try again"
            raise LedByOthers(str(self.table), why, advice)

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
            NoLongerShared: Somebody gave the outbox to ordered relays.
            DatabaseFailed: Rows may have been claimed; without an end, their lease ends by itself.
        """
        parameters = {"token": token, "limit": limit, "lease": float(lease)}
        parameters |= {"suspected": suspects.attempts, "suspects": suspects.limit}
        query = self._queries["claim"]
        if topics.names:
            query = self._queries["claim_wanted" if topics.are_wanted else "claim_others"]
            parameters["topics"] = list(topics.names)
        elif topics.are_wanted:
            return []
        rows = self._claiming.run(query, parameters).fetchall()
        if not rows[0][0]:
            raise NoLongerShared(str(self.table))
        if rows[0][1] is None:
            return []
        return sorted((self._claim(*row[1:]) for row in rows), key=lambda claim: claim.id)

    def _claim(
        self,
        row: int,
        topic: str,
        key: str | None,
        value: bytes | None,
        names: list[str | None] | None,
        values: list[str | None] | None,
        attempts: int,
        created: Any,
        is_orphan: bool,
    ) -> Claim:
        pairs = zip(names or (), values or (), strict=False)
        headers = tuple((name, text or "") for name, text in pairs if name is not None)
        identity = message_id(self._incarnation, row, headers)
        return Claim(row, identity, topic, key, value, headers, created, attempts, is_orphan)

    def finish(
        self,
        token: UUID,
        delivered: Sequence[int],
        retries: Sequence[Retry] = (),
        burials: Sequence[Burial] = (),
    ) -> set[int]:
        """See ``ClaimStore.finish``; may be repeated, and then finds nothing of it ours.

        Raises:
            DatabaseFailed: All of it may have been done, or nothing.
        """
        steps = _ends(delivered, retries, burials)
        if not steps:
            return set()
        asked = {*delivered, *(one.id for one in retries), *(one.id for one in burials)}
        if len(steps) == 1:  # a statement is a transaction, and one round trip instead of three
            ((name, parameters),) = steps
            ended = self._ending.run(self._queries[name], parameters | {"token": token}).fetchall()
        else:
            ended = []
            with self._ending.transaction() as run:
                for name, parameters in steps:
                    ended += run(self._queries[name], parameters | {"token": token}).fetchall()
        return asked - {row[0] for row in ended}

    def renew(self, token: UUID, ids: Sequence[int], lease: float) -> set[int]:
        """See ``ClaimStore.renew``.

        Raises:
            DatabaseFailed: It may have been done, or not.
        """
        parameters = {"token": token, "ids": list(ids), "lease": float(lease)}
        renewed = self._ending.run(self._queries["renew"], parameters).fetchall()
        return set(ids) - {row[0] for row in renewed}

    def release(self, token: UUID, ids: Sequence[int]) -> None:
        """See ``ClaimStore.release``.

        Raises:
            DatabaseFailed: It may have been done, or not.
        """
        if ids:
            self._ending.run(self._queries["release"], {"token": token, "ids": list(ids)})

    def interrupt(self) -> None:
        """Break whatever statement is under way, from any thread: its caller is told so."""
        self._claiming.interrupt()
        self._ending.interrupt()

    def close(self) -> None:
        """Let go of the connections."""
        self._claiming.close()
        self._ending.close()


_PARTS = ("unpaused", "untried", "untried_of_topics", "wanted", "not_unwanted")
_COMPANIONS = ("epoch", "lease", "hold", "dead", "source", "batch")
_OWNS = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(%(outbox)s)"
_COLUMNS = (
    "SELECT attname::text FROM pg_attribute"
    " WHERE attrelid = to_regclass(%(outbox)s) AND attnum > 0 AND NOT attisdropped"
)


def _statements(table: Table) -> dict[str, str]:
    """Every statement; a claim comes in three forms, by which topics it is of."""
    of_topics = QUERIES["untried_of_topics"]
    forms = {
        "claim": (QUERIES["untried"], ""),
        "claim_wanted": (f"{QUERIES['wanted']}, {of_topics}", "AND {topic} = ANY (%(topics)s)"),
        "claim_others": (
            f"{QUERIES['not_unwanted']}, {of_topics}",
            "AND {topic} <> ALL (%(topics)s)",
        ),
    }
    queries = QUERIES | {
        name: QUERIES["claim"]
        .replace("{untried}", untried)
        .replace("{filters}", filters)
        .replace("{unpaused}", QUERIES["unpaused"])
        for name, (untried, filters) in forms.items()
    }
    kept = {name: query for name, query in queries.items() if name not in _PARTS}
    return build_statements(table, WINDROW, queries=kept)


def _ends(
    delivered: Sequence[int], retries: Sequence[Retry], burials: Sequence[Burial]
) -> list[tuple[str, dict[str, Any]]]:
    """The statements that end these claims, with their parameters."""
    steps: list[tuple[str, dict[str, Any]]] = []
    if delivered:
        steps.append(("delivered", {"ids": list(delivered)}))
    if retries:
        parameters = {
            "ids": [one.id for one in retries],
            "delays": [float(one.delay) for one in retries],
            "counted": [int(one.counts) for one in retries],
            "reasons": [storable(one.reason) for one in retries],
        }
        steps.append(("retry", parameters))
    if burials:
        parameters = {
            "ids": [one.id for one in burials],
            "counted": [int(one.counts) for one in burials],
            "reasons": [storable(one.reason) for one in burials],
        }
        steps.append(("bury", parameters))
    return steps
