"""What a fragment store can do. All of it blocks: callers on an event loop use a thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Stored:
    """An object of a listing."""

    path: str
    """Below the path that was listed."""
    mod_time: int


class Store(Protocol):
    """A place that keeps objects by path. Paths are relative to the store's own URL.

    Every method raises ``StoreError``, or ``StoreForbidden`` if our credentials are refused.
    """

    url: str

    def exists(self, path: str) -> bool:
        """Whether there is an object of that path."""

    def put(self, path: str, content: Iterable[bytes], encoding: str = "") -> None:
        """Keep an object, all of it or nothing; ``encoding`` is told to whoever fetches it."""

    def get(self, path: str) -> Iterator[bytes]:
        """The object as it is kept, in pieces."""

    def list(self, path: str) -> Iterator[Stored]:
        """Every object below a path that ends in a slash; none if there is nothing."""

    def remove(self, path: str) -> None:
        """Forget an object; nothing happens if there is none."""

    def signed_url(self, path: str, lifetime: float) -> str:
        """Where anybody can fetch the object for so many seconds."""
