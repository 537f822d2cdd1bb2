"""Leadership by Kafka's word, against a real broker."""

from __future__ import annotations

import itertools
import secrets
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.relaying import OutboxDatabase, consume, wait_for
from tests.fixtures.services import start_service
from tests.integration.relay.contending import (
    ProcessContender,
    ThreadContender,
    check_disjoint,
    claims_of,
    leader_of,
    leads,
    started_process,
)
from windrow.embedded.kafka import KafkaBroker, create_topic
from windrow.embedded.link import Link
from windrow.embedded.ports import free_port
from windrow.errors import Failed, InvalidValue, Unreachable
from windrow.outbox.errors import DatabaseFailed
from windrow.outbox.stores.postgres import PostgresStore
from windrow.relay.election.errors import ForcedProperty, GroupRefused, LeaderTopicUnusable
from windrow.relay.election.leading import Leading
from windrow.relay.election.neli import NeliElection
from windrow.relay.election.neli_machine import NeliTiming
from windrow.relay.election.neli_settings import Assignor, NeliSettings
from windrow.relay.events import LeaderAcquired, LeaderFenced, LeaderRevoked
from windrow.relay.road import BarrierRoad
from windrow.relay.service import Relay
from windrow.relay.targets.kafka import KafkaTarget
from windrow.telemetry.events import Event, EventBus

TIMING = NeliTiming(min_poll_interval=0.1, heartbeat_timeout=1.0)
SESSION = TIMING.session_timeout


