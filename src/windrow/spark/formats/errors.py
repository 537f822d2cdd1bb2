"""What can be wrong with the options of a format, and with a query that was made with others."""

from __future__ import annotations

from windrow.errors import Failed, UsageError


class InvalidOption(UsageError):
    """An option of a format is missing, or is not of its form."""

    def __init__(self, format: str, option: str, value: str, reason: str) -> None:
        super().__init__(format, option, value, reason)
        self.format, self.option, self.value, self.reason = format, option, value, reason

    def __str__(self) -> str:
        return f'option "{self.option}" of {self.format} is {self.value}: {self.reason}'


class UnknownOption(UsageError):
    """An option that a format does not read, most often a slip of the pen."""

    def __init__(self, format: str, option: str, nearest: str | None) -> None:
        super().__init__(format, option, nearest)
        self.format, self.option, self.nearest = format, option, nearest

    def __str__(self) -> str:
        hint = f'; did you mean "{self.nearest}"?' if self.nearest else ""
        return f'{self.format} has no option "{self.option}"{hint}'


class InputRemoved(Failed):
    """A batch that was begun reads an input that the query no longer has."""

    def __init__(self, format: str, inputs: tuple[str, ...]) -> None:
        super().__init__(format, inputs)
        self.format, self.inputs = format, inputs

    def __str__(self) -> str:
        names = ", ".join(f'"{name}"' for name in self.inputs)
        return (
            f"{self.format}: the last batch of the checkpoint was not finished and reads {names},"
            " which the query no longer has; start it once with all inputs, and remove them then"
        )
