"""List and Apply: what is there, how it is changed, and who is told."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.integration.journal.conftest import EtcdPrefix
from tests.integration.journal.stage import Caller, Stage, labels, play, spec, until
from windrow.journal.messages import check_apply_response, check_list_response
from windrow.journal.spec import INCARNATION_LABEL
from windrow.journal.wire import protocol_pb2 as pb

Change = pb.ApplyRequest.Change
LAG = 1.0
"""How long a broker that lags behind does not see what others changed."""


async def change(caller: Caller, *changes: pb.ApplyRequest.Change) -> pb.ApplyResponse:
    answer: pb.ApplyResponse = await caller.stub.Apply(pb.ApplyRequest(changes=changes))
    check_apply_response(answer)
    return answer


async def find(caller: Caller, name: str = "a/journal") -> pb.ListResponse.Journal:
    [message] = await caller.journals(labels(name=name))
    [journal] = message.journals
    return journal


def incarnation(journal: pb.ListResponse.Journal) -> str:
    [value] = [one.value for one in journal.spec.labels.labels if one.name == INCARNATION_LABEL]
    return value


async def late_to_know(caller: Caller, wanted: str) -> None:
    """Wait until a broker knows a journal of this incarnation."""

    async def knows() -> bool:
        [message] = await caller.journals(labels(name="a/journal"))
        return [incarnation(journal) for journal in message.journals] == [wanted]

    await until(knows)


def test_create_update_and_delete_need_the_present_revision(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        created = await caller.apply(spec())
        assert created.status == pb.Status.OK
        journal = await find(caller)
        assert journal.mod_revision == journal.create_revision == created.header.etcd.revision
        assert (await caller.apply(spec())).status == pb.Status.ETCD_TRANSACTION_FAILED
        stale = Change(upsert=spec(length=2048), expect_mod_revision=journal.mod_revision - 1)
        assert (await change(caller, stale)).status == pb.Status.ETCD_TRANSACTION_FAILED
        good = Change(upsert=spec(length=2048), expect_mod_revision=journal.mod_revision)
        assert (await change(caller, good)).status == pb.Status.OK
        updated = await find(caller)
        assert updated.spec.fragment.length == 2048
        assert updated.create_revision == journal.create_revision
        assert updated.mod_revision > journal.mod_revision
        wrong = Change(delete="a/journal", expect_mod_revision=journal.mod_revision)
        assert (await change(caller, wrong)).status == pb.Status.ETCD_TRANSACTION_FAILED
        right = Change(delete="a/journal", expect_mod_revision=updated.mod_revision)
        assert (await change(caller, right)).status == pb.Status.OK
        assert await caller.names() == []

    play(tmp_path, story)


def test_a_request_is_applied_whole_or_not_at_all(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await caller.apply(spec("a/one"))
        refused = await caller.apply(spec("a/two"), spec("a/one"))
        assert refused.status == pb.Status.ETCD_TRANSACTION_FAILED
        assert await caller.names() == ["a/one"]

    play(tmp_path, story)


def test_a_negative_revision_creates_updates_and_deletes_whatever_there_is(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        for length in (1024, 2048):
            upsert = Change(upsert=spec(length=length), expect_mod_revision=-1)
            assert (await change(caller, upsert)).status == pb.Status.OK
            assert (await find(caller)).spec.fragment.length == length
        delete = Change(delete="a/journal", expect_mod_revision=-1)
        assert (await change(caller, delete)).status == pb.Status.OK
        assert await caller.names() == []

    play(tmp_path, story)


def test_a_journal_keeps_the_incarnation_of_its_creation(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await caller.apply(spec())
        first = await find(caller)
        update = Change(upsert=spec(length=2048), expect_mod_revision=first.mod_revision)
        await change(caller, update)
        updated = await find(caller)
        assert incarnation(updated) == incarnation(first)
        forged = spec(labels=pb.LabelSet(labels=[pb.Label(name=INCARNATION_LABEL, value="mine")]))
        await change(caller, Change(upsert=forged, expect_mod_revision=-1))
        assert incarnation(await find(caller)) == incarnation(first)
        await change(caller, Change(delete="a/journal", expect_mod_revision=-1))
        await caller.apply(spec())
        assert incarnation(await find(caller)) != incarnation(first)

    play(tmp_path, story)


def test_a_broker_that_lags_behind_gives_a_new_journal_no_incarnation_of_before(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    """J7: it was deleted by way of another broker, and this one still knows the old one."""

    async def story(there: Stage) -> None:
        _, caller = await there.broker("quick")
        _, late = await there.broker("late", watch_delay=LAG)
        await caller.apply(spec())
        first = await find(caller)
        await late_to_know(late, incarnation(first))
        await change(caller, Change(delete="a/journal", expect_mod_revision=-1))
        assert (await late.apply(spec())).status == pb.Status.OK
        assert incarnation(await find(late)) != incarnation(first)

    play(tmp_path, story, cluster_etcd)


def test_a_broker_that_lags_behind_does_not_change_the_incarnation(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    """J7: it is told to change a journal that it does not know yet, at the right revision."""

    async def story(there: Stage) -> None:
        _, caller = await there.broker("quick")
        _, late = await there.broker("late", watch_delay=LAG)
        await caller.apply(spec())
        first = await find(caller)
        update = Change(upsert=spec(length=2048), expect_mod_revision=first.mod_revision)
        assert (await change(late, update)).status == pb.Status.OK
        assert incarnation(await find(late)) == incarnation(first)

    play(tmp_path, story, cluster_etcd)


def test_an_incarnation_does_not_recur_when_revisions_do(tmp_path: Path) -> None:
    """J7: the keys are set back to a copy from before the journal was made, and it is made again.

    Its name and its create revision are those of the first one, and so is all that a position says.
    """

    async def story(there: Stage) -> None:
        server, _ = await there.broker("kept")
        await server.stop(grace=0.0)
        made = []
        for copy in ("once", "again"):
            shutil.copytree(tmp_path / "kept", tmp_path / copy)
            _, caller = await there.broker(copy)
            await caller.apply(spec())
            made.append(await find(caller))
        first, second = made
        assert first.create_revision == second.create_revision
        assert incarnation(first) != incarnation(second)

    play(tmp_path, story)


def test_a_journal_may_be_created_with_an_incarnation_of_ones_own(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        given = pb.LabelSet(labels=[pb.Label(name=INCARNATION_LABEL, value="given")])
        await caller.apply(spec(labels=given))
        assert incarnation(await find(caller)) == "given"

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([Change()], "exactly one of Upsert and Delete"),
        ([Change(upsert=spec(replication=0))], r"Changes\[0\].Upsert.Replication"),
        ([Change(upsert=spec(name="/abs"))], r"Upsert.Name: cannot begin with '/'"),
        ([Change(delete="a/journal")], "ExpectModRevision"),
        (
            [Change(upsert=spec(path_postfix_template="{{ .Nope }}"))],
            r"Changes\[0\].Upsert.Fragment.PathPostfixTemplate",
        ),
        ([Change(upsert=spec(f"many/{n:04}")) for n in range(129)], "129 changes; 128 fit"),
    ],
    ids=["neither", "replication", "name", "revision", "template", "too-many"],
)
def test_a_malformed_request_changes_nothing(
    tmp_path: Path, changes: list[pb.ApplyRequest.Change], message: str
) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        with pytest.raises(grpc.aio.AioRpcError, match=message) as refused:
            await change(caller, *changes)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert await caller.names() == []

    play(tmp_path, story)


def test_as_many_changes_as_a_transaction_holds_are_applied_at_once(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        specs = [spec(f"many/{n:04}") for n in range(128)]
        assert (await caller.apply(*specs)).status == pb.Status.OK
        messages = await caller.journals()
        assert [len(message.journals) for message in messages] == [25, 25, 25, 25, 25, 3]
        assert [message.HasField("header") for message in messages] == [True] + [False] * 5
        check_list_response(messages[0], first=True)
        found = Change(upsert=specs[0], expect_mod_revision=-1)
        deletes = [Change(delete=one.name, expect_mod_revision=-1) for one in specs[1:]]
        assert (await change(caller, found, *deletes)).status == pb.Status.OK
        assert await caller.names() == ["many/0000"]

    play(tmp_path, story)


def test_an_empty_list_still_has_a_header_without_a_route(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        [message] = await caller.journals()
        assert message.status == pb.Status.OK
        assert message.header.route.primary == -1
        assert 0 not in (
            message.header.etcd.cluster_id,
            message.header.etcd.member_id,
            message.header.etcd.revision,
            message.header.etcd.raft_term,
        )

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("include", "found"),
    [
        (labels(), ["a/one", "a/two", "b/three"]),
        (labels(name="a/two"), ["a/two"]),
        (labels(prefix="a/"), ["a/one", "a/two"]),
        (labels(kind="x"), ["a/one", "b/three"]),
        (labels(kind="x", prefix="a/"), ["a/one"]),
        (labels(kind=""), ["a/one", "b/three"]),
        (labels(kind="none"), []),
    ],
    ids=["all", "name", "prefix", "label", "both", "any-value", "nothing"],
)
def test_journals_are_chosen_by_label_name_and_prefix(
    tmp_path: Path, include: pb.LabelSet, found: list[str]
) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await caller.apply(
            spec("a/one", labels=labels(kind="x")),
            spec("a/two"),
            spec("b/three", labels=labels(kind="x")),
        )
        assert await caller.names(include) == found

    play(tmp_path, story)


def test_listed_journals_carry_their_route_once_they_have_brokers(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, caller = await there.broker()
        await caller.apply(spec())
        await caller.appended(b"x")
        journal = await find(caller)
        assert journal.route.primary == 0
        assert list(journal.route.endpoints) == [server.endpoint]

    play(tmp_path, story)


class Watch:
    """A watched list, one snapshot at a time."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.header = pb.Header()

    async def snapshot(self) -> list[str]:
        names: list[str] = []
        async with asyncio.timeout(10):
            async for message in self._call:
                if message == pb.ListResponse():
                    return names
                if message.HasField("header"):
                    self.header = message.header
                names += [journal.spec.name for journal in message.journals]
        raise AssertionError("the watch ended")


