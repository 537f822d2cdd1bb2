"""Selectors: what they match, and their text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.errors import InvalidField
from windrow.journal.labels import EMPTY, Label, LabelSelector, LabelSet

FRUIT = LabelSet.of([("fruit", "apple"), ("fruit", "pear"), ("size", "10"), ("ripe", "")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("fruit=apple", True),
        ("fruit=plum", False),
        ("fruit in (plum,pear)", True),
        ("fruit in (plum,fig)", False),
        ("fruit=apple,size=10", True),
        ("fruit=apple,size=11", False),
        ("fruit", True),
        ("ripe", True),
        ("colour", False),
        ("!colour", True),
        ("!fruit", False),
        ("fruit!=apple", False),
        ("fruit!=plum", True),
        ("fruit notin (plum,pear)", False),
        ("fruit notin (plum,fig)", True),
        ("colour!=red", True),
        ("fruit:prefix=ap", True),
        ("fruit:prefix=pp", False),
        ("fruit:prefix in (zz,pe)", True),
        ("size:prefix!=1", False),
        ("size:prefix!=2", True),
        ("size=1", False),
        ("fruit=apple,fruit!=pear", False),
    ],
)
def test_which_selectors_match(text: str, expected: bool) -> None:
    assert LabelSelector.parse(text).matches(FRUIT) is expected


def test_the_empty_selector_matches_no_labels_too() -> None:
    assert LabelSelector().matches(EMPTY)
    assert not LabelSelector.parse("fruit").matches(EMPTY)
    assert LabelSelector.parse("!fruit").matches(EMPTY)


@pytest.mark.parametrize(
    ("text", "include", "exclude"),
    [
        ("aa=1", [Label("aa", "1")], []),
        ("aa==1", [Label("aa", "1")], []),
        (" aa == 1 ", [Label("aa", "1")], []),
        ("aa!=1", [], [Label("aa", "1")]),
        ("aa in (2,1)", [Label("aa", "1"), Label("aa", "2")], []),
        ("aa in ( 2 , 1 ) , bb", [Label("aa", "1"), Label("aa", "2"), Label("bb")], []),
        ("aa in(1)", [Label("aa", "1")], []),
        ("aa notin (1,2)", [], [Label("aa", "1"), Label("aa", "2")]),
        ("aa not in (1,2)", [], [Label("aa", "1"), Label("aa", "2")]),
        ("aa", [Label("aa")], []),
        ("!aa", [], [Label("aa")]),
        ("aa:prefix=a/b", [Label("aa", "a/b", prefix=True)], []),
        ("aa:prefix notin (1)", [], [Label("aa", "1", prefix=True)]),
        ("aa=1,aa=2", [Label("aa", "1"), Label("aa", "2")], []),
        ("aa=1,aa=1", [Label("aa", "1")], []),
        ("aa=1,aa:prefix=1", [Label("aa", "1", prefix=True)], []),
        ("in in (not)", [Label("in", "not")], []),
        ("not in (in)", [Label("not", "in")], []),
        ("aa=b=c", [Label("aa", "b=c")], []),
        ("a.b/c-d=x%20y", [Label("a.b/c-d", "x%20y")], []),
    ],
)
def test_how_a_text_is_read(text: str, include: list[Label], exclude: list[Label]) -> None:
    expected = LabelSelector(LabelSet(tuple(include)), LabelSet(tuple(exclude)))
    assert LabelSelector.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "aa=",
        "=aa",
        "aa in",
        "aa in ()",
        "aa in (1",
        "aa in 1",
        "aa in (1,)",
        "aa  =1",
        "aa=1,",
        ",aa=1",
        "aa=1,,bb=2",
        "aa=1 bb=2",
        "!aa=1",
        "aa===1",
        "aa:suffix=1",
        "aa=1;bb=2",
        "a=1",
        "aa,aa=1",
        "aa=(1)",
        "aa\n=1",
    ],
)
def test_what_is_not_of_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(InvalidField, match="Selector"):
        LabelSelector.parse(text)


def test_the_refusal_shows_where_it_went_wrong() -> None:
    with pytest.raises(InvalidField) as refused:
        LabelSelector.parse("aa=1,bb in 2")
    assert str(refused.value) == (
        "Selector: expected a term such as a=b, a in (x,y) or !a ('bb in 2')"
    )


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("bb==2 , aa=1", "aa=1,bb=2"),
        ("aa not in (2,1)", "aa notin (1,2)"),
        ("!aa,bb", "bb,!aa"),
        ("aa:prefix=1,aa=2", "aa=2,aa:prefix=1"),
        ("", ""),
    ],
)
def test_a_selector_is_printed_in_one_form(text: str, printed: str) -> None:
    assert str(LabelSelector.parse(text)) == printed


label_names = st.text("abin-/.ü1", min_size=2, max_size=6)
label_values = st.text("=%x-/日", min_size=1, max_size=5)
selector_sets = st.dictionaries(
    label_names, st.one_of(st.just({"": False}), st.dictionaries(label_values, st.booleans()))
).map(
    lambda found: LabelSet.of(
        Label(name, value, prefix) for name, held in found.items() for value, prefix in held.items()
    )
)


@given(selector_sets, selector_sets)
def test_a_printed_selector_reads_back_as_itself(include: LabelSet, exclude: LabelSet) -> None:
    selector = LabelSelector(include, exclude)
    selector.validate()
    assert LabelSelector.parse(str(selector)) == selector


@given(st.text("ab=!,() :prefixnot#\n"))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    try:
        selector = LabelSelector.parse(text)
    except InvalidField:
        return
    assert LabelSelector.parse(str(selector)) == selector
