from __future__ import annotations

import pytest

from tests.docs.pages import ROOT
from tests.docs.reference import WRITTEN_PAGES


@pytest.mark.parametrize("page", WRITTEN_PAGES)
def test_a_reference_page_says_what_the_code_says(page: str) -> None:
    """If this fails, run ``.venv/bin/python -m tests.docs.reference``."""
    assert (ROOT / page).read_text(encoding="utf-8") == WRITTEN_PAGES[page]()