class Booth:
    """One group: makes elections in it, and closes what a test leaves open."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.group = f"group-{secrets.token_hex(6)}"
        self.topic = f"{self.group}.neli"
        self.epochs = itertools.count(1)
        self.elections: list[NeliElection] = []
        self.contenders: list[ThreadContender] = []

    def election(
        self, name: str = "me", raise_epoch: Any = None, base: Any = None, **settings: Any
    ) -> NeliElection:
        election = NeliElection(
            {"bootstrap.servers": self.bootstrap, "log_level": 0} if base is None else base,
            NeliSettings(self.group, name, **{"timing": TIMING, **settings}),
            raise_epoch or (lambda shard: next(self.epochs)),
        )
        self.elections.append(election)
        return election

    def contender(self, name: str, **settings: Any) -> ThreadContender:
        contender = ThreadContender(name, self.election(name, **settings))
        self.contenders.append(contender)
        return contender

    def close(self) -> None:
        for contender in self.contenders:
            contender.stop()
        for election in self.elections:
            election.resign()
            election.close()
        from confluent_kafka.admin import AdminClient

        AdminClient({"bootstrap.servers": self.bootstrap}).delete_topics([self.topic])


@pytest.fixture
def booth(kafka: str) -> Iterator[Booth]:
    booth = Booth(kafka)
    yield booth
    booth.close()


def pulse_until_leading(election: NeliElection, timeout: float = 20.0) -> Leading:
    deadline = time.monotonic() + timeout
    while (leading := election.pulse()) is None:
        assert time.monotonic() < deadline, "it never leads"
        time.sleep(0.02)
    return leading


def pulse_for(seconds: float, *elections: NeliElection) -> list[list[Leading | None]]:
    """What each of them said in that time."""
    said: list[list[Leading | None]] = [[] for _ in elections]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for election, answers in zip(elections, said, strict=True):
            answers.append(election.pulse())
        time.sleep(0.05)
    return said


def heartbeats_in(bootstrap: str, topic: str) -> list[tuple[str, str | None]]:
    return [(seen.key, seen.value) for seen in consume(bootstrap, topic)]


# -- the leader topic ----------------------------------------------------------------------------


def partitions_of(bootstrap: str, topic: str) -> int:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    return len(admin.list_topics(timeout=10.0).topics[topic].partitions)


def test_a_missing_leader_topic_is_made_with_a_partition_for_each_shard(booth: Booth) -> None:
    booth.election(shards=3).open()
    assert partitions_of(booth.bootstrap, booth.topic) == 3


def test_members_that_start_at_once_make_one_leader_topic(booth: Booth) -> None:
    threads = [threading.Thread(target=booth.election(str(n)).open) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert partitions_of(booth.bootstrap, booth.topic) == 1


def test_a_leader_topic_with_too_few_partitions_is_given_more(booth: Booth) -> None:
    create_topic(booth.bootstrap, booth.topic, partitions=2)
    booth.election(shards=3).open()
    assert partitions_of(booth.bootstrap, booth.topic) == 3


def test_kafkas_own_topic_is_refused_as_a_leader_topic(booth: Booth) -> None:
    """A sample configuration of goharvest names it; no heartbeat could ever be written there."""
    pulse_until_leading(booth.election())  # now there are offsets, and so the topic
    with pytest.raises(LeaderTopicUnusable, match="Kafka's own"):
        booth.election("other", leader_topic="__consumer_offsets").open()


def test_a_wrong_address_is_a_clear_error_within_the_time_out(booth: Booth) -> None:
    base = {"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0}
    election = booth.election(base=base, connect_timeout=1.0)
    began = time.monotonic()
    with pytest.raises(Unreachable, match=f"cannot reach Kafka at {base['bootstrap.servers']}"):
        election.open()
    with pytest.raises(Unreachable):
        election.pulse()
    assert time.monotonic() - began < 4.0


def test_a_property_unknown_to_the_client_is_a_clear_error_without_its_secrets(
    booth: Booth,
) -> None:
    base = {"bootstrap.servers": booth.bootstrap, "no.such.thing": "x", "sasl.password": "hidden"}
    with pytest.raises(InvalidValue, match=r"no\.such\.thing") as refused:
        booth.election(base=base).open()
    assert "hidden" not in str(refused.value)


def test_a_forced_property_is_refused_before_anything_is_connected(booth: Booth) -> None:
    base = {"bootstrap.servers": "nowhere:1", "group.id": "mine"}
    with pytest.raises(ForcedProperty, match=r"cannot override configuration 'group\.id'"):
        booth.election(base=base)


# -- one node ------------------------------------------------------------------------------------


def test_a_single_node_leads_and_stays_leader(booth: Booth) -> None:
    election = booth.election()
    first = pulse_until_leading(election)
    (said,) = pulse_for(1.5 * SESSION, election)
    assert {leading and leading.epoch for leading in said} == {first.epoch}
    for leading in said:
        assert leading is not None
        assert leading.exclusive_until is not None
        assert leading.exclusive_until > leading.valid_until


def test_the_right_is_never_longer_than_a_heartbeat_timeout(booth: Booth) -> None:
    election = booth.election()
    pulse_until_leading(election)
    for _ in range(20):
        asked_at = time.monotonic()
        leading = election.pulse()
        assert leading is not None
        assert asked_at < leading.valid_until <= time.monotonic() + TIMING.heartbeat_timeout
        time.sleep(0.05)


def test_heartbeats_are_those_of_goneli(booth: Booth) -> None:
    before = time.time_ns()
    election = booth.election("node_1")
    pulse_until_leading(election)
    pulse_for(1.0, election)
    heartbeats = heartbeats_in(booth.bootstrap, booth.topic)
    stamps = []
    for key, value in heartbeats:
        assert key == ""  # goneli sends none
        stamp, _, name = (value or "").partition("%")
        assert name == "node_1"
        stamps.append(int(stamp))
    assert before < stamps[0] < stamps[-1] < time.time_ns()
    assert len(stamps) >= 8
    gaps = [(later - earlier) / 1e9 for earlier, later in itertools.pairwise(stamps)]
    assert 0.1 <= statistics.median(gaps) < 0.4


def test_a_database_that_fails_means_not_leading_yet(booth: Booth) -> None:
    answers: Iterator[Any] = iter([DatabaseFailed("down"), DatabaseFailed("down"), 7])

    def raise_epoch(shard: int) -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return int(answer)

    election, failures = booth.election(raise_epoch=raise_epoch), 0
    deadline = time.monotonic() + 20.0
    leading = None
    while leading is None and time.monotonic() < deadline:
        try:
            leading = election.pulse()
        except DatabaseFailed:
            failures += 1
    assert leading is not None
    assert leading.epoch == 7
    assert failures == 2


def test_a_pause_between_two_pulses_fences_and_the_next_right_has_a_new_epoch(
    booth: Booth,
) -> None:
    election = booth.election()
    first = pulse_until_leading(election)
    time.sleep(TIMING.heartbeat_timeout + 0.1)  # the pause itself is what is tested
    assert election.pulse() is None
    second = pulse_until_leading(election)
    assert second.epoch > first.epoch
    assert second.valid_until > time.monotonic()


def test_a_node_that_resigned_may_stand_again(booth: Booth) -> None:
    election = booth.election()
    first = pulse_until_leading(election)
    election.resign()
    assert pulse_until_leading(election).epoch > first.epoch


# -- several nodes -------------------------------------------------------------------------------


def test_a_standby_that_joins_changes_nothing(booth: Booth) -> None:
    leader = booth.election("leader")
    revoked: list[int] = []
    leader.bind(revoked.append)
    first = pulse_until_leading(leader)
    standbys = [booth.election(f"standby-{n}") for n in range(3)]
    for count in range(1, 4):
        said, *others = pulse_for(1.5, leader, *standbys[:count])
        assert {leading and leading.epoch for leading in said} == {first.epoch}
        assert all(leading is None for answers in others for leading in answers)
    standbys[0].resign()  # and one that goes changes nothing either
    said, *_ = pulse_for(1.5, leader, *standbys[1:])
    assert {leading and leading.epoch for leading in said} == {first.epoch}
    assert revoked == []


def test_a_standby_that_dies_and_comes_back_at_once_does_not_unseat_the_leader(
    booth: Booth,
) -> None:
    """The group waits for the dead one before it lets anybody in, and answers nobody meanwhile."""
    roomy = NeliTiming(min_poll_interval=0.1, heartbeat_timeout=3.0)  # a busy machine is not news
    leader = booth.contender("leader", timing=roomy)
    leader_of([leader])
    standby = booth.election("standby", timing=roomy)
    pulse_for(1.5, standby)
    standby.close()  # without leaving, as if it were killed
    time.sleep(0.8)  # the time that a restart takes
    pulse_for(roomy.session_timeout + 1.0, booth.election("restarted", timing=roomy))
    claims = claims_of(leader)
    assert len(claims) == 1
    assert leads(leader)


def test_four_nodes_started_one_by_one_and_closed_in_order_have_one_leader_at_a_time(
    booth: Booth,
) -> None:
    nodes: list[ThreadContender] = []
    for number in range(4):
        nodes.append(booth.contender(f"node-{number}"))
        wait_for(lambda: len(nodes[-1].notes()) > 3, "it pulses")
        assert leader_of(nodes).name == "node-0"  # joins do not unseat
    for node in nodes[:-1]:
        was_leading = leads(node)
        node.stop()
        if was_leading:
            leader_of([other for other in nodes if other is not node], timeout=5.0)
    assert leads(nodes[-1])
    claims = check_disjoint(nodes)
    assert len(claims) >= 2
    assert claims[0].who == "node-0"


def test_a_clean_resignation_is_taken_over_within_a_second(
    booth: Booth, record_property: Any
) -> None:
    taken: list[float] = []
    leader, standby = booth.election("a"), booth.election("b")
    pulse_until_leading(leader)
    for _ in range(3):
        pulse_for(1.5, leader, standby)  # a client joins once a second at most
        began = time.monotonic()
        leader.resign()
        pulse_until_leading(standby)
        taken.append(time.monotonic() - began)
        leader, standby = standby, leader
    record_property("seconds", taken)
    print("NELI take-over after a resignation:", [round(t, 2) for t in taken])
    assert max(taken) < TIMING.session_timeout


def test_a_close_without_resigning_leaves_the_session_to_expire(booth: Booth) -> None:
    """Whatever the leader could not settle has that long to arrive before anybody else leads."""
    leader, standby = booth.election("a"), booth.election("b")
    pulse_until_leading(leader)
    pulse_for(1.0, leader, standby)
    last = leader.pulse()
    assert last is not None
    leader.close()
    pulse_until_leading(standby)
    assert last.exclusive_until is not None
    assert time.monotonic() >= last.exclusive_until


def test_shards_are_shared_out_and_each_has_one_leader(booth: Booth) -> None:
    """Kafka moves only what it must: a joining node gets some, and the others do not pause."""
    epochs: dict[int, Any] = defaultdict(lambda: itertools.count(1))
    settings: Any = {"shards": 4, "timing": NeliTiming(heartbeat_timeout=3.0)}
    first = booth.election("a", lambda shard: next(epochs[shard]), **settings)
    second = booth.election("b", lambda shard: next(epochs[shard]), **settings)
    handed_over: list[int] = []
    first.bind(handed_over.append)
    deadline = time.monotonic() + 20.0
    while len(first.pulse_shards()) < 4:
        assert time.monotonic() < deadline
    assert {leading.epoch for leading in first.pulse_shards().values()} == {1}
    while len(second.pulse_shards()) < 2:
        mine = first.pulse_shards()
        assert all(mine[shard].epoch == 1 for shard in mine)
        assert time.monotonic() < deadline
    mine, others = first.pulse_shards(), second.pulse_shards()
    assert set(mine) | set(others) == {0, 1, 2, 3}
    assert set(handed_over) == set(others)
    assert all(leading.epoch == 1 for leading in mine.values())
    assert all(leading.epoch == 2 for leading in others.values())


# -- goneli's group ------------------------------------------------------------------------------


def range_consumer(booth: Booth) -> Any:
    """What a goneli is to the group: a consumer of the default, eager assignor."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": booth.bootstrap,
            "group.id": booth.group,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": round(SESSION * 1000),
            "heartbeat.interval.ms": 200,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([booth.topic])
    return consumer


