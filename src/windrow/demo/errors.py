"""Why a demonstration came to no end."""

from __future__ import annotations

from windrow.errors import Failed


class DemoStalled(Failed):
    """A part of the road did not do its work in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(what, seconds)
        self.what, self.seconds = what, seconds

    def __str__(self) -> str:
        return f"the demo stalled: {self.what} within {self.seconds:g} s"
