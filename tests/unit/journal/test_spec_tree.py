"""The tree of journal specs: inheritance, hoisting, and its text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.codec import Codec
from windrow.journal.durations import format_go_duration, parse_go_duration
from windrow.journal.errors import InvalidField
from windrow.journal.labels import LabelSet
from windrow.journal.spec import Flag, FragmentSpec, JournalSpec, Suspend, SuspendLevel
from windrow.journal.spec_algebra import intersect_specs, subtract_specs, union_specs
from windrow.journal.spec_tree import ANY_REVISION, Node, flatten, format_tree, hoist, parse_tree

TREE = """\
name: shop/
replication: 3
labels:
- name: content-type
  value: application/x-ndjson
- name: team
  value: sales
fragment:
  length: 1048576
  compression_codec: SNAPPY
  stores:
  - s3://bucket/path/
  refresh_interval: 5m0s
children:
- name: shop/clicks
  labels:
  - name: team
    value: web
  fragment:
    flush_interval: 1h0m0s
  flags: O_RDONLY
  revision: 7
- name: shop/orders/
  replication: 2
  children:
  - name: shop/orders/p0
    suspend:
      level: PARTIAL
      offset: 1234
  - name: shop/orders/p1
    max_append_rate: 65536
    revision: -1
"""
FRAGMENT = FragmentSpec(1 << 20, Codec.SNAPPY, ("s3://bucket/path/",), 300.0)
SALES = LabelSet.of({"content-type": "application/x-ndjson", "team": "sales"})
WEB = LabelSet.of({"content-type": "application/x-ndjson", "team": "web"})
P0 = JournalSpec("shop/orders/p0", 2, SALES, FRAGMENT, suspend=Suspend(SuspendLevel.PARTIAL, 1234))
CLICKS = JournalSpec("shop/clicks", 3, WEB, replace(FRAGMENT, flush_interval=3600.0), Flag.O_RDONLY)
LEAVES = (
    Node(CLICKS, revision=7),
    Node(P0),
    Node(JournalSpec("shop/orders/p1", 2, SALES, FRAGMENT, max_append_rate=65536), ANY_REVISION),
)


def test_a_journal_inherits_what_it_leaves_unset() -> None:
    assert flatten(parse_tree(TREE)) == LEAVES


def test_hoisting_writes_what_is_shared_once() -> None:
    """Not the replication, which differs; nor the suspension, though only one has it."""
    tree = hoist(reversed(LEAVES))
    assert tree.spec == JournalSpec(
        "shop/", 0, LabelSet.of({"content-type": "application/x-ndjson"}), FRAGMENT
    )
    assert [child.name for child in tree.children] == ["shop/clicks", "shop/orders/"]
    orders = tree.children[1]
    assert orders.spec == JournalSpec("shop/orders/", 2, LabelSet.of({"team": "sales"}))
    assert orders.children[0].spec == JournalSpec("shop/orders/p0", suspend=P0.suspend)


def test_hoisting_and_text_and_flattening_give_the_same_journals_back() -> None:
    assert flatten(parse_tree(format_tree(hoist(LEAVES)))) == LEAVES


def test_a_tree_is_written_in_one_form() -> None:
    assert format_tree(parse_tree(TREE)) == TREE


def test_a_suspension_shared_by_all_stays_with_each() -> None:
    spec = replace(P0, replication=1)
    tree = hoist([Node(spec), Node(replace(spec, name="shop/orders/p9"))])
    assert tree.spec.suspend == Suspend()
    assert [child.spec.suspend for child in tree.children] == [P0.suspend, P0.suspend]


def test_one_journal_is_its_own_tree_and_strangers_share_a_nameless_root() -> None:
    assert hoist([Node(P0)]) == Node(P0)
    other = replace(P0, name="else/where")
    tree = hoist([Node(P0), Node(other)])
    assert (tree.name, [child.name for child in tree.children]) == (
        "",
        ["else/where", "shop/orders/p0"],
    )
    assert flatten(tree) == (Node(other), Node(P0))
    assert hoist([]) == Node(JournalSpec(""))


def test_a_journal_may_be_named_as_a_directory_is() -> None:
    names = ["aa/bb", "aa/bb-x", "aa/bb/c0", "aa/bb/c1", "aa/bb0"]
    leaves = tuple(Node(replace(P0, name=name)) for name in names)
    tree = hoist(leaves)
    assert [child.name for child in tree.children] == ["aa/bb", "aa/bb-x", "aa/bb/", "aa/bb0"]
    assert flatten(tree) == leaves


def test_deletion_reaches_every_journal_listed_below() -> None:
    text = """