def test_the_range_assignor_shares_a_group_with_plain_consumers(booth: Booth) -> None:
    """Which of the two gets the partition is the assignor's affair; never both have it."""
    election = booth.election(assignor="range")
    pulse_until_leading(election)
    stranger = range_consumer(booth)
    try:
        rebalanced = threading.Event()
        election.bind(lambda shard: rebalanced.set())
        deadline = time.monotonic() + 15.0
        settled = 0
        while settled < 20:
            assert time.monotonic() < deadline, "the group does not settle"
            leading = election.pulse()
            stranger.poll(0.05)
            owns = bool(stranger.assignment())
            assert not (leading and owns)
            settled += rebalanced.is_set() and (leading is not None or owns)
    finally:
        stranger.close()
    pulse_until_leading(election)


def test_two_assignors_in_one_group_are_a_clear_error(booth: Booth) -> None:
    create_topic(booth.bootstrap, booth.topic)
    stranger = range_consumer(booth)
    try:
        wait_for(lambda: stranger.poll(0.01) is not None or stranger.assignment(), "it owns")
        election = booth.election()
        with pytest.raises(GroupRefused, match=r"cooperative-sticky.*'range' is goneli's"):
            pulse_until_leading(election, timeout=10.0)
    finally:
        stranger.close()


