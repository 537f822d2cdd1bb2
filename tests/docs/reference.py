"""Reference pages that are written from the code, so that they cannot go stale.

``python -m tests.docs.reference`` writes them anew; ``test_reference.py`` compares them.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.docs.pages import ROOT
from tests.docs.reference_cli import cli_page
from tests.docs.reference_config import config_page
from tests.docs.reference_errors import errors_page

WRITTEN_PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/cli.md": cli_page,
    "docs/reference/config.md": config_page,
    "docs/reference/errors.md": errors_page,
}


if __name__ == "__main__":
    for page, write in WRITTEN_PAGES.items():
        (ROOT / page).write_text(write(), encoding="utf-8")
