"""What ``windrow pump`` writes."""

from __future__ import annotations

from collections import Counter, defaultdict

from windrow.relay.load import SEQUENCE_HEADER, Load, transactions


def keys_of(load: Load) -> Counter[str]:
    return Counter(key for transaction in transactions(load) for key, _ in transaction.arrivals)


def test_every_record_is_numbered_once_and_named_as_goharvests_pump_does() -> None:
    found = [pair for one in transactions(Load(10, 105, seed=1)) for pair in one.records]
    assert sorted(number for number, _ in found) == list(range(105))
    for number, record in found:
        assert record.topic == "pump"
        assert int((record.key or "").removeprefix("key-"), 16) < 10
        assert str(record.value).startswith("value-")
        assert record.headers == ((SEQUENCE_HEADER, str(number)),)


def test_transactions_have_twenty_records_as_goharvests_do() -> None:
    sizes = [len(transaction.records) for transaction in transactions(Load(10, 105, seed=1))]
    assert sizes == [20, 20, 20, 20, 20, 5]


def test_the_same_seed_gives_the_same_records_and_another_gives_others() -> None:
    load = Load(50, 500, skew=1.1, sizes=(10, 400), rollbacks=0.1, workers=3, seed=7)
    assert list(transactions(load)) == list(transactions(load))
    other = Load(50, 500, skew=1.1, sizes=(10, 400), rollbacks=0.1, workers=3, seed=8)
    assert list(transactions(load)) != list(transactions(other))


def test_blank_records_are_tombstones() -> None:
    values = {
        record.value
        for one in transactions(Load(3, 30, is_blank=True))
        for _, record in one.records
    }
    assert values == {None}


def test_sizes_are_kept() -> None:
    load = Load(3, 300, sizes=(5, 60), seed=1)
    lengths = [len(record.value or "") for one in transactions(load) for _, record in one.records]
    assert min(lengths) >= 5
    assert max(lengths) <= 60
    assert len(set(lengths)) > 20


def test_without_skew_all_keys_are_drawn_alike_and_with_it_the_first_most() -> None:
    even = keys_of(Load(10, 10_000, seed=1))
    assert len(even) == 10
    assert max(even.values()) < 1.3 * min(even.values())
    skewed = keys_of(Load(10, 10_000, skew=1.0, seed=1))
    assert skewed["key-0"] > 1.6 * skewed["key-1"] > 2.0 * skewed["key-5"]


def test_a_key_belongs_to_one_worker_and_keeps_its_order_there() -> None:
    """Else two connections would commit its records in the order of chance."""
    workers: dict[str, set[int]] = defaultdict(set)
    numbers: dict[str, list[int]] = defaultdict(list)
    for transaction in transactions(Load(20, 2_000, skew=0.5, workers=4, seed=1)):
        for key, number in transaction.arrivals:
            workers[key].add(transaction.worker)
            numbers[key].append(number)
    assert all(len(found) == 1 for found in workers.values())
    assert len(set().union(*workers.values())) == 4
    assert all(found == sorted(found) for found in numbers.values())


def test_about_as_many_transactions_are_rolled_back_as_was_asked_for() -> None:
    fates = [one.rolls_back for one in transactions(Load(10, 20_000, rollbacks=0.2, seed=1))]
    assert 0.15 < sum(fates) / len(fates) < 0.25
    assert not any(one.rolls_back for one in transactions(Load(10, 2_000, seed=1)))
