"""Functions of the form ``arrow``: a whole batch of each input in, a batch of messages out.

A function gets its inputs by name, each in the columns of a source and with ``_hash``, the delivery
hash of each row; row n of one pairs with row n of the others. It returns a batch for its output, or
one for each of its outputs by name, with the column ``value`` and any of ``key``, ``headers`` and
``topic``. Rows that it leaves out have no output; to leave out, repeat or reorder some it keeps the
position columns, otherwise row n of the output is made from row n of the input.

A batch that fails is cut in two until the rows are found that fail by themselves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from windrow.errors import Unreachable
from windrow.extras import require
from windrow.graph.context import Context
from windrow.graph.delivery_steps import RunBatch
from windrow.graph.messages import Message
from windrow.graph.planning import Split
from windrow.graph.positions import Position, numbered
from windrow.graph.staging import Outputs
from windrow.points import pass_by
from windrow.spark.chunks import ChunkFacts, headers_of, packed
from windrow.spark.columns import HASH, INDEX, SOURCE, chunk_schema
from windrow.spark.query.encoding import Encoded, Raw, raw_rows, type_of, undecoded
from windrow.spark.query.errors import InvalidColumns, PairMissing, PoisonMessage, PositionsLost
from windrow.spark.query.function import NOTHING, Caller, Result, check_size, place_text
from windrow.spark.query.hashing import SplitHasher
from windrow.spark.query.leg_plan import LegPlan
from windrow.spark.query.opened import Stores
from windrow.spark.query.reading import new_rows, new_stage, part_of, route_of, time_of

if TYPE_CHECKING:
    import pyarrow as pa

Batches = Mapping[str, "pa.RecordBatch"]
"""Of each input, by queue; all of the same length."""


def run_arrow(
    plan: LegPlan, split: Split, run: RunBatch, stores: Stores
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, ready to be delivered."""
    runner = ArrowRun(plan, split, run)
    for begin, batches in _chunks(plan, split, stores):
        yield from runner.run(begin, batches)
        if begin == 0:
            pass_by("graph.run-during")


def _chunks(plan: LegPlan, split: Split, stores: Stores) -> Iterator[tuple[int, Batches]]:
    """The inputs, cut at the same rows; the number of the first row of each cut."""
    if len(split.spans) == 1:
        yield from _single_chunks(plan, split, stores)
        return
    arrow = require("pyarrow")
    tables = {}
    for span in split.spans:
        batches = list(stores.reader(plan.sources[span.source]).read(span))
        table = arrow.Table.from_batches(batches).combine_chunks()
        if table.num_rows != len(span):
            raise PairMissing(span.source, span.start + table.num_rows, None)
        tables[span.source] = table
    size = plan.settings.arrow_rows
    for begin in range(0, len(split), size):
        cut = {queue: table.slice(begin, size) for queue, table in tables.items()}
        yield begin, {queue: table.to_batches()[0] for queue, table in cut.items()}


def _single_chunks(plan: LegPlan, split: Split, stores: Stores) -> Iterator[tuple[int, Batches]]:
    span = split.spans[0]
    size = plan.settings.arrow_rows
    for batch in stores.reader(plan.sources[span.source]).read(span):
        for begin in range(0, batch.num_rows, size):
            cut = batch.slice(begin, size)
            yield cut.column(INDEX)[0].as_py() - span.start, {span.source: cut}