def test_an_eager_rebalance_gives_the_lead_away_only_when_the_hand_over_has_ended(
    booth: Booth,
) -> None:
    """A barrier: what the leader still has to do is done before another may begin."""
    assignor: Assignor = "range"
    done_at: list[float] = []
    leader = booth.election("a", assignor=assignor)

    def hand_over(shard: int) -> None:
        time.sleep(1.0)  # work that takes its time
        done_at.append(time.monotonic())

    leader.bind(hand_over)
    pulse_until_leading(leader)
    standby = booth.contender("b", assignor=assignor)
    deadline = time.monotonic() + 20.0
    while not done_at:
        assert time.monotonic() < deadline, "nothing was asked back"
        assert not leads(standby)
        assert leader.pulse() is None or not done_at
        time.sleep(0.05)
    while not leads(standby) and leader.pulse() is None:
        assert time.monotonic() < deadline, "nobody leads"
        time.sleep(0.05)
    assert all(claim.begin >= done_at[0] for claim in claims_of(standby))


# -- links and brokers that fail -----------------------------------------------------------------


@pytest.fixture(scope="module")
def linked(pytestconfig: pytest.Config) -> Iterator[tuple[KafkaBroker, Link]]:
    """A broker of these tests' own, and a link to it."""
    with Link.start() as link:
        start = partial(KafkaBroker.start, link=link)
        with start_service(pytestconfig, "Kafka (linked)", start) as broker:
            yield broker, link


