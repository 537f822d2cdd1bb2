from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, pages

LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")
FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.MULTILINE | re.DOTALL)


def broken_links(page: str, text: str) -> list[str]:
    """Relative links of a page that lead to no file."""
    targets = (match["target"] for match in LINK.finditer(FENCED.sub("", text)))
    local = (target for target in targets if not re.match(r"[a-z]+:", target))
    return [target for target in local if not ((ROOT / page).parent / target).exists()]


@pytest.mark.parametrize("page", [page for page in pages() if not page.startswith("docs/")])
def test_links_of_a_page_outside_the_built_docs_lead_somewhere(page: str) -> None:
    """Those inside are checked by the strict build."""
    assert broken_links(page, (ROOT / page).read_text(encoding="utf-8")) == []


def test_a_planted_broken_link_is_found() -> None:
    text = "[good](README.md#two-commands) [bad](no-such.md) [web](https://example.com)\n"
    assert broken_links("README.md", text) == ["no-such.md"]
