from __future__ import annotations

import pytest

from windrow.coordination.errors import InvalidTransaction
from windrow.coordination.store import (
    MAX_TXN_OPS,
    Compare,
    Delete,
    Op,
    Put,
    check_txn,
    range_end,
    revision_of_conditions,
)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        (b"a", b"b"),
        (b"a/", b"a0"),
        (b"a\xff", b"b"),
        (b"a\xff\xff", b"b"),
        (b"\xff\xff", b"\0"),
        (b"", b"\0"),
    ],
)
def test_range_of_a_prefix_ends_before_the_first_key_that_is_not_in_it(
    prefix: bytes, end: bytes
) -> None:
    assert range_end(prefix) == end


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        ([Put("a", b""), Delete("a")], "changes 'a' twice"),
        ([Delete("")], "names an empty key"),
        ([Put("a", b"", lease=1, ignore_lease=True)], "puts 'a' under a lease and ignores it"),
        ([Delete(str(n)) for n in range(MAX_TXN_OPS + 1)], "has 129 changes, and 128"),
    ],
)
def test_impossible_transaction_is_refused_with_its_reason(ops: list[Op], reason: str) -> None:
    with pytest.raises(InvalidTransaction, match=reason):
        check_txn([], ops)


def test_too_many_conditions_are_refused() -> None:
    check_txn([Compare.version("a", 0)] * MAX_TXN_OPS, [])
    with pytest.raises(InvalidTransaction, match="has 129 compares"):
        check_txn([Compare.version("a", 0)] * (MAX_TXN_OPS + 1), [])


def test_conditions_speak_of_the_revisions_they_name_and_not_of_versions_or_leases() -> None:
    conditions = [
        Compare.mod_revision("a", 7),
        Compare.create_revision("a", 3),
        Compare.version("a", 90),
        Compare.lease("a", 10**15),
    ]
    assert revision_of_conditions(conditions) == 7
    assert revision_of_conditions([]) == 0
