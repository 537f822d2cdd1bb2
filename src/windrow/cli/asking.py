"""Have a person say yes before something that cannot be undone."""

from __future__ import annotations

import sys

import typer


def ask(question: str, verb: str) -> None:
    """Go on only after a yes.

    Raises:
        BadParameter: Nobody is there to be asked.
        Abort: The answer was no.
    """
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to be asked; add --yes", param_hint=verb)
    typer.confirm(question, err=True, abort=True)
