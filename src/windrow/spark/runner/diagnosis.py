"""What keeps a leg from starting, and what would mend it? Pure.

Recovery itself is asked, with what is written; whatever it refuses is a finding. A remedy is worked
out for it if an operator gave the permission that the refusal names, and then recovery is asked
again, as if the remedy had been applied: one leg may need several.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from windrow.graph.backing import BackingState, Rewound
from windrow.graph.delivery_errors import (
    IncarnationChanged,
    Refused,
    SinkBehind,
    SinkLost,
    SourceTrimmed,
    StateLost,
)
from windrow.graph.positions import SourceOffsets
from windrow.graph.recovery import Situation, recover
from windrow.spark.runner.checkpoint import SparkCheckpoint, companions
from windrow.spark.runner.facts import LegFacts

_MOST_REMEDIES = 1000


@dataclass(frozen=True, slots=True)
class Permissions:
    """What an operator allows; each is named by the refusal that it answers.

    Attributes:
        incarnations: Sources that were made again and are to be read from their beginning.
        skips: Source partitions whose lost messages are given up.
        sink_lost: Deliver everything again to a sink that knows nothing.
        rewind: Deliver again what a sink lost that was set back.
        state_loss: Begin with empty state.
    """

    incarnations: frozenset[str] = frozenset()
    skips: frozenset[tuple[str, int]] = frozenset()
    sink_lost: bool = False
    rewind: bool = False
    state_loss: bool = False


NOTHING_ALLOWED = Permissions()


@dataclass(frozen=True, slots=True)
class RemoveFiles:
    """Remove files of the checkpoint that were cut short; the batch is planned or run again."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropCheckpoint:
    """Remove the whole checkpoint; the next start makes a new one."""

    path: str


@dataclass(frozen=True, slots=True)
class AppendRewound:
    """Set elsewhere where reading goes on."""

    record: Rewound


