"""Each check of the Makefile fails for the fault it exists to find, and names the place.

The faults are planted in a copy of the tree, and the copy without them passes: a check that fails
for another reason, or that never fails, would be seen here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE_TIMEOUT = 300.0


@dataclass(frozen=True)
class Fault:
    """Something that must not get past ``make target``."""

    target: str
    path: str
    text: str
    named_by: tuple[str, ...]
    proves: str
    arguments: str = ""


FAULTS = {
    "an import across layers": Fault(
        "imports",
        "src/windrow/errors.py",
        "\n\ndef planted() -> None:\n    import windrow.cli  # noqa: F401\n",
        ("windrow.errors", "windrow.cli"),
        proves="layers-hold",
    ),
    # In a module that no other imports, or all of them would be looked at again, twice.
    "an untyped function": Fault(
        "types",
        "src/windrow/embedded/reaper_program.py",
        "\n\ndef planted(x):\n    return x\n",
        ("src/windrow/embedded/reaper_program.py:", "no-untyped-def"),
        proves="types-hold",
    ),
    "an untyped test": Fault(
        "types",
        "tests/unit/test_package.py",
        "\n\ndef test_planted(x):\n    pass\n",
        ("tests/unit/test_package.py:", "no-untyped-def"),
        proves="types-hold",
    ),
    "a broken link": Fault(
        "docs",
        "docs/glossary.md",
        "\nSee [planted](planted-and-missing.md).\n",
        ("glossary.md", "planted-and-missing.md"),
        proves="docs-hold",
    ),
    "an unformatted line": Fault(
        "lint",
        "src/windrow/errors.py",
        "\n\nPLANTED   =  'x'\n",
        ("src/windrow/errors.py",),
        proves="check-alone",
    ),
    "an unused import": Fault(
        "lint",
        "tests/unit/test_package.py",
        "\n\ndef planted() -> None:\n    import os\n",
        ("tests/unit/test_package.py:", "F401"),
        proves="check-alone",
    ),
    "a code block that raises": Fault(
        "test-docs",
        "docs/glossary.md",
        "\n```python\nraise RuntimeError('planted')\n```\n",
        ("docs/glossary.md:", "RuntimeError: planted"),
        proves="docs-hold",
        arguments="-k docs/glossary.md",
    ),
    "a code block without a language": Fault(
        "test-docs",
        "docs/glossary.md",
        "\n```\nplanted\n```\n",
        ("docs/glossary.md:", "no language"),
        proves="docs-hold",
        arguments="-k docs/glossary.md",
    ),
}
TARGETS = sorted({(fault.target, fault.arguments) for fault in FAULTS.values()})


@pytest.fixture(scope="module")
def copied_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree as a commit would have it, with the environment and the caches of this one."""
    copy = tmp_path_factory.mktemp("copy") / "windrow"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():  # one that was removed and not yet committed is still listed
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    # The environment is shared, so the copy must never set it up: it would point it at itself.
    (copy / "scripts" / "setup").write_text("#!/bin/sh\nmkdir -p build\n", encoding="utf-8")
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", copy / ".mypy_cache")
    return copy


def make(tree: Path, target: str, arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one target in the copy, as if from a shell of its own."""
    ours = ("MAKE", "MFLAGS", "PYTEST", "WINDROW_")  # this test may itself be run by make
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        ["make", target, f"ARGS={arguments}"],
        cwd=tree,
        # The environment's windrow is the tree that was copied: the copy has to come first.
        env=kept | {"PYTHONPATH": str(tree / "src"), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=MAKE_TIMEOUT,
        check=False,
    )


@pytest.mark.parametrize(("target", "arguments"), TARGETS)
def test_check_passes_when_nothing_is_planted(
    copied_tree: Path, target: str, arguments: str
) -> None:
    finished = make(copied_tree, target, arguments)
    assert finished.returncode == 0, finished.stdout


@pytest.mark.parametrize(
    "planted",
    [pytest.param(name, marks=pytest.mark.proves(fault.proves)) for name, fault in FAULTS.items()],
)
def test_check_fails_and_names_the_place_of(planted: str, copied_tree: Path) -> None:
    fault = FAULTS[planted]
    place = copied_tree / fault.path
    sound = place.read_text(encoding="utf-8")
    place.write_text(sound + fault.text, encoding="utf-8")
    try:
        finished = make(copied_tree, fault.target, fault.arguments)
    finally:
        place.write_text(sound, encoding="utf-8")

    assert finished.returncode != 0, f"{planted} went unseen:\n{finished.stdout}"
    for name in fault.named_by:
        assert name in finished.stdout
