from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.graph.shapes import few, is_large, made, outlines
from windrow.graph import (
    Graph,
    Processor,
    Queue,
    Retry,
    Source,
    Topology,
    TopologyChanged,
    check_unchanged,
    differences,
)
from windrow.graph.outline import Outline
from windrow.graph.topology import canonical_json, fingerprint_of

PRICE = made("price", reads="orders", writes="priced")
AUDIT = made("audit", reads="orders", writes="audited")
BOTH = made("both", reads=["priced", "audited"])
SHOP = Graph("shop", [Source("orders"), PRICE, AUDIT, BOTH])


def shop_with(processor: Processor, *, queues: tuple[Queue, ...] = ()) -> Topology:
    """The shop with one of its processors replaced."""
    parts = [processor if part.id == processor.id else part for part in SHOP.working]
    return Topology(Outline("shop", [Source("orders"), *parts], queues=queues))


def test_two_processors_of_the_same_inputs_are_both_in_the_topology() -> None:
    topology = SHOP.topology
    assert topology.downstreams("orders") == {"price", "audit"}
    assert topology.upstreams("both") == {"price", "audit"}
    assert set(topology.canonical["processors"]) == {"shop/price", "shop/audit", "shop/both"}


def test_everything_stands_after_what_it_depends_on() -> None:
    assert SHOP.topology.order == ("orders", "audit", "price", "both")
    assert (SHOP.topology.sources, SHOP.topology.sinks) == (("orders",), ("both",))


def test_streams_are_followed_by_any_way_if_asked() -> None:
    assert SHOP.topology.downstreams("orders", transitive=True) == {"price", "audit", "both"}
    assert SHOP.topology.upstreams("both", transitive=True) == {"price", "audit", "orders"}


def test_queues_know_who_writes_and_who_reads_them() -> None:
    graph = Graph("shop", [Source("orders"), PRICE, AUDIT], errors="failed")
    assert graph.topology.writers("failed") == ("audit", "price")
    assert graph.topology.readers("orders") == ("audit", "price")


def test_a_reader_of_errors_depends_on_whoever_may_fail() -> None:
    mend = made("mend", reads="failed", on_error="stop")
    graph = Graph("shop", [Source("orders"), PRICE, mend], errors="failed")
    assert graph.topology.upstreams("mend") == {"price"}


def test_the_fingerprint_is_sha256_of_the_canonical_json() -> None:
    text = canonical_json(SHOP.topology.canonical)
    assert text == json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True)
    assert SHOP.topology.fingerprint == hashlib.sha256(text.encode()).hexdigest()


def test_the_fingerprint_of_a_known_graph_never_changes() -> None:
    """It is stored beside checkpoints: another way to write it down would refuse all of them."""
    graph = Graph("shop", [Source("orders"), made("price", reads="orders", writes="priced")])
    assert canonical_json(graph.topology.canonical) == (
        '{"processors":{"shop/price":{"reads":["orders"],"strategy":"exactly-once",'
        '"writes":["priced"]}},"queues":{"orders":{"journal":"shop/orders","source":true},'
        '"priced":{"journal":"shop/priced"}}}'
    )
    assert graph.topology.fingerprint == (
        "5375f0a14fdb88b946d5eaff650a4da46e512b32f6c193874e2e902914c53a11"
    )


@pytest.mark.parametrize(
    "same",
    [
        replace(PRICE, options={"limit": 3}),
        replace(PRICE, retry=Retry(2)),
        replace(PRICE, version="2", deterministic=True),
        replace(PRICE, form="arrow"),
        replace(PRICE, reads={"order": "orders"}),
        replace(PRICE, on_error="drop"),
        replace(PRICE, strategy="exactly-once"),
        made("price", reads="orders", writes="priced", types="a", where=is_large),
    ],
)
def test_what_progress_does_not_depend_on_is_not_in_the_fingerprint(same: Processor) -> None:
    assert shop_with(same).fingerprint == SHOP.topology.fingerprint


def test_a_processor_renamed_under_its_old_uid_is_the_same() -> None:
    renamed = replace(PRICE, id="pricing", uid="shop/price")
    graph = Graph("shop", [Source("orders"), renamed, AUDIT, BOTH])
    assert graph.topology.fingerprint == SHOP.topology.fingerprint


