"""What becomes of one input: decode, filter, call the function, encode what it gave, or its error.

Whatever goes wrong with one input ends with that input: it becomes a failure of its own, by the
policy of its processor, and the others go on. Two things are no failure of an input. A service
that cannot be reached (``Unreachable``) would fail them all, so the batch is interrupted and tried
again; and what is no ``Exception`` is not caught.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from windrow.errors import Unreachable
from windrow.graph.context import NOTHING_GIVEN, Context
from windrow.graph.failures import cause_of
from windrow.graph.messages import Message, error_message
from windrow.graph.positions import Position
from windrow.graph.returns import outputs_of, with_provenance
from windrow.graph.snapshot import Snapshot
from windrow.graph.staging import Failure, Outputs
from windrow.spark.query.encoding import Encoded, Raw, encode, message_of, undecoded
from windrow.spark.query.errors import MessageTooLarge, PoisonMessage, StepFailed
from windrow.spark.query.leg_plan import LegPlan, QueueForm

Note = Callable[[Position], None]
"""Writes down which message is about to be run, where a message is suspected."""

Result = Outputs | Failure
"""Messages are ``Encoded`` in both."""

NOTHING: Final = Outputs()


class Caller:
    """Calls the function of one attempt at one snapshot.

    Args:
        plan: What the function is, and what was declared of it.
        snapshot: What is delivered.
        attempt: The first is 1.
        poisoned: Messages that count as failed without a call.
        note: Called before the function is.
        extend: Makes of a context what an imperative function gets.
    """

    def __init__(
        self,
        plan: LegPlan,
        snapshot: Snapshot,
        attempt: int,
        poisoned: Sequence[Position] = (),
        note: Note | None = None,
        extend: Callable[[Context], Context] | None = None,
    ) -> None:
        self.plan = plan
        self.dropped = 0
        self._processor = plan.processor
        self._function = plan.processor.function
        self._filter = None if plan.processor.filter.passes_all else plan.processor.filter
        self._names = {queue: name for name, queue in plan.processor.inputs.items()}
        self._writes = plan.processor.writes
        self._inherits_meta = plan.inherits_meta
        writes = tuple(plan.processor.writes.values())
        self._only_output = writes[0] if len(writes) == 1 else None
        self._forms = {queue: plan.form(queue) for queue in (*self._names, *writes)}
        self._batch_time = snapshot.batch_time
        self._told = {
            "uid": snapshot.uid.base,
            "attempt": attempt,
            "batch_time": snapshot.batch_time,
            "system": plan.system or NOTHING_GIVEN,
            "options": plan.processor.options or NOTHING_GIVEN,
        }
        self._poisoned = frozenset(poisoned)
        self._note = note
        self._extend = extend

    def call(
        self, positions: tuple[Position, ...], delivery_hash: str, raws: Mapping[str, Raw]
    ) -> Result:
        """What becomes of an input: of a join, of one from each queue.

        Args:
            positions: Where it stands, sorted by source.
            delivery_hash: Made of these positions.
            raws: What was read, by queue.

        Raises:
            StepFailed: The function failed, and the policy is to stop.
            Unreachable: The function needs something that is not there now.
        """
        messages: dict[str, Message] = {}
        try:
            for queue, raw in raws.items():
                messages[queue] = message_of(raw, queue, self._forms[queue])
            if self._poisoned and not self._poisoned.isdisjoint(positions):
                raise PoisonMessage(place_text(positions))
            return self._call(positions, delivery_hash, messages)
        except Unreachable:
            raise
        except Exception as error:
            return self._failed(error, positions, raws, messages)

    def _call(
        self,
        positions: tuple[Position, ...],
        delivery_hash: str,
        messages: Mapping[str, Message],
    ) -> Outputs:
        names = self._names
        given = {names[queue]: message for queue, message in messages.items()}
        if self._filter is not None:
            given = self._filter.select(given)
            if not given:
                return NOTHING
        if self._note is not None:
            self._note(positions[0])
        context = self.context(positions, delivery_hash)
        if self._extend is not None:
            context = self._extend(context)
        returned = self._function(given, context)
        if returned is None:
            return NOTHING
        outputs = self._sorted_by_queue(returned)
        if self._inherits_meta:
            for message in messages.values():
                if message.meta:
                    outputs = with_provenance(outputs, messages)
                    break
        return Outputs({queue: self._encoded(listed, queue) for queue, listed in outputs.items()})

    def _sorted_by_queue(self, returned: Any) -> dict[str, tuple[Message, ...]]:
        """``outputs_of``; what most functions return is sorted without its questions."""
        if self._only_output is not None and type(returned) is Message:
            return {self._only_output: (returned,)}
        if type(returned) is dict:
            found: dict[str, tuple[Message, ...]] = {}
            for name, message in returned.items():
                if type(message) is not Message or name not in self._writes:
                    break
                found[self._writes[name]] = (message,)
            else:
                return found
        return outputs_of(self._processor, returned)

    def _encoded(self, listed: Sequence[Message], queue: str) -> list[Encoded]:
        form = self._forms[queue]
        encoded = [encode(message, queue, form, self._batch_time) for message in listed]
        if form.max_bytes is not None:
            for each in encoded:
                check_size(each, queue, form)
        return encoded

    def context(self, positions: tuple[Position, ...], delivery_hash: str) -> Context:
        """What a function is told of one delivery; what all calls share is made once."""
        context = object.__new__(Context)
        # A frozen dataclass is filled field by field, which takes longer than many a function.
        context.__dict__.update(self._told, positions=positions, delivery_hash=delivery_hash)
        return context

    def _failed(
        self,
        error: Exception,
        positions: tuple[Position, ...],
        raws: Mapping[str, Raw],
        messages: Mapping[str, Message],
    ) -> Result:
        inputs = {queue: messages.get(queue) or undecoded(raw) for queue, raw in raws.items()}
        return self.failure(error, positions, inputs)

    def failure(
        self, error: Exception, positions: tuple[Position, ...], inputs: Mapping[str, Message]
    ) -> Result:
        """What becomes of an input that failed, by the policy of its processor."""
        plan = self.plan
        if plan.on_error == "stop":
            cause = f"{type(error).__name__}: {error}"
            raise StepFailed(self._processor.id, place_text(positions), cause) from error
        if plan.on_error == "drop":
            self.dropped += 1
            return NOTHING
        queue = str(plan.description.get("errors", ""))
        told = error_message(self._processor.id, plan.description, inputs, cause_of(error))
        return Failure(encode(told, queue, plan.form(queue), self._batch_time))


def check_size(encoded: Encoded, queue: str, form: QueueForm) -> None:
    """See that a queue takes a message; once it is staged it could not become an error any more.

    Raises:
        MessageTooLarge: It does not.
    """
    if form.max_bytes is not None and encoded.size > form.max_bytes:
        raise MessageTooLarge(queue, encoded.size, form.max_bytes)


def place_text(positions: Sequence[Position]) -> str:
    """Where an input stands, for people."""
    return " and ".join(
        f'"{at.source}" partition {at.partition} index {at.index}' for at in positions
    )