@pytest.fixture
def far_booth(linked: tuple[KafkaBroker, Link]) -> Iterator[Booth]:
    booth = Booth(linked[1].address)
    yield booth
    booth.close()


def leads_through_trouble(election: NeliElection, wanted: bool) -> Leading | None:
    """Pulse until it leads, or does not, whatever goes wrong on the way."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        with suppress(Failed):
            leading = election.pulse()
            if (leading is not None) is wanted:
                return leading
        time.sleep(0.05)
    pytest.fail("it never came")


def test_a_link_that_stalls_ends_the_right_in_time_and_holds_up_no_resignation(
    far_booth: Booth, linked: tuple[KafkaBroker, Link]
) -> None:
    election, link = far_booth.election(), linked[1]
    last = pulse_until_leading(election)
    link.stall()
    try:
        while (leading := election.pulse()) is not None:
            last = leading
            time.sleep(0.05)
        assert last.valid_until <= time.monotonic()
        began = time.monotonic()
        election.resign()
        assert time.monotonic() - began < 10.0
    finally:
        link.resume()
    assert leads_through_trouble(election, True)


def test_a_broker_that_was_killed_and_came_back_elects_again(
    far_booth: Booth, linked: tuple[KafkaBroker, Link]
) -> None:
    election, broker = far_booth.election(), linked[0]
    first = pulse_until_leading(election)
    broker.kill()
    assert leads_through_trouble(election, False) is None
    broker.restart()
    again = leads_through_trouble(election, True)
    assert again is not None
    assert again.epoch > first.epoch


# -- processes that die and sleep ----------------------------------------------------------------


@pytest.fixture
def heartbeat_timeout() -> float:
    return TIMING.heartbeat_timeout


@pytest.fixture
def processes(
    booth: Booth, outbox: OutboxDatabase, tmp_path: Path, heartbeat_timeout: float
) -> Iterator[list[ProcessContender]]:
    """Two contenders in processes of their own, the first of them leading."""
    settings = {
        "dsn": outbox.dsn,
        "bootstrap": booth.bootstrap,
        "group": booth.group,
        "heartbeat_timeout": heartbeat_timeout,
    }
    with ExitStack() as stack:
        started: list[ProcessContender] = []
        for name in ("a", "b"):
            started.append(stack.enter_context(started_process(name, tmp_path, "neli", **settings)))
            leader_of(started)
            wait_for(lambda: len(started[-1].notes()) > 5, "it pulses")
        yield started


def test_a_killed_leader_is_succeeded_when_its_session_has_expired(
    processes: list[ProcessContender],
) -> None:
    leader = leader_of(processes)
    successor = next(p for p in processes if p is not leader)
    leader.kill()
    killed_at = time.monotonic()
    leader_of([successor], timeout=SESSION + 5.0)
    claims = check_disjoint(processes)
    taken = claims[-1].begin - killed_at
    print(f"NELI take-over after kill -9: {taken:.2f} s, session {SESSION:.1f} s")
    # Within the session, but for how busy the machine is.
    assert TIMING.heartbeat_timeout < taken < SESSION + 1.0


# A busy machine may starve the other of its heartbeats for a second, with nobody disturbing it.
@pytest.mark.parametrize("heartbeat_timeout", [3.0])
def test_a_leader_that_slept_past_its_session_wakes_up_as_no_leader(
    processes: list[ProcessContender], heartbeat_timeout: float
) -> None:
    """A heartbeat out of its buffer is no fresh one; goneli leads for another 5 s on it."""
    session = NeliTiming(heartbeat_timeout=heartbeat_timeout).session_timeout
    sleeper = leader_of(processes)
    other = next(p for p in processes if p is not sleeper)
    sleeper.pause()
    paused_at = time.monotonic()
    leader_of([other], timeout=session + 5.0)
    print(f"NELI take-over after SIGSTOP: {time.monotonic() - paused_at:.2f} s")
    woken = sleeper.wake(heartbeat_timeout + 1.0)
    assert not any(note.is_valid for note in woken)
    assert leads(other)
    epochs = {note.epoch for note in other.notes() if note.at > woken[0].at}
    assert len(epochs) == 1  # it was not disturbed either
    check_disjoint(processes)


@pytest.mark.parametrize("share", [1.2, 3.0])
def test_a_leader_that_slept_for_any_time_never_leads_beside_another(
    processes: list[ProcessContender], share: float
) -> None:
    for _ in range(2):
        sleeper = leader_of(processes)
        sleeper.pause()
        time.sleep(share * TIMING.heartbeat_timeout)  # the pause is what is tested
        sleeper.wake(1.0)
        leader_of(processes)
    check_disjoint(processes)


def test_a_clean_stop_of_the_process_is_taken_over_within_a_second(
    processes: list[ProcessContender],
) -> None:
    leader = leader_of(processes)
    successor = next(p for p in processes if p is not leader)
    wait_for(lambda: len(successor.notes()) > 20, "it has been in the group for a while")
    leader.stop()
    stopped_at = leader.notes()[-1].at
    leader_of([successor], timeout=5.0)
    taken = claims_of(successor)[0].begin - stopped_at
    print(f"NELI take-over after SIGTERM: {taken:.2f} s")
    assert taken < TIMING.session_timeout  # else it was not handed over, but timed out
    check_disjoint(processes)


# -- what the proof rests on ---------------------------------------------------------------------


def test_the_group_refuses_a_commit_of_whom_it_has_let_go_though_he_believes_in_his_assignment(
    kafka: str, topic: str
) -> None:
    """Nothing else would tell: the partition can still be read and written by anybody."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    def join() -> Any:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": topic,
                "session.timeout.ms": 1500,
                "max.poll.interval.ms": 1500,  # who does not poll leaves, and is not told
                "enable.auto.commit": False,
                "partition.assignment.strategy": "cooperative-sticky",
                "heartbeat.interval.ms": 200,
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        wait_for(lambda: bool(consumer.poll(0.02) or consumer.assignment()), "it owns")
        return consumer

    first = join()
    first.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    second = join()
    try:
        assert first.assignment() == second.assignment() != []
        with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
            first.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    finally:
        first.close()
        second.close()


