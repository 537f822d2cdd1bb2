"""The reference page of the errors, written from their classes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import windrow
from windrow.errors import Failed, OutcomeUnknown, UsageError, WindrowError

HEAD = """\
# Errors

Whatever Windrow raises on purpose is a `WindrowError`.
Its branch answers what a caller has to ask before trying again.
The command line turns it into an exit code.

| Branch | What it says | Try again? | Exit code |
| --- | --- | --- | --- |
| `UsageError` | asked for something that cannot be | correct it first | 2 |
| `Failed` | it certainly did not happen | yes | 1 |
| `OutcomeUnknown` | it may have happened | read the state back first | 1 |

A message names the value and, where there is one, the command to run next.
Secrets are never in it.

<!-- Written by `python -m tests.docs.reference`. -->
"""
TAIL = """
## The shared tree

::: windrow.errors
    options:
      heading_level: 2
      show_root_heading: false
"""
BRANCHES = (UsageError, Failed, OutcomeUnknown)


def errors_page() -> str:
    """The page in Markdown: one table per branch, then the classes that all layers share."""
    return HEAD + "".join(_table(branch) for branch in BRANCHES) + TAIL


def all_errors() -> list[type[WindrowError]]:
    """Every error class of the package, by name."""
    for module in pkgutil.walk_packages(windrow.__path__, "windrow."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: set[type[WindrowError]] = set()
    unseen = [WindrowError]
    while unseen:
        kind = unseen.pop()
        found.add(kind)
        unseen += [sub for sub in kind.__subclasses__() if sub.__module__.startswith("windrow.")]
    return sorted(found, key=lambda kind: (kind.__name__, kind.__module__))


def _table(branch: type[WindrowError]) -> str:
    rows = "".join(_row(kind) for kind in all_errors() if issubclass(kind, branch))
    return f"\n## {branch.__name__}\n\n| Class | Module | Meaning |\n| --- | --- | --- |\n{rows}"


def _row(kind: type[WindrowError]) -> str:
    meaning = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
    meaning = meaning.replace("``", "`").replace("|", "\\|")
    return f"| `{kind.__name__}` | `{kind.__module__}` | {meaning} |\n"
