"""``windrow journal edit``: change the specs of journals in an editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import typer

from windrow.cli.journal_apply import apply_changes, read_changes, tell
from windrow.cli.journal_client import (
    BrokerOption,
    Names,
    SelectorOption,
    find_brokers,
    find_journals,
    selection,
)
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_line
from windrow.errors import Failed, WindrowError
from windrow.journal.client.changes import StaleRevisions, tree_of
from windrow.journal.errors import InvalidField, JournalStatusError
from windrow.journal.spec_tree import format_tree

HELP = """\
Change what you like, save, and leave the editor.
A journal taken out of this text stays as it is; write "delete: true" to delete it.
Leave without a change to do nothing."""


class EditorFailed(Failed):
    """The editor did not end well, so that what it left behind is not applied."""

    def __init__(self, command: str, reason: str) -> None:
        super().__init__(command, reason)
        self.command, self.reason = command, reason

    def __str__(self) -> str:
        return f"editor {self.command!r} {self.reason}; set EDITOR to one that is there"


class EditAbandoned(Failed):
    """What was written was refused, and not corrected."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(reason, path)
        self.reason, self.path = reason, path

    def __str__(self) -> str:
        return (
            f"not applied: {self.reason}; the text is kept:"
            f' correct it and run "windrow journal apply --specs {self.path}"'
        )


def edit(
    ctx: typer.Context,
    names: Names = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    broker: BrokerOption = None,
    selector: SelectorOption = None,
    as_json: AsJson = False,
) -> None:
    """Edit specs with $VISUAL or $EDITOR and apply them; what is refused is opened again."""
    wanted = selection(names, selector, needed=False)
    with find_brokers(ctx, config_file, settings, broker).connect() as client:
        shown = format_tree(tree_of(find_journals(client, names, wanted)))
        refusal: WindrowError | None = None
        path = _scratch_file()
        while True:
            edited = _edited(path, noted(shown, HELP if refusal is None else str(refusal)))
            if edited.strip() in ("", shown.strip()):
                break
            shown = edited
            try:
                made, revision = apply_changes(client, read_changes(shown, "the text"))
            except (InvalidField, StaleRevisions, JournalStatusError) as error:
                refusal = error
                continue
            path.unlink()
            tell(made, revision, as_json=as_json)
            return
    if refusal is not None:
        raise EditAbandoned(str(refusal), str(path))
    path.unlink()
    print_line("nothing was changed")


def noted(text: str, note: str) -> str:
    """The text below a note, which is no part of it."""
    return "".join(f"# {line}\n" for line in note.splitlines()) + text


def without_note(text: str) -> str:
    """The text without the note above it."""
    lines = text.splitlines(keepends=True)
    while lines and lines[0].startswith("#"):
        del lines[0]
    return "".join(lines)


def _scratch_file() -> Path:
    descriptor, path = tempfile.mkstemp(prefix="windrow-journals-", suffix=".yaml")
    os.close(descriptor)
    return Path(path)


def _edited(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        ended = subprocess.run([*shlex.split(command), str(path)], check=False)
    except (OSError, ValueError) as error:
        path.unlink()
        raise EditorFailed(command, f"cannot be started: {error}") from error
    if ended.returncode:
        raise EditorFailed(command, f"ended with {ended.returncode}; the text is in {path}")
    return without_note(path.read_text(encoding="utf-8"))
