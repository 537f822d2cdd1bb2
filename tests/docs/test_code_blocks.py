from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.blocks import Action, extract
from tests.docs.pages import ROOT, pages
from tests.docs.runner import perform


@pytest.mark.proves("docs-hold")
@pytest.mark.parametrize("page", pages())
def test_code_blocks_of_a_page_do_what_they_say(
    page: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Blocks of one page run in order and share a directory, as they would for a reader."""
    blocks = extract(page, (ROOT / page).read_text(encoding="utf-8"))
    for block in blocks:
        if block.no_run is not None:
            record_property("docs_block_excepted", f"{block.place}: {block.no_run}")
        elif block.action is not Action.SHOW:
            perform(block, tmp_path)
            record_property("docs_block_performed", block.place)
