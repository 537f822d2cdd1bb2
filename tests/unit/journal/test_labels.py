"""Label sets: their order, their rules, and their algebra."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.errors import InvalidField
from windrow.journal.labels import EMPTY, Label, LabelSet

names = st.sampled_from(["aa", "bb", "cc"])
values = st.sampled_from(["", "1", "2"])
label_sets = st.dictionaries(names, st.sets(values.filter(bool), min_size=1)).map(
    lambda found: LabelSet.of((name, value) for name, held in found.items() for value in held)
)


def test_a_set_is_the_same_from_a_mapping_pairs_or_labels_in_any_order() -> None:
    expected = LabelSet((Label("aa", "1"), Label("bb", "2")))
    assert LabelSet.of({"bb": "2", "aa": "1"}) == expected
    assert LabelSet.of([("bb", "2"), ("aa", "1"), ("bb", "2")]) == expected
    assert LabelSet.of([Label("bb", "2"), Label("aa", "1")]) == expected
    assert LabelSet.of({}) == EMPTY
    assert not EMPTY


def test_values_of_a_name() -> None:
    labels = LabelSet.of([("bb", "2"), ("aa", "1"), ("bb", "1")])
    assert labels.names() == ("aa", "bb")
    assert labels.values("bb") == ("1", "2")
    assert labels.value("bb") == "1"
    assert labels.values("cc") == ()
    assert labels.value("cc") is None


LEFT = LabelSet.of([("aa", "1"), ("bb", "1"), ("bb", "2"), ("cc", "1")])
RIGHT = LabelSet.of([("bb", "1"), ("bb", "2"), ("cc", "1"), ("cc", "2"), ("dd", "9")])


def test_in_a_union_the_left_values_of_a_name_win() -> None:
    assert LEFT.union(RIGHT) == LabelSet.of([*pairs(LEFT), ("dd", "9")])
    assert LEFT.assigned(RIGHT) == RIGHT.union(LEFT) == LabelSet.of([("aa", "1"), *pairs(RIGHT)])


def test_an_intersection_keeps_a_name_only_if_all_its_values_are_equal() -> None:
    assert LEFT.intersect(RIGHT) == LabelSet.of([("bb", "1"), ("bb", "2")])


def test_a_difference_drops_a_name_only_if_all_its_values_are_equal() -> None:
    """Otherwise every left value stays, those in common too."""
    assert LEFT.subtract(RIGHT) == LabelSet.of([("aa", "1"), ("cc", "1")])
    assert RIGHT.subtract(LEFT) == LabelSet.of([("cc", "1"), ("cc", "2"), ("dd", "9")])


@given(label_sets, label_sets)
def test_intersection_and_difference_make_up_the_whole(left: LabelSet, right: LabelSet) -> None:
    assert left.intersect(right).union(left.subtract(right)) == left
    assert left.intersect(right) == right.intersect(left)
    assert not left.subtract(left)
    assert left.union(left) == left.intersect(left) == left


@given(label_sets, label_sets)
def test_every_operation_gives_a_valid_set(left: LabelSet, right: LabelSet) -> None:
    for result in (left.union(right), left.assigned(right), left.intersect(right)):
        result.validate()
    left.subtract(right).validate()


@given(label_sets, label_sets)
def test_a_union_has_every_name_once(left: LabelSet, right: LabelSet) -> None:
    joined = left.union(right)
    assert set(joined.names()) == {*left.names(), *right.names()}
    for name in joined.names():
        assert joined.values(name) == (left.values(name) or right.values(name))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([("a", "1")], "Labels[0].Name: invalid length (1; expected 2 <= length <= 64)"),
        ([("a" * 65, "1")], "Labels[0].Name: invalid length (65; expected 2 <= length <= 64)"),
        ([("a=b", "1")], "Labels[0].Name: not a valid token (a=b)"),
        ([("aa", "x y")], "Labels[0].Value: not a valid token (x y)"),
        (
            [("aa", "v" * 1025)],
            "Labels[0].Value: invalid length (1025; expected 0 <= length <= 1024)",
        ),
        (
            [("bb", "1"), ("aa", "1")],
            "Labels[1]: must sort after its predecessor (aa=1 follows bb=1)",
        ),
        (
            [("aa", "2"), ("aa", "1")],
            "Labels[1]: must sort after its predecessor (aa=1 follows aa=2)",
        ),
        (
            [("aa", "1"), ("aa", "1")],
            "Labels[1]: must sort after its predecessor (aa=1 follows aa=1)",
        ),
        ([("aa", ""), ("aa", "1")], "Labels[1]: label aa has both an empty value and 1"),
    ],
)
def test_a_bad_set_is_refused_with_its_reason(labels: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(InvalidField) as refused:
        LabelSet(tuple(Label(*pair) for pair in labels)).validate()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "labels",
    [
        [],
        [("aa", "")],
        [("aa", "1"), ("aa", "2"), ("bb", "")],
        [("a/b.c-d_e+f", "=%/"), ("größe", "日本")],
        [("n" * 64, "v" * 1024)],
    ],
)
def test_a_good_set_passes(labels: list[tuple[str, str]]) -> None:
    LabelSet(tuple(Label(*pair) for pair in labels)).validate()


def test_a_prefix_is_refused_outside_a_selector() -> None:
    labels = LabelSet((Label("aa", "1", prefix=True),))
    labels.validate(in_selector=True)
    with pytest.raises(InvalidField, match=r"^Labels\[0\]\.Prefix: only a selector"):
        labels.validate()


def pairs(labels: LabelSet) -> list[tuple[str, str]]:
    return [(label.name, label.value) for label in labels]