name: shop/
delete: true
children:
- name: shop/clicks
  revision: 7
- name: shop/orders/
  children:
  - {name: shop/orders/p0, revision: -1}
"""
    leaves = flatten(parse_tree(text))
    assert [(leaf.name, leaf.revision, leaf.delete) for leaf in leaves] == [
        ("shop/clicks", 7, True),
        ("shop/orders/p0", -1, True),
    ]


def test_a_deletion_names_the_revision_it_saw() -> None:
    assert refusal("{name: shop/clicks, delete: true}") == (
        "shop/clicks.Revision: expected the journal's revision, or -1 for any, since it is deleted"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{name: shop, children: [{name: shop/a}]}", "shop.Name: expected a name that ends in '/'"),
        ("{name: shop/, revision: 3}", "shop/.Revision: belongs to a journal"),
        ("{name: shop/, suspend: {level: FULL}}", "shop/.Suspend: belongs to a journal"),
        (
            "{name: shop/, children: [{name: shop/b}, {name: shop/a}]}",
            "shop/.Children: must be sorted by name (shop/a follows shop/b)",
        ),
        (
            "{name: shop/, children: [{name: shop/a}, {name: shop/a}]}",
            "shop/.Children: must be sorted by name (shop/a follows shop/a)",
        ),
        (
            "{name: shop/, children: [{name: else/b}]}",
            "shop/.Children: expected a name below shop/ (else/b)",
        ),
        ("{name: shop/, children: [{name: shop/}]}", "shop/.Children: expected a name below shop/"),
        ("{name: shop/a, replication: 9}", "shop/a.Replication: invalid value (9;"),
        ("{name: shop/a, revision: -2}", "shop/a.Revision: invalid value (-2; expected >= -1)"),
        ("{name: shop/a, replicas: 9}", "unknown key 'replicas'; expected one of name, delete"),
        ("{name: shop/a, replication: three}", "replication: expected a whole number (three)"),
        ("{name: shop/a, replication: [3]}", "replication: expected text (['3'])"),
        ("{name: shop/a, delete: yes}", "delete: expected true or false (yes)"),
        ("{name: shop/a, flags: O_APPEND}", "flags: expected one of NOT_SPECIFIED, O_RDONLY"),
        ("{name: shop/a, labels: {a: b}}", "labels: expected a list ({'a': 'b'})"),
        ("{name: shop/a, labels: [{key: b}]}", "labels.[0]: unknown key 'key'"),
        ("{name: shop/a, fragment: x}", "fragment: expected keys and values ('x')"),
        (
            "{name: shop/a, fragment: {retention: 3}}",
            "fragment.retention: not a duration; write it as 1m30s (3)",
        ),
        ("{name: shop/a, children: [x]}", "children.[0]: expected keys and values ('x')"),
        ("{name: shop/a, name: shop/b}", "not YAML: key 'name' is written twice"),
        ("{name: shop/a", "not YAML: while parsing a flow mapping"),
        ("!!python/name:os.system x", "not YAML: could not determine a constructor"),
        ("&a {children: [*a]}", "nested without end"),
        ("", "expected keys and values (None)"),
    ],
)
def test_a_tree_that_cannot_be_is_refused_where_it_goes_wrong(text: str, message: str) -> None:
    assert refusal(text).startswith(message)


def test_scalars_are_taken_as_they_are_written() -> None:
    text = "{name: 1e10, labels: [{name: octal, value: 010}, {name: no, value: no}]}"
    spec = parse_tree(text).spec
    assert spec.name == "1e10"
    assert spec.labels == LabelSet.of({"octal": "010", "no": "no"})
    assert parse_tree(format_tree(Node(spec))).spec == spec


def test_merge_keys_and_empty_values_are_understood() -> None:
    text = """
