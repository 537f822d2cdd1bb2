"""What is wrong with a processor: its shape, its settings against each other, its promises?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from windrow.graph.kinds import Kind
from windrow.graph.outline import Outline
from windrow.graph.policies import EXACTLY_ONCE, OnError, Retry, Strategy
from windrow.graph.processors import Form, Processor, State

_ROLES = ("reads", "alts", "writes", "tailers", "appenders")


def processor_mistakes(outline: Outline, processor: Processor) -> Iterator[str]:
    """Every mistake in one processor, a sentence each that names it."""
    for mistake in _unnamed_mistakes(outline, processor):
        yield f'processor "{processor.id}" {mistake}'


def _unnamed_mistakes(outline: Outline, processor: Processor) -> Iterator[str]:
    yield from _shape_mistakes(processor)
    yield from _setting_mistakes(processor)
    yield from _form_mistakes(outline, processor)
    yield from _error_mistakes(outline, processor)
    yield from _place_mistakes(outline, processor)
    if len(processor.inputs) > 1:
        yield from _position_mistakes(outline, processor)
    if outline.strategy_of(processor) == EXACTLY_ONCE:
        yield from _exactly_once_mistakes(outline, processor)


def _shape_mistakes(processor: Processor) -> Iterator[str]:
    function: object = processor.function
    if not callable(function):
        yield f"has {function!r} for a function"
    if processor.reads and processor.alts:
        reads, alts = _quoted(processor.reads), _quoted(processor.alts)
        yield f"has reads ({reads}) and alts ({alts}); keep one"
    elif not processor.inputs:
        yield "reads nothing; give it reads or alts, or declare a Source"
    if len(processor.alts) == 1:
        yield f"has alts of one queue, {_quoted(processor.alts)}; name two or more, or use reads"
    for role in _ROLES:
        bound: Mapping[str, str] = getattr(processor, role)
        for queue in sorted({q for q in bound.values() if list(bound.values()).count(q) > 1}):
            yield f'has "{queue}" twice in {role}'
    if processor.kind is Kind.IMPERATIVE and len(processor.writes) > 1:
        yield f"writes {_quoted(processor.writes)}; beside tailers and appenders it may write one"


def _setting_mistakes(processor: Processor) -> Iterator[str]:
    choices: tuple[tuple[str, Any], ...] = (
        ("strategy", Strategy),
        ("on_error", OnError),
        ("form", Form),
        ("state", State),
    )
    for setting, literal in choices:
        value = getattr(processor, setting)
        if value is not None:
            yield from choice_mistakes(setting, value, literal)
    if not isinstance(processor.version, str) or not processor.version:
        yield f"has the version {processor.version!r}; it must be text, such as 2"
    if processor.retry is not None:
        yield from retry_mistakes(processor.retry)
        if processor.strategy == "at-most-once" and processor.retry.attempts != 1:
            yield "has strategy at-most-once and retry; what may happen at most once is tried once"


def choice_mistakes(setting: str, value: Any, literal: Any) -> Iterator[str]:
    """Whether a setting is one of the words there are for it."""
    if value not in get_args(literal):
        *others, last = get_args(literal)
        yield f'has {setting} "{value}"; use {", ".join(others)} or {last}'


def retry_mistakes(retry: Retry) -> Iterator[str]:
    """What is wrong with how often to try."""
    if retry.attempts is not None and retry.attempts < 1:
        yield f"has retry with attempts = {retry.attempts}; the first try counts, so 1 is the least"
    if not 0 <= retry.backoff <= retry.max_backoff < math.inf:
        yield (
            f"has retry with backoff = {retry.backoff:g} s and max_backoff ="
            f" {retry.max_backoff:g} s; the one must not exceed the other, nor be negative"
        )


def _form_mistakes(outline: Outline, processor: Processor) -> Iterator[str]:
    form = processor.form
    if processor.state is not None and form != "dataframe":
        yield f'has state "{processor.state}", which is for the form dataframe, not {form}'
    if form != "message":
        if processor.many:
            yield f"has many, which is for the form message; of the form {form} any may return more"
        if processor.filter.where is not None:
            yield f"has where, which is for the form message; of the form {form} filter inside"
        if processor.kind is Kind.IMPERATIVE:
            yield f"has tailers or appenders, which are for the form message, not {form}"
    if form != "dataframe":
        every = [*outline.read_by(processor), *outline.written_by(processor)]
        for queue in sorted({q for _, q in every if outline.queue(q).backend_name == "spark"}):
            yield f'uses "{queue}", which lives on spark; that takes the form dataframe, not {form}'


def _error_mistakes(outline: Outline, processor: Processor) -> Iterator[str]:
    if processor.errors and processor.on_error in ("stop", "drop"):
        yield (
            f'has the error queue "{processor.errors}" and on_error "{processor.on_error}";'
            " keep one"
        )
    policy = outline.errors_of(processor)
    if policy.on_error == "deadletter" and policy.queue is None and processor.on_error:
        yield 'has on_error "deadletter" and no error queue; name one with errors'
    if policy.queue and outline.queue(policy.queue).values != "json":
        values = outline.queue(policy.queue).values
        yield f'has the error queue "{policy.queue}" with values "{values}"; errors are json'
    if policy.queue in processor.writes.values():
        yield f'writes "{policy.queue}", which is also its error queue'


def _place_mistakes(outline: Outline, processor: Processor) -> Iterator[str]:
    """Whether the places of its queues can be read and written at all."""
    for queue in sorted({queue for _, queue in outline.read_by(processor)}):
        place = outline.queue(queue)
        if not place.backend.can_read:
            yield f'reads "{queue}", which lives on {place.backend_name} and can only be written'
    for queue in sorted(processor.tailers.values()):
        place = outline.queue(queue)
        if place.backend.has_one_reader:
            yield f'reads "{queue}" by hand, which lives on {place.backend_name}; use reads or alts'
    for queue in sorted({queue for _, queue in outline.written_by(processor)}):
        place = outline.queue(queue)
        if not place.backend.can_write:
            yield f'writes "{queue}", which lives on {place.backend_name} and can only be read'


def _position_mistakes(outline: Outline, processor: Processor) -> Iterator[str]:
    """Whether several inputs can be paired by position, or a choice among them be pinned."""
    inputs = sorted(processor.inputs.values())
    verb = f"joins {_quoted(inputs)} by position" if processor.reads else f"reads {_quoted(inputs)}"
    for queue in inputs:
        place = outline.queue(queue)
        if place.backend.can_read and not place.backend.has_positions:
            yield f'{verb}, and "{queue}" lives on {place.backend_name}, which has no positions'
    counts = {q: outline.queue(q).partitions for q in inputs}
    known = {queue: count for queue, count in counts.items() if count is not None}
    if processor.reads and len(set(known.values())) > 1:
        shown = ", ".join(f'"{queue}" has {count}' for queue, count in known.items())
        yield f"{verb}, and their partitions differ: {shown}"


def _exactly_once_mistakes(outline: Outline, processor: Processor) -> Iterator[str]:
    remedy = 'give it strategy "at-least-once"'
    if processor.kind in (Kind.SINK, Kind.IMPERATIVE):
        yield (
            f'has strategy "exactly-once", and what it does are effects; {remedy} and let the'
            " function keep ctx.delivery_hash with each effect"
        )
    for queue in sorted({queue for _, queue in outline.written_by(processor)}):
        place = outline.queue(queue)
        if place.backend.can_write and not place.backend.is_transactional:
            yield (
                f'writes "{queue}" exactly once, which {place.backend_name} cannot promise;'
                f" {remedy}"
            )
    if processor.state in ("windowed", "stateful") or len(processor.inputs) != 1:
        return
    for queue in processor.inputs.values():
        place = outline.queue(queue)
        if place.backend.can_read and not place.backend.has_positions:
            yield (
                f'reads "{queue}" exactly once, which {place.backend_name} has no positions for;'
                f" {remedy}"
            )


def _quoted(names: Any) -> str:
    found = names.values() if isinstance(names, Mapping) else names
    quoted = [f'"{name}"' for name in sorted(found)]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
