from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.graph.shapes import few, is_large, made, outlines
from windrow.graph import Graph, InvalidGraph, Part, Queue, Retry, Source
from windrow.graph.outline import Outline
from windrow.graph.validation import mistakes_in

A = Source("a")
PIPE = made("pipe", reads="a", writes="b")


def graph(*parts: Part, **settings: Any) -> tuple[str, ...]:
    return mistakes_in(Outline("shop", parts, **settings))


def one(**settings: Any) -> tuple[str, ...]:
    """What is wrong with a processor ``p`` that reads the source ``a``."""
    queues: Sequence[Queue] = settings.pop("queues", ())
    return graph(
        A, Source("a2"), made("all", reads=["a", "a2"]), made("p", **settings), queues=queues
    )


@pytest.mark.parametrize(
    ("mistakes", "sentence"),
    [
        (graph(A, PIPE, made("pipe", reads="b")), '"pipe" is declared twice'),
        (graph(A, A, PIPE), '"a" is declared twice'),
        (
            graph(A, made("enrich", reads=["a", "prices"])),
            'processor "enrich" reads "prices", which nothing writes',
        ),
        (graph(A, Source("b"), made("p", reads="b")), 'source "a" is read by nothing'),
        (
            graph(A, PIPE, queues=[Queue("c")]),
            'queue "c" is declared, and nothing reads or writes it',
        ),
        (graph(A, PIPE, queues=[Queue("b"), Queue("b")]), 'queue "b" is declared twice'),
        (graph(A), "it has no processors"),
        (graph(A, PIPE, source="b"), 'messages are sent to "b", which is no source'),
        (
            graph(A, PIPE, strategy="twice"),
            'has strategy "twice"; use exactly-once, at-least-once or',
        ),
        (graph(A, PIPE, on_error="deadletter"), 'has on_error "deadletter" and no error queue'),
        (
            graph(A, PIPE, on_error="drop", errors="e"),
            'has the error queue "e" and on_error "drop"; keep one',
        ),
        (graph(A, PIPE, retry=Retry(0)), "has retry with attempts = 0"),
        (
            graph(A, PIPE, made("two", reads="a"), queues=[Queue("a", outbox="outbox")]),
            'queue "a" lives on outbox, where each message is read once, and is read by "pipe" and'
            ' "two"; let one copy it to a queue for all',
        ),
        (graph(A, PIPE, queue_meta=("x",)), 'queue_meta has "x"; use any of t, time and tx'),
        (graph(A, PIPE, queue_meta=("strip", "t")), "queue_meta has strip beside others"),
    ],
)
def test_a_wrong_graph_is_told_in_a_sentence(mistakes: tuple[str, ...], sentence: str) -> None:
    assert [mistake for mistake in mistakes if mistake.startswith(sentence)], mistakes


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"reads": "a", "alts": ["a", "a2"]}, 'has reads ("a") and alts ("a" and "a2"); keep one'),
        ({"alts": "a"}, 'has alts of one queue, "a"; name two or more, or use reads'),
        ({"writes": "b"}, "reads nothing; give it reads or alts, or declare a Source"),
        ({"reads": {"x": "a", "y": "a"}}, 'has "a" twice in reads'),
        ({"reads": "a", "strategy": "once"}, 'has strategy "once"; use exactly-once'),
        (
            {"reads": "a", "on_error": "ignore"},
            'has on_error "ignore"; use stop, drop or deadletter',
        ),
        ({"reads": "a", "form": "pandas"}, 'has form "pandas"; use message, arrow or dataframe'),
        (
            {"reads": "a", "state": "windowed"},
            'has state "windowed", which is for the form dataframe, not message',
        ),
        ({"reads": "a", "form": "arrow", "many": True}, "has many, which is for the form message"),
        (
            {"reads": "a", "form": "arrow", "where": is_large},
            "has where, which is for the form message",
        ),
        (
            {"reads": "a", "form": "arrow", "tailers": "a2"},
            "has tailers or appenders, which are for",
        ),
        ({"reads": "a", "uid": "old"}, 'has the uid "old"; it must be written as graph/processor'),
        ({"reads": "a", "version": ""}, "has the version ''; it must be text"),
        (
            {"reads": "a", "errors": "e", "on_error": "stop"},
            'has the error queue "e" and on_error "stop"',
        ),
        ({"reads": "a", "on_error": "deadletter"}, 'has on_error "deadletter" and no error queue'),
        ({"reads": "a", "writes": "e", "errors": "e"}, 'writes "e", which is also its error queue'),
        (
            {"reads": "a", "strategy": "at-most-once", "retry": Retry(3)},
            "has strategy at-most-once and retry",
        ),
        (
            {"reads": "a", "retry": Retry(3, 5, 1)},
            "has retry with backoff = 5 s and max_backoff = 1 s",
        ),
        (
            {"reads": "a", "appenders": "b", "writes": ["c", "d"]},
            'writes "c" and "d"; beside tailers',
        ),
        (
            {"reads": "a", "strategy": "exactly-once"},
            'has strategy "exactly-once", and what it does are',
        ),
        (
            {"reads": "a", "appenders": "b", "strategy": "exactly-once"},
            'has strategy "exactly-once", and what it does are effects',
        ),
        (
            {"reads": "a", "writes": "h", "queues": [Queue("h", http="http://x/y")]},
            'writes "h" exactly once, which http cannot promise; give it strategy "at-least-once"',
        ),
        (
            {"reads": "a", "writes": "b", "errors": "h", "queues": [Queue("h", http="http://x/y")]},
            'writes "h" exactly once, which http cannot promise',
        ),
        (
            {
                "reads": "a",
                "writes": "s",
                "form": "dataframe",
                "queues": [Queue("s", spark="delta")],
            },
            'writes "s" exactly once, which spark cannot promise',
        ),
        (
            {
                "reads": "a",
                "writes": "b",
                "form": "dataframe",
                "queues": [Queue("a", spark="rate")],
            },
            'reads "a" exactly once, which spark has no positions for',
        ),
        (
            {"reads": "a", "queues": [Queue("a", spark="rate")]},
            'uses "a", which lives on spark; that takes the form dataframe, not message',
        ),
        (
            {"reads": ["a", "a2"], "form": "dataframe", "queues": [Queue("a", spark="rate")]},
            'joins "a" and "a2" by position, and "a" lives on spark, which has no positions',
        ),
        (
            {
                "reads": ["a", "a2"],
                "queues": [Queue("a", kafka="x", partitions=2), Queue("a2", partitions=3)],
            },
            'joins "a" and "a2" by position, and their partitions differ: "a" has 2, "a2" has 3',
        ),
        (
            {"reads": "a", "writes": "a2", "queues": [Queue("a2", outbox="o")]},
            'writes "a2", which lives on outbox and can only be read',
        ),
        (
            {"reads": "a", "tailers": "a2", "queues": [Queue("a2", outbox="o")]},
            'reads "a2" by hand, which lives on outbox; use reads or alts',
        ),
        (
            {"reads": "a", "errors": "e", "queues": [Queue("e", values="text")]},
            'has the error queue "e" with values "text"; errors are json',
        ),
        (
            {"reads": "a2", "queues": [Queue("a2", postgres="t")]},
            'reads "a2", which lives on postgres and can only be written',
        ),
    ],
)
def test_a_wrong_processor_is_told_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    mistakes = one(**settings)
    assert [m for m in mistakes if m.startswith(f'processor "p" {sentence}')], mistakes