name: shop/
children:
- &first
  name: shop/a
  replication: 2
  labels:
  fragment:
- <<: *first
  name: shop/b
"""
    first, second = parse_tree(text).children
    assert (first.name, second.name, second.spec.replication) == ("shop/a", "shop/b", 2)
    assert (first.spec.labels, first.spec.fragment) == (LabelSet(), FragmentSpec())


def refusal(text: str) -> str:
    with pytest.raises(InvalidField) as refused:
        flatten(parse_tree(text))
    return str(refused.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (1, "1s"),
        (60, "1m0s"),
        (90.5, "1m30.5s"),
        (3600, "1h0m0s"),
        (86400, "24h0m0s"),
        (0.25, "250ms"),
        (0.0015, "1.5ms"),
        (0.000002, "2us"),
        (0.000000003, "3ns"),
        (-90, "-1m30s"),
    ],
)
def test_durations_are_written_as_go_does(seconds: float, text: str) -> None:
    assert format_go_duration(seconds) == text
    assert parse_go_duration(text) == seconds


def test_other_durations_are_read_or_refused() -> None:
    assert parse_go_duration("1.5h") == 5400
    assert parse_go_duration("2µs") == parse_go_duration("2μs") == 0.000002
    assert parse_go_duration("0") == 0
    for text in ("", "-", "1", "1d", "1 m", "1m 3s", "m", "--1s", "1e3s"):
        with pytest.raises(InvalidField, match="not a duration"):
            parse_go_duration(text)


sets = st.dictionaries(st.sampled_from(["aa", "bb"]), st.sampled_from(["1", "2"])).map(LabelSet.of)
fragments = st.builds(
    FragmentSpec,
    length=st.sampled_from([0, 1 << 10]),
    codec=st.sampled_from(Codec),
    stores=st.sampled_from([(), ("s3://a/",), ("s3://a/", "s3://b/")]),
    refresh_interval=st.sampled_from([0.0, 1.0, 2.5]),
    retention=st.sampled_from([0.0, -1.0]),
    flush_interval=st.sampled_from([0.0, 60.0]),
    path_postfix_template=st.sampled_from(["", "x"]),
)
specs = st.builds(
    JournalSpec,
    name=st.just("a/journal"),
    replication=st.integers(0, 2),
    labels=sets,
    fragment=fragments,
    flags=st.sampled_from(Flag),
    max_append_rate=st.integers(0, 1),
    suspend=st.builds(Suspend, st.sampled_from(SuspendLevel), st.integers(0, 1)),
)


@given(specs, specs)
def test_what_is_shared_and_what_is_not_make_up_the_spec(
    left: JournalSpec, right: JournalSpec
) -> None:
    shared = intersect_specs(left, right)
    assert union_specs(subtract_specs(left, shared), shared) == left
    assert union_specs(subtract_specs(right, shared), shared) == right


good_names = st.lists(st.sampled_from(["aa", "bb", "c-c"]), min_size=2, max_size=4).map("/".join)
valid_specs = st.builds(
    JournalSpec,
    name=good_names,
    replication=st.integers(1, 2),
    labels=sets,
    fragment=st.builds(
        FragmentSpec,
        length=st.sampled_from([1 << 10, 1 << 11]),
        codec=st.sampled_from([Codec.NONE, Codec.GZIP]),
        stores=st.sampled_from([(), ("s3://a/",)]),
        refresh_interval=st.sampled_from([1.0, 2.5]),
        retention=st.sampled_from([0.0, -1.0]),
    ),
    flags=st.sampled_from(Flag),
)
journals = st.lists(
    st.builds(Node, valid_specs, revision=st.integers(-1, 3)), unique_by=lambda node: node.name
)


@given(journals)
def test_any_journals_survive_the_tree_and_its_text(leaves: list[Node]) -> None:
    tree = hoist(leaves)
    expected = tuple(sorted(leaves, key=lambda node: node.name))
    assert flatten(tree) == expected
    assert parse_tree(format_tree(tree)) == tree
