"""How an error is told: one line on standard error, no secret in it, and the exit code.

Imports what it needs when something has failed, so that success does not pay for it.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

from windrow.errors import WindrowError

PROGRAM = "windrow"
DEBUG_VARIABLE = "WINDROW_DEBUG"
INTERRUPTED = 130


def tell(error: Exception, *, as_json: bool) -> int:
    """Say on standard error what went wrong, and return the exit code."""
    from windrow.config.redaction import redact

    if os.environ.get(DEBUG_VARIABLE):
        trace = "".join(traceback.format_exception(error))
        print(redact(trace), end="", file=sys.stderr)
    messages = [(kind, redact(text)) for kind, text in _messages(error)]
    if as_json:
        print(json.dumps({"error": _as_object(error, messages)}), file=sys.stderr)
    else:
        for _, text in messages:
            first, *rest = text.splitlines() or [""]
            print(
                "\n".join([f"{PROGRAM}: error: {first}", *(f"  {r}" for r in rest)]),
                file=sys.stderr,
            )
    return _exit_code(error)


def _messages(error: Exception) -> list[tuple[str, str]]:
    from windrow.config.errors import SeveralMistakes

    kind = type(error).__name__
    if isinstance(error, SeveralMistakes):
        return [(type(mistake).__name__, str(mistake)) for mistake in error.mistakes]
    if isinstance(error, WindrowError):
        return [(kind, str(error))]
    if is_usage_error(error):
        return [("UsageError", _usage(error))]
    text = " ".join(str(error).split())
    said = f"{kind}: {text}" if text else kind
    return [(kind, f"{said} (unexpected; set {DEBUG_VARIABLE}=1 for the traceback)")]


def is_usage_error(error: Exception) -> bool:
    """Whether the command line itself was wrong.

    Asked by its shape: typer has moved the class from one package to another.
    """
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _usage(error: Exception) -> str:
    message = error.format_message()  # type: ignore[attr-defined]  # see is_usage_error
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else PROGRAM
    message = " ".join(message.split()).rstrip(".")
    joint = " See" if message.endswith("?") else "; see"
    return f"{message[:1].lower()}{message[1:]}{joint}: {command} --help"


def _as_object(error: Exception, messages: list[tuple[str, str]]) -> dict[str, object]:
    objects: list[dict[str, object]] = [{"type": kind, "message": text} for kind, text in messages]
    if len(objects) == 1:
        return objects[0]
    together = "\n".join(text for _, text in messages)
    return {"type": type(error).__name__, "message": together, "mistakes": objects}


def _exit_code(error: Exception) -> int:
    if isinstance(error, WindrowError):
        return error.exit_code
    return 2 if is_usage_error(error) else 1