@pytest.mark.parametrize(
    ("queue", "sentence"),
    [
        (
            Queue("b", journal="x/yz", kafka="x"),
            'queue "b" lives on journal and kafka at once; keep one',
        ),
        (
            Queue("b", journal="no good"),
            'queue "b" lives on journal "no good", which is no name for one',
        ),
        (Queue("b", kafka="no good"), 'queue "b" lives on kafka "no good"; a topic is'),
        (Queue("b", postgres="a.b.c"), 'queue "b" lives on postgres "a.b.c"; a table is'),
        (Queue("b", http="ftp://x"), 'queue "b" lives on http "ftp://x"; a URL begins with'),
        (Queue("b", partitions=0), 'queue "b" has 0 partitions'),
        (
            Queue("b", postgres="t", partitions=2),
            'queue "b" lives on postgres, which has no partitions',
        ),
        (Queue("b", values="xml"), 'queue "b" has values "xml"; use json, text or bytes'),  # type: ignore[arg-type]
        (Queue("b", meta=("q",)), 'queue "b": meta has "q"; use any of t, time and tx'),  # type: ignore[arg-type]
        (Queue("b", journal="shop/a"), 'queues "a" and "b" are both journal "shop/a"'),
    ],
)
def test_a_wrong_queue_is_told_in_a_sentence(queue: Queue, sentence: str) -> None:
    mistakes = graph(
        A, made("pipe", reads="a", writes="b", strategy="at-least-once"), queues=[queue]
    )
    assert [mistake for mistake in mistakes if mistake.startswith(sentence)], mistakes


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    hook = Queue("b", http="https://me:hunter2@example.org/hook")
    (mistake,) = graph(
        A, made("post", reads="a", writes="b", strategy="at-least-once"), queues=[hook]
    )
    assert mistake == (
        'queue "b" lives on http "https://…@example.org/hook"; a URL begins with http:// or'
        " https:// and holds no password"
    )


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/", "/a", "a//b", "ä", "a" * 201])
def test_what_is_no_name_for_a_queue_is_refused(name: str) -> None:
    assert any("is no name for a queue" in m for m in graph(A, made("p", reads="a", writes=name)))


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "ä", "a" * 101])
def test_what_is_no_name_for_a_processor_or_a_graph_is_refused(name: str) -> None:
    assert any("is no name for a processor" in m for m in graph(A, made(name or " ", reads="a")))
    assert any("is no name for a graph" in m for m in mistakes_in(Outline(name, [A, PIPE])))