# -- as the election of a relay ------------------------------------------------------------------


class Relays:
    """Relays on one outbox that elect by NELI, and all that they told."""

    def __init__(self, booth: Booth, outbox: OutboxDatabase) -> None:
        self.booth, self.outbox = booth, outbox
        self.started: list[Relay] = []
        self.events: list[tuple[Relay, Event]] = []

    def start(self, assignor: Assignor) -> Relay:
        store = PostgresStore(self.outbox.dsn, self.outbox.table)
        producer = {"bootstrap.servers": self.booth.bootstrap, "delivery.timeout.ms": 1000}
        bus = EventBus()
        name = f"relay-{len(self.started)}"
        election = self.booth.election(
            name,
            lambda shard: store.raise_epoch(name, shard),
            assignor=assignor,
            timing=NeliTiming(heartbeat_timeout=2.0),
        )
        road = BarrierRoad(store, KafkaTarget(producer), bus)
        relay = Relay.of(lambda shard: road, election, events=bus)
        bus.subscribe(lambda event: self.events.append((relay, event)))
        self.started.append(relay)
        return relay.start()

    def leader(self) -> Relay:
        wait_for(lambda: any(relay.is_leader for relay in self.started), "one leads")
        return next(relay for relay in self.started if relay.is_leader)

    def count(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for _, event in self.events)

    def has_more(self, kind: type[Event], than: int) -> bool:
        return self.count(kind) > than

    def stop(self) -> None:
        for relay in self.started:
            relay.stop()
        for relay in self.started:
            assert relay.wait(30.0)


