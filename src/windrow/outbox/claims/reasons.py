"""Which text of somebody else's can be kept in every database? Pure."""

from __future__ import annotations


def storable(text: str) -> str:
    """The same without what no database takes as text: NUL, and halves of characters.

    What receivers answer ends up in a reason, and must not keep a claim from being ended.
    """
    return text.encode("utf-8", "replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")
