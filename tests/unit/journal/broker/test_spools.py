"""What a broker takes up again of what its last process left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.journal.fragments.spooling import JOURNAL, Remembering, commit, durable_spool, flush
from windrow.journal.broker.spools import SpoolHouse
from windrow.journal.codec import Codec
from windrow.journal.fragments.recover import recover_spools
from windrow.journal.labels import LabelSet


@pytest.fixture
def house(tmp_path: Path) -> SpoolHouse:
    """One whose last process held a journal that was created at revision 7."""
    spool, _ = durable_spool(tmp_path)
    commit(spool, b"old", LabelSet.of({"owner": "old"}), term=5)
    flush(spool)
    house = SpoolHouse(tmp_path)
    house.recover()
    return house


def test_a_spool_is_taken_up_where_it_was_left(house: SpoolHouse) -> None:
    spool = house.source(JOURNAL, 7, Codec.NONE).open(Remembering())
    assert (spool.fragment.end, spool.term) == (3, 5)


def test_the_spool_of_a_deleted_journal_is_not_taken_for_that_of_a_new_one_of_its_name(
    house: SpoolHouse, tmp_path: Path
) -> None:
    """J1: it was deleted and made again while this broker was away, so its bytes are no journal's.

    A new journal has no head yet, so that any spool would count.
    """
    spool = house.source(JOURNAL, 8, Codec.NONE).open(Remembering())
    assert (spool.fragment.end, spool.term, spool.create_revision) == (0, 0, 8)
    assert not spool.registers
    assert recover_spools(tmp_path) == []
