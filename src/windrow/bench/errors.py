"""Why a measurement did not take place."""

from __future__ import annotations

from windrow.errors import Failed, UsageError


class UnknownPart(UsageError):
    """There is nothing of that name to measure."""

    def __init__(self, part: str, known: tuple[str, ...], nearest: str | None = None) -> None:
        super().__init__(part, known, nearest)
        self.part, self.known, self.nearest = part, known, nearest

    def __str__(self) -> str:
        hint = f'did you mean "{self.nearest}"? ' if self.nearest else ""
        return f'no part "{self.part}" to measure; {hint}known: {", ".join(self.known)}, all'


class TooSlow(Failed):
    """A quick measurement took longer than quick ones may."""

    def __init__(self, part: str, limit: float) -> None:
        super().__init__(part, limit)
        self.part, self.limit = part, limit

    def __str__(self) -> str:
        return (
            f'part "{self.part}" was not measured within the {self.limit:g} s of --quick;'
            f" run: windrow bench {self.part}"
        )


class NotDelivered(Failed):
    """What was measured did not do its work: there is no figure."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(what, seconds)
        self.what, self.seconds = what, seconds

    def __str__(self) -> str:
        within = f" within {self.seconds:g} s" if self.seconds else ""
        return f"no figure, because it did not work{within}: {self.what}"
