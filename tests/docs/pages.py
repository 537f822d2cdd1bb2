"""Which pages hold code blocks that a reader may copy?"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def pages() -> list[str]:
    """README, CONTRIBUTING, the READMEs of the packages and everything under docs."""
    found = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("src/**/README.md"),
    ]
    return sorted(str(path.relative_to(ROOT)) for path in found)
