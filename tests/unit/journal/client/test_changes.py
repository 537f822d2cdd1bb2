"""From a tree of specs to changes, and what they come to."""

from __future__ import annotations

import pickle
from dataclasses import replace

from windrow.journal.client.changes import StaleRevisions, changes_of, judge, names_of, tree_of
from windrow.journal.client.requests import Delete, ListedJournal, Upsert
from windrow.journal.codec import Codec
from windrow.journal.labels import LabelSet
from windrow.journal.process import Route
from windrow.journal.spec import INCARNATION_LABEL, FragmentSpec, JournalSpec
from windrow.journal.spec_tree import parse_tree

ORDERS = JournalSpec("shop/orders", 1, fragment=FragmentSpec(1024, Codec.NONE, (), 60.0))
PAYMENTS = replace(ORDERS, name="shop/payments")


def listed(spec: JournalSpec, revision: int) -> ListedJournal:
    return ListedJournal(spec, revision, revision, Route.NONE)


def test_a_listing_applied_unchanged_is_a_change_of_nothing() -> None:
    journals = [listed(ORDERS, 5), listed(PAYMENTS, 7)]
    changes = changes_of(tree_of(journals))
    assert changes == (Upsert(ORDERS, 5), Upsert(PAYMENTS, 7))
    assert [each.action for each in judge(changes, journals)] == ["unchanged", "unchanged"]
    assert not any(each.is_stale for each in judge(changes, journals))


def test_a_deleted_directory_deletes_what_is_listed_below() -> None:
    tree = parse_tree("name: a/\ndelete: true\nchildren: [{name: a/journal, revision: -1}]")
    assert changes_of(tree) == (Delete("a/journal", -1),)
    assert names_of(changes_of(tree)) == ["a/journal"]


def test_a_change_is_stale_unless_the_journal_is_at_the_expected_revision() -> None:
    present = [listed(ORDERS, 5)]
    stale = {
        revision: judge([Upsert(replace(ORDERS, replication=2), revision)], present)[0].is_stale
        for revision in (0, 4, 5, -1)
    }
    assert stale == {0: True, 4: True, 5: False, -1: False}
    assert not judge([Upsert(PAYMENTS, 0)], present)[0].is_stale
    assert judge([Delete("shop/payments", 3)], present)[0].is_stale


def test_the_incarnation_a_broker_gave_is_no_difference_to_a_spec_without_one() -> None:
    given = replace(ORDERS, labels=LabelSet.of({INCARNATION_LABEL: "abc"}))
    assert judge([Upsert(ORDERS, 5)], [listed(given, 5)])[0].action == "unchanged"
    other = replace(ORDERS, labels=LabelSet.of({INCARNATION_LABEL: "xyz"}))
    assert judge([Upsert(other, 5)], [listed(given, 5)])[0].action == "update"


def test_stale_revisions_are_told_journal_by_journal() -> None:
    error = StaleRevisions([("a/new", 0, 9), ("a/gone", 4, 0), ("a/moved", 4, 5)])
    assert "journal 'a/new' exists already, at revision 9" in str(error)
    assert "journal 'a/gone' does not exist, and revision 4 was expected" in str(error)
    assert "journal 'a/moved' is at revision 5, and revision 4 was expected" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert "and 2 more" in str(StaleRevisions([("a/new", 0, 9)] * 7))