def test_two_processors_of_one_uid_on_a_table_are_refused_and_two_of_their_own_are_not() -> None:
    """Each would take the other's high-water mark for its own, and drop what it never wrote."""
    table = [Queue("t", postgres="totals")]
    one, other = (made(n, reads="a", writes="t", uid="old/one") for n in ("one", "other"))
    assert graph(A, one, other, queues=table) == (
        'processors "one" and "other" have the uid "old/one" and both write the table "totals"'
        " exactly once; give each its own",
    )
    one, other = (made(n, reads="a", writes="t") for n in ("one", "other"))
    assert graph(A, one, other, queues=table) == ()


def test_a_uid_may_not_be_anothers_default() -> None:
    thief = made("thief", reads="a", writes="c", uid="shop/pipe")
    assert graph(A, PIPE, thief) == (
        'processors "pipe" and "thief" have the uid "shop/pipe"; give each its own',
    )


def test_a_cycle_is_named_along_its_way() -> None:
    back = made("back", reads="b", writes="c")
    on = made("on", reads="c", writes="a")
    assert graph(A, PIPE, back, on) == (
        'there is a cycle: pipe → "b" → back → "c" → on → "a" → pipe',
    )


def test_a_reader_of_the_error_queue_needs_a_policy_of_its_own() -> None:
    """Its own errors would come back to it for ever."""
    fix = made("fix", reads="failed")
    assert graph(A, PIPE, fix, errors="failed") == (
        'there is a cycle: fix → "failed" → fix; errors close it: give "fix" an error queue of its'
        ' own, or on_error "stop"',
    )
    assert graph(A, PIPE, made("fix", reads="failed", on_error="stop"), errors="failed") == ()


def test_effects_over_http_and_from_any_format_are_fine_at_least_once() -> None:
    sound = one(
        reads="a2",
        writes="h",
        form="dataframe",
        strategy="at-least-once",
        queues=[Queue("h", http="https://example.org/hook")],
    )
    assert sound == ()


def test_a_stateful_processor_may_read_any_format_exactly_once() -> None:
    """It is known by its key and snapshot, not by the positions of what it read."""
    rates = [Queue("a", spark="rate")]
    sums = made("p", reads="a", writes="b", form="dataframe", state="stateful")
    assert graph(A, sums, queues=rates) == ()


@few
@given(outlines())
def test_a_sound_graph_is_never_refused(outline: Outline) -> None:
    assert mistakes_in(outline) == ()


@few
@given(outlines(), st.data())
def test_a_planted_cycle_is_always_refused(outline: Outline, data: st.DataObject) -> None:
    first = data.draw(st.sampled_from(outline.working))
    fed = data.draw(st.sampled_from(sorted(first.inputs.values())))
    reachable = [q for p in outline.working for _, q in outline.written_by(p)] or [fed]
    downstream = _downstream(outline, first.id) or {fed}
    end = data.draw(st.sampled_from(sorted(downstream & set(reachable)) or [fed]))
    planted = made("planted", reads=end, writes=fed, on_error="stop")
    broken = Outline(outline.id, [*outline.processors, planted], errors=outline.errors)
    assert any("there is a cycle: " in m and "planted" in m for m in mistakes_in(broken))


def _downstream(outline: Outline, start: str) -> set[str]:
    found: set[str] = set()
    names = {start}
    while True:
        queues = {q for p in outline.working if p.id in names for _, q in outline.written_by(p)}
        if queues <= found:
            return found
        found |= queues
        names |= {p.id for p in outline.working if {q for _, q in outline.read_by(p)} & found}


@few
@given(outlines(), st.sampled_from(["reads", "alts", "tailers"]))
def test_a_planted_dangling_queue_is_always_refused(outline: Outline, role: str) -> None:
    fed = outline.sources[0].id
    bound = {"tailers": {"reads": fed, "tailers": "nowhere"}}.get(role, {role: [fed, "nowhere"]})
    planted = made("planted", **bound)
    with pytest.raises(InvalidGraph, match='processor "planted" reads "nowhere", which nothing'):
        Graph(outline.id, [planted, *outline.processors], errors=outline.errors)


@few
@given(outlines(), st.randoms())
def test_the_mistakes_of_a_graph_do_not_depend_on_the_order_of_its_parts(
    outline: Outline, random: Any
) -> None:
    broken = [*outline.processors, made("lost", reads=["nowhere", "gone"]), made("x y", reads="no")]
    told = mistakes_in(Outline(outline.id, broken))
    random.shuffle(broken)
    assert set(mistakes_in(Outline(outline.id, broken))) == set(told)
