"""``windrow deadletter``: keys that wait for a person, dead letters, and how to move them on."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from windrow.cli.desks import desk_elsewhere, open_desk, tell
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line, print_rows
from windrow.cli.reaper import ReaperOption, load_with_reaper
from windrow.relay.deadletters import (
    QUERIES,
    Letter,
    discard_key,
    discard_letter,
    find_letter,
    list_entries,
    replay_key,
    retry_key,
    retry_letter,
    skip_key,
)
from windrow.relay.desk import Desk, Outcome
from windrow.relay.desk_elsewhere import DeskElsewhere
from windrow.relay.errors import LetterGone, NoKeysWait

app = typer.Typer(
    help="Move on what could not be delivered.", add_completion=False, no_args_is_help=True
)

Subject = Annotated[
    str, typer.Argument(metavar="KEY|ID", help="A key; or, all digits, the id of a dead letter.")
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]
IsKey = Annotated[bool, typer.Option("--key", help="It is a key, though all digits.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
OutOfOrderOption = Annotated[
    bool,
    typer.Option("--out-of-order", help="Even behind later records of its key."),
]


@app.command("list")
def list_command(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Of this key.", show_default=False)
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="TOPIC", help="Of this topic.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List the keys that wait for a person and the dead letters; no payloads."""
    with _desk(ctx, config_file, settings, reaper_file) as desk:
        if isinstance(desk, DeskElsewhere):
            entries = desk.entries(key=key, topic=topic, limit=limit)
        else:
            entries = list_entries(desk, key=key, topic=topic, limit=limit)
    if as_json or entries:
        print_rows([asdict(entry) for entry in entries], as_json=as_json)
    else:
        print_line("no key is held or buried, and there are no dead letters")


@app.command()
def show(
    ctx: typer.Context,
    number: Annotated[int, typer.Argument(metavar="ID", help="The id of a dead letter.")],
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    payload: Annotated[
        bool, typer.Option("--payload", help="Also its value and headers, as they are.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a dead letter: where it was to go, and why it could not."""
    with _desk(ctx, config_file, settings, reaper_file) as desk:
        if isinstance(desk, DeskElsewhere):
            letter = desk.letter(number)
        else:
            letter = find_letter(desk, number)
    if letter is None:
        raise LetterGone(number)
    shown = _shown(letter, payload)
    if as_json:
        print_json(shown)
    else:
        for name, value in shown.items():
            print_line(f"{name:<10} {value}")


@app.command()
def retry(
    ctx: typer.Context,
    subject: Subject,
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    is_key: IsKey = False,
    out_of_order: OutOfOrderOption = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a held key try again; put a dead letter back into the outbox."""
    with _desk(ctx, config_file, settings, reaper_file) as desk:
        number = _number(subject, is_key)
        if number is None:
            outcome = retry_key(_with_keys(desk), subject, dry_run=dry_run)
        elif isinstance(desk, DeskElsewhere):
            outcome = desk.retry_letter(number, dry_run=dry_run)
        else:
            outcome = retry_letter(desk, number, out_of_order=out_of_order, dry_run=dry_run)
    tell(outcome, as_json=as_json, dry_run=dry_run)


@app.command()
def skip(
    ctx: typer.Context,
    key: Key,
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    record: Annotated[
        int | None,
        typer.Option(
            "--record",
            metavar="ID",
            help="Only while this record is at the head of the key.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Move the record that a held key waits for to the dead letters; the rest goes on."""
    with _desk(ctx, config_file, settings, reaper_file) as desk:
        outcome = skip_key(_with_keys(desk), key, record=record, dry_run=dry_run)
    tell(outcome, as_json=as_json, dry_run=dry_run)


@app.command()
def discard(
    ctx: typer.Context,
    subject: Subject,
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    is_key: IsKey = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete for good: a dead letter, or what a held or buried key waits with."""
    number = _number(subject, is_key)
    with _desk(ctx, config_file, settings, reaper_file) as desk:

        def act(*, dry_run: bool) -> Outcome:
            if number is None:
                return discard_key(_with_keys(desk), subject, dry_run=dry_run)
            if isinstance(desk, DeskElsewhere):
                return desk.discard_letter(number, dry_run=dry_run)
            return discard_letter(desk, number, dry_run=dry_run)

        if not yes and not dry_run:
            _ask(act(dry_run=True))
        outcome = act(dry_run=dry_run)
    tell(outcome, as_json=as_json, dry_run=dry_run)


@app.command()
def replay(
    ctx: typer.Context,
    key: Key,
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    start: Annotated[
        int | None,
        typer.Option("--from", metavar="ID", help="From this dead letter on.", show_default=False),
    ] = None,
    out_of_order: OutOfOrderOption = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put the dead letters of a buried key back, in their order, and let it go on."""
    with _desk(ctx, config_file, settings, reaper_file) as desk:
        outcome = replay_key(
            _with_keys(desk), key, start=start, out_of_order=out_of_order, dry_run=dry_run
        )
    tell(outcome, as_json=as_json, dry_run=dry_run)


@contextmanager
def _desk(
    ctx: typer.Context,
    config_file: Path | None,
    settings: list[str] | None,
    reaper_file: Path | None,
) -> Iterator[Desk | DeskElsewhere]:
    config, _ = load_with_reaper(ctx, reaper_file, config_file, settings)
    with desk_elsewhere(config) or open_desk(config, QUERIES) as desk:
        yield desk


def _with_keys(desk: Desk | DeskElsewhere) -> Desk:
    """The desk, if keys can wait there.

    Raises:
        NoKeysWait: They cannot.
    """
    if isinstance(desk, DeskElsewhere):
        raise NoKeysWait(desk.system)
    return desk


def _number(subject: str, is_key: bool) -> int | None:
    return int(subject) if subject.isascii() and subject.isdigit() and not is_key else None


def _ask(outcome: Outcome) -> None:
    """Have a person say yes to what would be deleted."""
    if not outcome.changed:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to be asked; add --yes", param_hint="discard")
    question = f"delete for good, {outcome.subject}: {outcome.detail}?"
    typer.confirm(question, err=True, abort=True)


def _shown(letter: Letter, payload: bool) -> dict[str, object]:
    shown: dict[str, object] = {
        "id": letter.id,
        "record": letter.record,
        "topic": letter.topic,
        "key": letter.key,
        "created": letter.created,
        "buried_at": letter.buried_at,
        "attempts": letter.attempts,
        "error": letter.error,
        "bytes": None if letter.value is None else len(letter.value),
    }
    if payload:
        shown["headers"] = [list(header) for header in letter.headers]
        shown |= _value(letter.value)
    return shown


def _value(value: bytes | None) -> dict[str, object]:
    if value is None:
        return {"value": None}
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(value).decode()}
