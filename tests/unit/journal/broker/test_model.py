"""Whatever fails, in whatever order: no offset has two contents, nothing acknowledged is lost."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.unit.journal.broker.model import Broken, Broker, World, flush
from windrow.journal.broker import sync
from windrow.journal.broker.append_events import AppendState as State
from windrow.journal.broker.append_events import BackFill, SendSync

ORDERS = st.permutations(range(3))
SOME = st.sets(st.integers(0, 2))


def appended(world: World, broker: Broker, content: bytes) -> bool:
    """Append in a world where nothing more happens, and say whether it was acknowledged."""
    before = len(world.checker.acknowledged)
    world.begin(broker, content)
    world.settle()
    return len(world.checker.acknowledged) > before


def hand_over(world: World, *brokers: Broker) -> None:
    """Give the journal to other brokers, all of whom know; streams of old primaries end."""
    world.set_route(*brokers)
    for link in world.links:
        world.cut(link)
    for broker in world.brokers:
        broker.known = world.states[-1]


def text(world: World) -> bytes:
    return bytes(byte for _, byte in sorted(world.checker.known.items()))


def leave_bytes_at_one_replica(world: World) -> None:
    """X reaches B's disk and not A's, and is acknowledged to nobody; both are killed."""
    a, b, _ = world.brokers
    hand_over(world, b, a)
    assert appended(world, b, b"base")
    append = world.begin(b, b"XXXX")
    while append.machine.state is not State.READ_ACKNOWLEDGEMENTS:
        world.step(b, append)
    flush(b.spool)
    world.crash(b)
    world.crash(a)


def go_on_without_it_and_let_it_come_back(world: World) -> None:
    a, b, c = world.brokers
    leave_bytes_at_one_replica(world)
    a.start()
    hand_over(world, a, c)
    assert appended(world, a, b"YY")
    b.start()
    hand_over(world, b, c)
    assert appended(world, b, b"Z")


def test_a_durable_spool_does_not_resurrect_an_abandoned_branch() -> None:
    """J1: A and C go on without B; B comes back with a further end of another branch."""
    world = World()
    go_on_without_it_and_let_it_come_back(world)
    assert text(world) == b"baseYYZ"


def test_adopting_the_furthest_end_resurrects_it() -> None:
    """The naive version of J1, to see that the model tells."""
    with pytest.raises(Broken):
        go_on_without_it_and_let_it_come_back(World(is_durable=False))


def lose_the_only_disk_that_has_the_bytes(world: World) -> None:
    a, b, c = world.brokers
    leave_bytes_at_one_replica(world)
    a.start()
    b.start()
    hand_over(world, a, b)
    assert appended(world, a, b"YY")
    world.crash(b)
    b.files.files.clear()  # its disk dies
    world.stored.clear()  # and nothing was uploaded yet
    hand_over(world, a, c)
    assert appended(world, a, b"Z")


def test_nothing_is_rolled_forward_on_the_word_of_one_replica() -> None:
    """J3: what only B has was acknowledged to nobody, so it is given up while A is there."""
    world = World()
    lose_the_only_disk_that_has_the_bytes(world)
    assert text(world) == b"baseYYZ"


def test_rolling_forward_on_the_word_of_one_replica_loses_bytes_that_were_shown() -> None:
    """The naive version of J3: readers were shown what a single disk had."""
    world = World(is_durable=False)
    lose_the_only_disk_that_has_the_bytes(world)
    shown = set(range(max(world.checker.known) + 1))
    assert text(world) == b"baseXXXXYYZ"
    assert not shown <= world.bytes_on_disks().keys()


def go_on_with_a_tail_that_one_disk_has(world: World, *, is_primary: bool) -> None:
    """A, who has not got X, is away; C comes new. Then the disk that had X dies."""
    _, b, c = world.brokers
    leave_bytes_at_one_replica(world)
    b.start()
    hand_over(world, *((b, c) if is_primary else (c, b)))
    assert appended(world, b if is_primary else c, b"YY")
    world.stored.clear()  # nothing was uploaded yet
    world.crash(b)
    b.files.files.clear()
    assert text(world) == b"baseXXXXYY"


@pytest.mark.parametrize("is_primary", [True, False])
def test_a_tail_that_one_disk_has_is_copied_to_all_members_before_it_counts(
    is_primary: bool,
) -> None:
    """J3, while a member of the head is away: X may have been acknowledged, so it is kept."""
    world = World()
    go_on_with_a_tail_that_one_disk_has(world, is_primary=is_primary)
    assert set(range(10)) <= world.bytes_on_disks().keys()
    a, _, c = world.brokers
    world.crash(c)
    a.start()
    c.start()
    hand_over(world, a, c)
    assert appended(world, a, b"Z")
    assert text(world) == b"baseXXXXYYZ"


def test_a_tail_that_is_not_copied_is_lost_with_its_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The naive version."""
    monkeypatch.setattr(sync, "_copy", lambda *_: None)
    world = World()
    go_on_with_a_tail_that_one_disk_has(world, is_primary=True)
    assert not set(range(4, 8)) & world.bytes_on_disks().keys()