@pytest.mark.parametrize(
    ("changed", "sentences"),
    [
        (
            shop_with(replace(PRICE, strategy="at-least-once")),
            ['processor "shop/price": strategy was "exactly-once" and is "at-least-once"'],
        ),
        (
            shop_with(replace(PRICE, errors="bad")),
            ['processor "shop/price": errors was not set and is "bad"', 'queue "bad" is new'],
        ),
        (
            shop_with(replace(PRICE, many=True)),
            ['processor "shop/price": many was not set and is true'],
        ),
        (
            shop_with(replace(PRICE, form="dataframe", state="windowed")),
            ['processor "shop/price": state was not set and is "windowed"'],
        ),
        (
            shop_with(replace(BOTH, reads={}, alts=BOTH.reads)),
            [
                'processor "shop/both" now reads by turns "audited"',
                'processor "shop/both" now reads by turns "priced"',
                'processor "shop/both" no longer reads "audited"',
                'processor "shop/both" no longer reads "priced"',
            ],
        ),
        (
            shop_with(replace(PRICE, uid="shop/pricing")),
            ['processor "shop/price" is gone', 'processor "shop/pricing" is new'],
        ),
        (
            shop_with(PRICE, queues=(Queue("orders", kafka="orders", partitions=2),)),
            [
                'queue "orders": journal was "shop/orders" and is not set',
                'queue "orders": kafka was not set and is "orders"',
                'queue "orders": partitions was not set and is 2',
            ],
        ),
    ],
)
def test_what_changed_is_told_in_sentences(changed: Topology, sentences: list[str]) -> None:
    assert changed.fingerprint != SHOP.topology.fingerprint
    assert list(differences(SHOP.topology.canonical, changed.canonical)) == sentences


def test_a_changed_graph_is_refused_with_what_changed_and_what_to_do() -> None:
    changed = shop_with(replace(PRICE, many=True)).canonical
    check_unchanged("shop", SHOP.topology.canonical, SHOP.topology.canonical)
    with pytest.raises(TopologyChanged) as raised:
        check_unchanged("shop", SHOP.topology.canonical, changed)
    assert str(raised.value) == (
        'graph "shop" is not the one whose progress is stored:\n'
        '  processor "shop/price": many was not set and is true\n'
        'restore it, or run with "--accept-topology" to go on with the new one'
    )


@few
@given(outlines(), st.randoms())
def test_the_canonical_form_does_not_depend_on_the_order_of_declaration(
    outline: Outline, random: random.Random
) -> None:
    parts, queues = list(outline.processors), list(outline.queues)
    random.shuffle(parts)
    random.shuffle(queues)
    shuffled = [_shuffled(part, random) if isinstance(part, Processor) else part for part in parts]
    topology = Topology(outline)
    other = Topology(replace(outline, processors=shuffled, queues=queues))
    assert canonical_json(other.canonical) == canonical_json(topology.canonical)
    assert (other.order, other.sources, other.sinks) == (
        topology.order,
        topology.sources,
        topology.sinks,
    )


def _shuffled(processor: Processor, random: random.Random) -> Processor:
    reads = list(processor.reads.items())
    random.shuffle(reads)
    return replace(processor, reads=dict(reads))


@few
@given(outlines())
def test_every_processor_stands_after_all_that_lead_to_it(outline: Outline) -> None:
    topology = Topology(outline)
    assert sorted(topology.order) == sorted(part.id for part in outline.processors)
    place = {node: number for number, node in enumerate(topology.order)}
    for node in topology.order:
        assert all(place[upstream] < place[node] for upstream in topology.upstreams(node))


@few
@given(outlines(), outlines())
def test_forms_differ_exactly_when_their_fingerprints_do(one: Outline, other: Outline) -> None:
    before, after = Topology(one).canonical, Topology(other).canonical
    assert bool(differences(before, after)) == (fingerprint_of(before) != fingerprint_of(after))
    assert differences(before, json.loads(canonical_json(before))) == ()