Remedy = RemoveFiles | DropCheckpoint | AppendRewound


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a leg, and what is done about it.

    Attributes:
        leg: Which.
        text: What is wrong.
        action: What will be done, in words; empty if nothing has to be.
        remedy: What will be done.
        needs: The flag that would allow it, if it was not given.
        is_blocking: Whether the leg cannot start as it is.
    """

    leg: str
    text: str
    action: str = ""
    remedy: Remedy | None = None
    needs: str = ""
    is_blocking: bool = True


@dataclass(frozen=True, slots=True)
class Patient:
    """All there is to know about a leg."""

    situation: Situation
    facts: LegFacts
    checkpoint: SparkCheckpoint | None = None
    permissions: Permissions = field(default=NOTHING_ALLOWED)

    @property
    def name(self) -> str:
        """The leg."""
        return str(self.situation.uid)


def diagnose(patient: Patient) -> list[Finding]:
    """Everything that is wrong with a leg, in the order in which it is mended."""
    return [*_torn(patient), *_refusals(patient), *_remarks(patient)]


def _torn(patient: Patient) -> list[Finding]:
    checkpoint = patient.checkpoint
    if checkpoint is None or not checkpoint.torn:
        return []
    paths = [error.path for error in checkpoint.torn]
    text = " ".join(f"{error.path} was cut short: {error.reason}." for error in checkpoint.torn)
    if not any(path.endswith("/metadata") for path in paths):
        remedy = RemoveFiles(tuple(file for path in paths for file in companions(path)))
        action = f"remove {', '.join(paths)}; the batch is run again, and nothing is doubled"
        return [Finding(patient.name, text, action, remedy)]
    if patient.situation.is_stateful and not patient.permissions.state_loss:
        return [Finding(patient.name, text, needs="--accept-state-loss")]
    action = f"remove {checkpoint.path}; the next start makes a new one"
    return [Finding(patient.name, text, action, DropCheckpoint(checkpoint.path))]


def _refusals(patient: Patient) -> list[Finding]:
    if patient.checkpoint is not None and patient.checkpoint.torn:
        # Whether the state is the right one shows when the files are mended.
        patient = replace(patient, situation=replace(patient.situation, is_stateful=False))
    found: list[Finding] = []
    backing = patient.facts.backing
    while len(found) < _MOST_REMEDIES:
        error = _refusal(backing, patient)
        if error is None:
            return found
        finding = _finding(error, backing, patient)
        found.append(finding)
        if not isinstance(finding.remedy, AppendRewound):
            return found
        backing = backing.after(finding.remedy.record)
    return found


def _refusal(backing: BackingState, patient: Patient) -> Refused | None:
    try:
        recover(backing, patient.facts.delivered, patient.situation)
    except Refused as error:
        return error
    return None


def _finding(error: Refused, backing: BackingState, patient: Patient) -> Finding:
    given, facts = patient.permissions, patient.facts
    text, name = str(error), patient.name
    held = facts.delivered.delivery_hash if facts.delivered else ""
    match error:
        case IncarnationChanged():
            if error.source not in given.incarnations:
                return Finding(name, text, needs=f"--accept-incarnation {error.source}")
            start = _without_source(_start(backing, patient), error.source)
            action = f'read source "{error.source}" from its beginning'
            return Finding(name, text, action, _rewound(start, held, action))
        case SourceTrimmed():
            if (error.source, error.partition) not in given.skips:
                return Finding(name, text, needs=f"--skip {error.source}:{error.partition}")
            start = _skipped(_start(backing, patient), error)
            lost = error.first - error.wanted
            action = f'give up {lost} messages of source "{error.source}"'
            return Finding(name, text, action, _rewound(start, held, action))
        case SinkLost():
            if not given.sink_lost:
                return Finding(name, text, needs="--sink-lost")
            action = "deliver everything again"
            return Finding(name, text, action, _rewound(patient.situation.begin, "", action))
        case SinkBehind() if facts.delivered is not None:
            if not given.rewind:
                return Finding(name, text, needs="--rewind")
            action = f"deliver again what came after snapshot {facts.delivered.number}"
            return Finding(name, text, action, _rewound(facts.delivered.ends, held, action))
        case StateLost():
            action = 'start it with "windrow graph run --accept-state-loss"'
            return Finding(name, text, needs=action if given.state_loss else "--accept-state-loss")
    return Finding(name, text)


def _remarks(patient: Patient) -> list[Finding]:
    """What is worth knowing, though the leg starts without anybody's help."""
    facts, checkpoint = patient.facts, patient.checkpoint
    doubt, backing = facts.in_doubt, facts.backing
    remarks: list[str] = []
    if doubt is not None and backing.attempts == 0 and backing.reason and not backing.poisoned:
        remarks.append(
            f"snapshot {doubt.number} was given up, last with: {backing.reason};"
            " the next start begins to count anew"
        )
    if doubt is not None and backing.poisoned:
        where = ", ".join(f"{at.source}:{at.partition}:{at.index}" for at in backing.poisoned)
        remarks.append(
            f"snapshot {doubt.number}: the function is not called with {where}, which ended every"
            " attempt; the error policy decides about them"
        )
    is_lost = checkpoint is not None and not checkpoint.exists
    if is_lost and facts.delivered is not None and not patient.situation.is_stateful:
        remarks.append(
            "there is no checkpoint; the next start makes a new one and goes on after snapshot"
            f" {facts.delivered.number}"
        )
    return [Finding(patient.name, text, is_blocking=False) for text in remarks]


def _start(backing: BackingState, patient: Patient) -> SourceOffsets:
    """Where reading would go on, if all sources were in order."""
    taken = backing.taken
    inputs = taken.snapshot.inputs if taken else frozenset()
    code = taken.snapshot.code_version if taken else ""
    undisturbed = Situation(
        patient.situation.uid,
        patient.situation.inputs | inputs,
        code_version=code,
        begin=patient.situation.begin,
        accept_sink_loss=True,
    )
    return recover(backing, patient.facts.delivered, undisturbed).start


def _without_source(offsets: SourceOffsets, source: str) -> SourceOffsets:
    return offsets.of_inputs(offsets.sources - {source})


def _skipped(offsets: SourceOffsets, error: SourceTrimmed) -> SourceOffsets:
    return SourceOffsets(
        tuple(
            (origin, error.first if (origin.source, origin.partition) == _place(error) else index)
            for origin, index in offsets.entries
        )
    )


def _place(error: SourceTrimmed) -> tuple[str, int]:
    return error.source, error.partition


def _rewound(offsets: SourceOffsets, held: str, action: str) -> AppendRewound:
    return AppendRewound(Rewound(offsets, held, f"repair: {action}"))
