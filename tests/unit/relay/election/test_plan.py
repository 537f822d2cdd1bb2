"""Who takes how many shards, and when their number changes."""

from __future__ import annotations

import itertools
import random

import pytest

from windrow.relay.election.plan import (
    Census,
    Plan,
    proposal_due,
    quota,
    surplus_shards,
    wanted_shards,
)

FOUR = Plan(2, 4)
MOVING = Plan(3, 5, unsettled=4)


@pytest.mark.parametrize(
    ("shards", "members", "part"),
    [(1, 1, 1), (4, 1, 4), (4, 2, 2), (4, 3, 2), (4, 9, 1), (5, 2, 3)],
)
def test_nobody_takes_more_than_its_part_rounded_up(shards: int, members: int, part: int) -> None:
    assert quota(Plan(1, shards), members) == part


def test_a_relay_alone_takes_all_that_is_free() -> None:
    assert wanted_shards(Census(FOUR, free=(0, 1, 2, 3)), []) == [0, 1, 2, 3]
    assert wanted_shards(Census(FOUR, free=(2, 3)), [0, 1]) == [2, 3]


def test_one_of_two_takes_half_and_leaves_what_is_not_free() -> None:
    assert wanted_shards(Census(FOUR, 2, free=(0, 1, 2, 3)), []) == [0, 1]
    assert wanted_shards(Census(FOUR, 2, free=(3,)), [0]) == [3]
    assert wanted_shards(Census(FOUR, 2, free=(2, 3)), [0, 1]) == []


def test_who_has_more_than_its_part_hands_over_the_rest_and_keeps_the_first() -> None:
    assert surplus_shards(Census(FOUR, 1), [0, 1, 2, 3]) == []
    assert surplus_shards(Census(FOUR, 2), [0, 1, 2, 3]) == [2, 3]
    assert surplus_shards(Census(FOUR, 2), [1, 3]) == []


def test_until_a_generation_is_settled_only_its_first_shard_is_led() -> None:
    assert wanted_shards(Census(MOVING, free=(0,)), []) == [0]
    assert wanted_shards(Census(MOVING, free=(1, 2, 3)), []) == []
    assert wanted_shards(Census(MOVING, free=(0,)), [0]) == []
    assert surplus_shards(Census(MOVING, 9), [0]) == []


def test_a_proposal_is_taken_up_when_nobody_proposes_anything_else() -> None:
    assert proposal_due(Census(FOUR), 5) == 5
    assert proposal_due(Census(FOUR, 3, frozenset({5})), 5) == 5
    assert proposal_due(Census(FOUR, 3, frozenset({5, 6})), 5) is None
    assert proposal_due(Census(FOUR, 2, frozenset({4})), 5) is None


def test_who_proposes_nothing_or_what_holds_already_changes_nothing() -> None:
    assert proposal_due(Census(FOUR, 2, frozenset({5})), None) is None
    assert proposal_due(Census(FOUR), 4) is None


def test_one_change_is_settled_before_the_next_begins() -> None:
    assert proposal_due(Census(MOVING), 6) is None


@pytest.mark.parametrize("seed", range(50))
def test_whoever_comes_and_goes_each_shard_is_led_by_one_in_the_end(seed: int) -> None:
    """Each relay looks when it likes, and sees what was true at that moment."""
    rng = random.Random(seed)
    plan = Plan(1, rng.randint(1, 9))
    held: dict[str, set[int]] = {}
    names = map(str, itertools.count())
    for turn in range(400):
        if turn < 200 and rng.random() < 0.1:
            held[next(names)] = set()
        if turn < 200 and held and rng.random() < 0.05:
            del held[rng.choice(list(held))]
        if not held:
            held[next(names)] = set()
        name = rng.choice(list(held))
        taken = set().union(*held.values())
        free = tuple(shard for shard in range(plan.shards) if shard not in taken)
        census = Census(plan, len(held), free=free)
        held[name] |= set(wanted_shards(census, held[name]))
        held[name] -= set(surplus_shards(census, held[name]))
        everything = list(itertools.chain(*held.values()))
        assert len(everything) == len(set(everything)), "two lead one shard"
    assert sorted(everything) == list(range(plan.shards))
    assert max(map(len, held.values())) == quota(plan, len(held))