def test_only_what_is_not_known_to_be_acknowledged_is_copied() -> None:
    """A whole fragment may be large, and its acknowledged part is on the other disks already."""
    world = World()
    a, b, c = world.brokers
    hand_over(world, a, b)
    for content in (b"1", b"2", b"3"):
        assert appended(world, a, content)
    for broker in (a, b):
        world.crash(broker)
    a.start()
    hand_over(world, c, a)
    append = world.begin(c)
    while append.machine.state is not State.BACK_FILL:
        world.settle_links()
        world.step(c, append)
    assert isinstance(append.command, BackFill)
    assert (append.command.copy.begin, append.command.copy.end) == (2, 3)


def test_no_member_of_the_head_means_no_appends() -> None:
    """J1: C alone cannot know what A and B acknowledged."""
    world = World(replication=1)
    a, _, c = world.brokers
    hand_over(world, a)
    assert appended(world, a, b"base")
    world.crash(a)
    hand_over(world, c)
    assert not appended(world, c, b"Y")
    a.start()
    hand_over(world, a)
    assert appended(world, a, b"Z")
    assert text(world) == b"baseZ"


def test_a_kill_of_all_brokers_loses_nothing() -> None:
    world = World(replication=3)
    a, b, c = world.brokers
    hand_over(world, a, b, c)
    for number in range(6):
        assert appended(world, a, b"%d" % number * 3)
    for broker in world.brokers:
        world.crash(broker)
    for broker in world.brokers:
        broker.start()
    hand_over(world, c, a, b)
    assert appended(world, c, b"end")
    assert text(world) == b"000111222333444555end"


def stop_between_decision_and_rewind(world: World, primary: Broker) -> None:
    """The head is decided, and its primary is killed before anybody heard of it."""
    append = world.begin(primary, b"NEVER")
    while append.machine.state is not State.DECIDE_HEAD:
        world.settle_links()
        world.step(primary, append)
    world.step(primary, append)
    assert isinstance(append.command, SendSync)
    world.crash(primary)


def test_a_member_that_did_not_hear_of_the_decision_begins_where_the_head_says() -> None:
    """C joins with nothing, promises, and is the only one left: it goes on at the decided end."""
    world = World()
    a, b, c = world.brokers
    hand_over(world, a, b)
    assert appended(world, a, b"base")
    world.crash(b)
    hand_over(world, a, c)
    stop_between_decision_and_rewind(world, a)
    b.start()
    hand_over(world, c, b)
    assert appended(world, c, b"Y")
    a.start()
    hand_over(world, c, a)
    assert appended(world, c, b"Z")
    assert text(world) == b"baseYZ"


def test_a_member_that_is_behind_takes_part_in_what_is_decided() -> None:
    """B has less than A, promises all the same, and goes on when A is gone."""
    world = World()
    a, b, c = world.brokers
    leave_bytes_at_one_replica(world)
    a.start()
    b.start()
    hand_over(world, b, a)
    stop_between_decision_and_rewind(world, b)
    hand_over(world, a, c)
    assert appended(world, a, b"Y")
    assert text(world) == b"baseY"


def test_a_promise_is_not_forgotten_while_the_head_is_undecided() -> None:
    """The answer to the head's transaction is lost, though it was written; then all are killed."""
    world = World()
    a, b, _ = world.brokers
    hand_over(world, a, b)
    append = world.begin(a, b"one")
    while append.machine.state is not State.UPDATE_ASSIGNMENTS:
        world.settle_links()
        world.step(a, append)
    world.step(a, append, loses_answer=True)
    before = a.known
    world.begin(a, b"two")
    for _ in range(30):  # a stale keyspace: the head is not seen, and a sync is tried again
        a.known = before
        world.settle_links()
        for one in list(a.appends):
            if one.machine.state is not State.UPDATE_ASSIGNMENTS:
                world.step(a, one)
    world.crash(a)
    world.crash(b)
    a.start()
    b.start()
    hand_over(world, b, a)
    assert appended(world, b, b"three")


def test_an_append_that_waited_long_does_not_judge_the_spool_by_an_old_head() -> None:
    """It was resolved before another append moved the head, and has to build the next pipeline."""
    world = World()
    a, b, _ = world.brokers
    hand_over(world, a, b)
    assert appended(world, a, b"base")
    first, late = world.begin(a, b"Y"), world.begin(a, b"Z")
    world.step(a, late)
    assert late.machine.state is State.ACQUIRE_PIPELINE
    for link in world.links:
        world.cut(link)
    while first in a.appends:
        world.settle_links()
        world.step(a, first)
    for link in world.links:
        world.cut(link)
    world.settle()
    assert text(world) == b"baseYZ"