class ArrowRun:
    """Runs the function on the chunks of one split."""

    def __init__(self, plan: LegPlan, split: Split, run: RunBatch) -> None:
        self._plan, self._split, self._snapshot_run = plan, split, run
        self._hasher = SplitHasher(plan.uid, split)
        self._caller = Caller(plan, run.snapshot, run.attempt)
        self._names = {queue: name for name, queue in plan.processor.inputs.items()}
        self._poisoned = frozenset(run.poisoned)
        self._route = route_of(run)
        self._starts = {span.source: span.start for span in split.spans}
        self._facts = ChunkFacts.of(split, time_of(run))

    def run(self, begin: int, batches: Batches) -> Iterator[pa.RecordBatch]:
        """The rows made from one chunk."""
        first = next(iter(batches.values()))
        numbers = self._numbers(batches)
        hashes = self._hashes(numbers)
        queue = self._quick_queue()
        if queue is not None and not self._poisoned:
            quick = self._run_quickly(batches, hashes, queue)
            if quick is not None:
                yield quick
                return
        keys = first.column("key").to_pylist()
        yield from self._rows(numbers, keys, self.results(batches))

    def results(self, batches: Batches) -> dict[int, Result]:
        """What became of each input, by its number in the split; of one left out, nothing."""
        results: dict[int, Result] = {}
        self._collect(batches, self._numbers(batches), results)
        return results

    # -- without a look at each row --------------------------------------------------------------

    def _quick_queue(self) -> str | None:
        """The queue, if results go straight to the one partition of one queue."""
        plan = self._plan
        direct = not plan.leg.is_stage and plan.leg.destination is not None
        single = self._snapshot_run.snapshot.routing.targets == 1
        plain = plan.processor.filter.passes_all and len(self._split.spans) == 1
        if not (direct and single and plain) or plan.leg.destination is None:
            return None
        queue = plan.leg.destination.queue
        return queue if plan.form(queue).max_bytes is None else None

    def _run_quickly(self, batches: Batches, hashes: pa.Array, queue: str) -> pa.RecordBatch | None:
        """All rows at once, if every input gave one output in its place and nothing failed."""
        try:
            returned = self._call(batches, hashes)
        except Unreachable:
            raise
        except Exception:
            return None  # whose fault it was is found row by row
        outputs = self._by_queue(returned)
        source = next(iter(batches.values()))
        output = outputs.get(queue)
        if output is None or output.num_rows != source.num_rows:
            return None
        if INDEX in output.schema.names and output.column(INDEX) != source.column(INDEX):
            return None
        return self._delivery(hashes, source, output)

    def _delivery(self, hashes: pa.Array, source: pa.RecordBatch, output: pa.RecordBatch) -> Any:
        arrow = require("pyarrow")
        begin = next(iter(self._starts.values()))
        nths = require("pyarrow.compute").subtract(source.column(INDEX), begin)
        ordinals = arrow.repeat(arrow.scalar(0, arrow.int32()), source.num_rows)
        content = [self._column(output, name) for name in ("key", "value", "headers", "topic")]
        rows = arrow.RecordBatch.from_arrays(
            [nths, ordinals, hashes, *content], schema=chunk_schema()
        )
        return packed(0, self._facts, rows)

    def _column(self, output: pa.RecordBatch, name: str) -> Any:
        arrow = require("pyarrow")
        kind = chunk_schema().field(name).type
        if name not in output.schema.names:
            if name == "value":
                raise InvalidColumns(self._plan.processor.id, 'there is no column "value"')
            return arrow.nulls(output.num_rows, kind)
        column = output.column(name)
        try:
            return column if column.type == kind else column.cast(kind)
        except arrow.ArrowInvalid as error:
            raise InvalidColumns(self._plan.processor.id, f'"{name}": {error}') from error
        except arrow.ArrowNotImplementedError as error:
            raise InvalidColumns(self._plan.processor.id, f'"{name}": {error}') from error

    # -- row by row ------------------------------------------------------------------------------

    def _collect(self, batches: Batches, numbers: list[int], results: dict[int, Result]) -> None:
        """What became of each input, by its number; halves are run by themselves if both fail."""
        wanted = self._wanted(batches, numbers, results)
        if not wanted:
            return
        chosen = _chosen(batches, wanted)
        own = [numbers[place] for place in wanted]
        try:
            outputs = self._by_queue(self._call(chosen, self._hashes(own)))
            found = self._by_number(outputs, own)
        except Unreachable:
            raise
        except Exception as error:
            if len(own) == 1:
                results[own[0]] = self._failure(error, chosen, own[0])
                return
            half = len(own) // 2
            for begin, length in ((0, half), (half, len(own) - half)):
                part = {queue: batch.slice(begin, length) for queue, batch in chosen.items()}
                self._collect(part, own[begin : begin + length], results)
            return
        for number in own:
            results[number] = Outputs(found.get(number, {}))

    def _wanted(
        self, batches: Batches, numbers: list[int], results: dict[int, Result]
    ) -> list[int]:
        """The places of the rows that the function gets: neither poison nor filtered out."""
        wanted = []
        chosen = self._plan.processor.filter
        types = [
            list(zip(headers_of(b.column("headers")), b.column("topic").to_pylist(), strict=True))
            for b in batches.values()
        ]
        for place, number in enumerate(numbers):
            if number in results:
                continue
            positions = self._positions(number)
            if self._poisoned and not self._poisoned.isdisjoint(positions):
                poison = PoisonMessage(place_text(positions))
                results[number] = self._failure(poison, _chosen(batches, [place]), number)
            elif chosen.passes_all or any(
                chosen.passes(Message(None, topic=topic, type=type_of(headers)))
                for headers, topic in (rows[place] for rows in types)
            ):
                wanted.append(place)
        return wanted

    def _rows(
        self, numbers: list[int], keys: list[bytes | None], results: dict[int, Result]
    ) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        if plan.leg.is_stage:
            yield from self._staged(numbers, keys, results)
            return
        rows = new_rows(plan, self._split, self._snapshot_run)
        destination = plan.leg.destination
        assert destination is not None
        for number, key in zip(numbers, keys, strict=True):
            positions = self._positions(number)
            part = part_of(results.get(number, NOTHING), destination)
            if not part:
                rows.add_nil(self._route(key, positions[0]), number)
            for ordinal, body in enumerate(part):
                at = numbered(positions, ordinal)
                digest = self._hasher.hash(number, ordinal)
                rows.add(self._route(body.key, at[0]), number, ordinal, digest, body)
        yield from rows.finish()

    def _staged(
        self, numbers: list[int], keys: list[bytes | None], results: dict[int, Result]
    ) -> Iterator[pa.RecordBatch]:
        rows = new_stage(self._plan, self._split, self._snapshot_run)
        for number, key in zip(numbers, keys, strict=True):
            target = self._route(key, self._positions(number)[0])
            digest = self._hasher.hash(number)
            rows.add(target, number, digest, key, results.get(number, NOTHING))
        yield from rows.finish()

    def _by_number(
        self, outputs: Mapping[str, pa.RecordBatch], own: list[int]
    ) -> dict[int, dict[str, list[Encoded]]]:
        """The messages that were made from each input."""
        found: dict[int, dict[str, list[Encoded]]] = defaultdict(dict)
        for queue, output in outputs.items():
            form = self._plan.form(queue)
            columns = (
                self._column(output, "value").to_pylist(),
                self._column(output, "key").to_pylist(),
                headers_of(self._column(output, "headers")),
                self._column(output, "topic").to_pylist(),
            )
            made_from = self._made_from(output, own)
            for number, body in zip(made_from, map(Encoded, *columns), strict=True):
                check_size(body, queue, form)
                found[number].setdefault(queue, []).append(body)
        return found

    def _made_from(self, output: pa.RecordBatch, own: list[int]) -> list[int]:
        names = output.schema.names
        if INDEX not in names or SOURCE not in names:
            if output.num_rows != len(own):
                raise PositionsLost(
                    self._plan.processor.id, f"{output.num_rows} rows for {len(own)} inputs"
                )
            return own
        pairs = zip(
            output.column(SOURCE).to_pylist(), output.column(INDEX).to_pylist(), strict=True
        )
        known = set(own)
        numbers = [index - self._starts.get(source, index + 1) for source, index in pairs]
        strange = Counter(number for number in numbers if number not in known)
        if strange:
            raise PositionsLost(
                self._plan.processor.id, f"{strange.total()} rows made from none of its inputs"
            )
        return numbers

    # -- the call --------------------------------------------------------------------------------

    def _call(self, batches: Batches, hashes: pa.Array) -> Any:
        given = {
            self._names[queue]: batch.append_column(HASH, hashes)
            for queue, batch in batches.items()
        }
        return self._plan.processor.function(given, self._context(batches))

    def _context(self, batches: Batches) -> Context:
        number = self._numbers(batches)[0]
        return self._caller.context(self._positions(number), self._hasher.hash(number))

    def _hashes(self, numbers: list[int]) -> pa.Array:
        arrow = require("pyarrow")
        return arrow.array(list(map(self._hasher.hash, numbers)), arrow.string())

    def _by_queue(self, returned: Any) -> dict[str, pa.RecordBatch]:
        arrow = require("pyarrow")
        writes = self._plan.processor.writes
        if returned is None:
            return {}
        if not isinstance(returned, Mapping):
            if len(writes) != 1:
                raise InvalidColumns(
                    self._plan.processor.id, "it writes several queues; return a batch for each"
                )
            returned = {next(iter(writes)): returned}
        outputs = {}
        for name, batch in returned.items():
            if name not in writes:
                raise InvalidColumns(self._plan.processor.id, f"it does not write {name!r}")
            if isinstance(batch, arrow.Table):
                batch = batch.combine_chunks().to_batches()[0] if batch.num_rows else None
            if batch is not None:
                outputs[writes[name]] = batch
        return outputs

    def _failure(self, error: Exception, batches: Batches, number: int) -> Result:
        raws: dict[str, Raw] = {queue: next(raw_rows(b)) for queue, b in batches.items()}
        inputs = {queue: undecoded(raw) for queue, raw in raws.items()}
        return self._caller.failure(error, self._positions(number), inputs)

    def _positions(self, number: int) -> tuple[Position, ...]:
        return self._split.positions(number)

    def _numbers(self, batches: Batches) -> list[int]:
        queue, batch = next(iter(batches.items()))
        begin = self._starts[queue]
        return [index - begin for index in batch.column(INDEX).to_pylist()]


def _chosen(batches: Batches, places: list[int]) -> Batches:
    arrow = require("pyarrow")
    if all(len(places) == batch.num_rows for batch in batches.values()):
        return batches
    chosen = arrow.array(places, arrow.int64())
    return {queue: batch.take(chosen) for queue, batch in batches.items()}