def watch(caller: Caller, resume: pb.Header | None = None) -> Watch:
    selector = pb.LabelSelector(include=labels(prefix="a/"))
    return Watch(
        caller.stub.List(pb.ListRequest(selector=selector, watch=True, watch_resume=resume))
    )


def test_a_watch_tells_of_creation_and_deletion_of_what_it_matches(
    tmp_path: Path, cluster_etcd: EtcdPrefix
) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        watched = watch(caller)
        assert await watched.snapshot() == []
        await caller.apply(spec("a/one"))
        assert await watched.snapshot() == ["a/one"]
        await caller.apply(spec("b/other"))
        await caller.appended(b"moves routes, not specs", "a/one")
        await caller.apply(spec("a/two"))
        assert await watched.snapshot() == ["a/one", "a/two"]
        delete = [Change(delete=name, expect_mod_revision=-1) for name in ("a/one", "a/two")]
        await change(caller, *delete)
        assert await watched.snapshot() == []

    play(tmp_path, story, cluster_etcd)


def test_a_resumed_watch_waits_for_what_it_has_not_seen(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await caller.apply(spec("a/one"))
        await caller.appended(b"x", "a/one")
        watched = watch(caller)
        assert await watched.snapshot() == ["a/one"]
        resumed = watch(caller, watched.header)
        waiting = asyncio.create_task(resumed.snapshot())
        done, _ = await asyncio.wait({waiting}, timeout=0.2)
        assert not done
        await caller.apply(spec("a/two"))
        assert await waiting == ["a/one", "a/two"]

    play(tmp_path, story)


def test_a_watch_tells_of_an_update_with_the_spec_as_it_is_now(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await caller.apply(spec("a/one"))
        call = caller.stub.List(pb.ListRequest(watch=True))
        lengths: list[int] = []
        async with asyncio.timeout(10):
            async for message in call:
                if message == pb.ListResponse():
                    if len(lengths) == 2:
                        break
                    update = Change(upsert=spec("a/one", length=2048), expect_mod_revision=-1)
                    await change(caller, update)
                lengths += [journal.spec.fragment.length for journal in message.journals]
        assert lengths == [1 << 20, 2048]
        call.cancel()

    play(tmp_path, story)


def test_journals_are_left_out_by_what_a_selector_excludes(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        _, caller = await there.broker()
        await caller.apply(
            spec("a/one", labels=labels(kind="x")),
            spec("a/two", labels=labels(kind="y")),
            spec("a/three"),
        )

        async def names(**excluded: str) -> list[str]:
            selector = pb.LabelSelector(exclude=labels(**excluded))
            call = caller.stub.List(pb.ListRequest(selector=selector))
            return [j.spec.name async for message in call for j in message.journals]

        assert await names(kind="x") == ["a/three", "a/two"]
        assert await names(kind="") == ["a/three"]
        assert await names(name="a/two") == ["a/one", "a/three"]

    play(tmp_path, story)