class Faults(RuleBasedStateMachine):
    """Everything at any time. The rules are large, so that few of them lead into deep trouble."""

    replication = 2

    def __init__(self) -> None:
        super().__init__()
        self.world = World(replication=self.replication)

    def pick(self, number: int) -> Broker:
        return self.world.brokers[number % len(self.world.brokers)]

    def primaries(self) -> list[Broker]:
        """Whoever believes to be one."""
        up = [broker for broker in self.world.brokers if broker.is_up]
        return [broker for broker in up if broker.known.route.primary_id == broker.id]

    @rule(
        order=ORDERS, knowing=SOME, restarted=SOME, are_cut=st.booleans(), count=st.integers(0, 2)
    )
    def change_route(
        self, order: list[int], knowing: set[int], restarted: set[int], are_cut: bool, count: int
    ) -> None:
        """Some hear of it, among them perhaps the new primary; the old one perhaps not."""
        world = self.world
        for number in restarted:
            if not self.pick(number).is_up:
                self.pick(number).start()
        world.set_route(*(self.pick(number) for number in order[: self.replication]))
        for number in {*knowing, order[0]}:
            self.pick(number).known = world.states[-1]
        for link in world.links if are_cut else ():
            world.cut(link)
        for _ in range(count if self.pick(order[0]).is_up else 0):
            world.begin(self.pick(order[0]))

    @rule(steps=st.integers(1, 25), arrive=SOME, flushed=SOME)
    def drive(self, steps: int, arrive: set[int], flushed: set[int]) -> None:
        """Primaries go on, while some messages arrive and some are acknowledged."""
        world = self.world
        for _ in range(steps):
            for link in list(world.links):
                which = world.brokers.index(link.peer)
                if which in arrive:
                    world.deliver(link)
                if which in flushed:
                    world.acknowledge(link)
            for broker in self.primaries():
                for append in list(broker.appends):
                    world.step(broker, append)

    @rule(number=st.integers(0, 2), which=st.integers(0, 2), loses_answer=st.booleans())
    def step(self, number: int, which: int, loses_answer: bool) -> None:
        """One append takes one step."""
        broker = self.pick(number)
        if broker.is_up and broker.appends:
            append = broker.appends[which % len(broker.appends)]
            self.world.step(broker, append, loses_answer=loses_answer)

    @rule(number=st.integers(0, 2))
    def begin(self, number: int) -> None:
        for broker in self.primaries():
            if len(broker.appends) < 4:
                self.world.begin(broker)

    @rule(which=st.integers(0, 7))
    def cut(self, which: int) -> None:
        if self.world.links:
            self.world.cut(self.world.links[which % len(self.world.links)])

    @rule(numbers=SOME, in_sync_after=st.none() | st.integers(0, 3))
    def crash(self, numbers: set[int], in_sync_after: int | None) -> None:
        for number in numbers:
            if self.pick(number).is_up:
                self.world.crash(self.pick(number), in_sync_after)

    @rule(order=ORDERS)
    def calm_down(self, order: list[int]) -> None:
        """Time enough for an append to come through."""
        for broker in self.world.brokers:
            if not broker.is_up:
                broker.start()
        members = [self.pick(number) for number in order[: self.replication]]
        hand_over(self.world, *members)
        self.world.begin(members[0])
        self.world.settle()

    def teardown(self) -> None:
        """In the end all come back, and an append goes through that knows all before it."""
        for broker in self.world.brokers:
            if broker.is_up:
                self.world.crash(broker)
        for broker in self.world.brokers:
            broker.start()
        hand_over(self.world, *self.world.brokers)
        self.world.replication = 3
        assert appended(self.world, self.world.brokers[0], b"end")


class FaultsOfThree(Faults):
    """The same with three replicas of three."""

    replication = 3


TestFaults = Faults.TestCase
TestFaults.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestFaultsOfThree = FaultsOfThree.TestCase
TestFaultsOfThree.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


def test_a_copy_that_a_member_refuses_fails_one_append_and_not_the_next() -> None:
    """An older pipeline has reached the member meanwhile: the next append finds that out."""
    faults = Faults()
    faults.calm_down(order=[1, 2, 0])
    faults.crash(in_sync_after=None, numbers={0, 1})
    faults.change_route(are_cut=False, count=0, knowing=set(), order=[0, 1, 2], restarted={0, 1})
    faults.begin(number=0)
    faults.drive(arrive=set(), flushed=set(), steps=1)
    faults.change_route(are_cut=False, count=0, knowing={1}, order=[0, 2, 1], restarted=set())
    faults.drive(arrive={0, 1, 2}, flushed={2}, steps=9)
    faults.calm_down(order=[1, 2, 0])
    assert faults.world.refused_copies == 1
    assert appended(faults.world, faults.pick(1), b"next")
    faults.teardown()