@pytest.fixture
def relays(booth: Booth, outbox: OutboxDatabase) -> Iterator[Relays]:
    relays = Relays(booth, outbox)
    yield relays
    relays.stop()


class Load:
    """Writes records until it is ended; every key counts upwards."""

    def __init__(self, outbox: OutboxDatabase, topic: str) -> None:
        self.outbox, self.topic, self.written = outbox, topic, 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._write, daemon=True)
        self.thread.start()

    def _write(self) -> None:
        while not self.ended.wait(0.005):
            numbers = range(self.written, self.written + 20)
            self.outbox.write(self.topic, [(f"key-{n % 10}", str(n)) for n in numbers])
            self.written += 20

    def end(self, timeout: float = 30.0) -> None:
        self.ended.set()
        self.thread.join()
        wait_for(lambda: self.outbox.count() == 0, "the outbox is empty", timeout)


@pytest.fixture
def load(outbox: OutboxDatabase, topic: str) -> Iterator[Load]:
    load = Load(outbox, topic)
    yield load
    load.ended.set()
    load.thread.join()


def check_delivered_once_in_order(bootstrap: str, load: Load) -> None:
    of_key: dict[str, list[int]] = defaultdict(list)
    for seen in consume(bootstrap, load.topic):
        of_key[seen.key].append(int(seen.value or -1))
    assert dict(of_key) == {f"key-{k}": list(range(k, load.written, 10)) for k in range(10)}


def test_a_relay_that_joins_and_one_that_stops_under_load_double_nothing(
    relays: Relays, load: Load
) -> None:
    first = relays.start("cooperative-sticky")
    assert relays.leader() is first
    second = relays.start("cooperative-sticky")
    wait_for(lambda: load.written > 2_000, "work is under way")
    assert relays.leader() is first
    assert relays.count(LeaderRevoked) == relays.count(LeaderFenced) == 0
    first.stop()
    assert first.wait(20.0)
    began = time.monotonic()
    wait_for(lambda: second.is_leader, "the other leads", timeout=5.0)
    print(f"NELI gap of a hand-over under load: {time.monotonic() - began:.2f} s")
    load.end()
    check_delivered_once_in_order(relays.booth.bootstrap, load)
    assert relays.count(LeaderAcquired) == 2
    assert relays.count(LeaderFenced) == 0


def test_an_eager_rebalance_under_load_hands_over_without_a_duplicate(
    relays: Relays, load: Load
) -> None:
    """Where goharvest abandons what is in flight at every join, and sends it again."""
    relays.start("range")
    relays.leader()
    wait_for(lambda: load.written > 500, "work is under way")
    for _ in range(2):
        revoked = relays.count(LeaderRevoked)
        relays.start("range")
        wait_for(partial(relays.has_more, LeaderRevoked, revoked), "the lead is asked back")
        relays.leader()
    load.end()
    check_delivered_once_in_order(relays.booth.bootstrap, load)
    assert relays.count(LeaderFenced) == 0
