"""A value that does not show itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from windrow.config.redaction import HIDDEN

SECRET_FORMS = 'write it as text in quotes, {env = "NAME"} or {file = "PATH"}'


class Secret:
    """A string that prints, logs and serialises as ``***``; only ``reveal()`` gives it away.

    It pickles whole, because a Spark worker needs the password too.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself, for the driver that needs it and for nothing else."""
        return self._value

    def hide_in(self, text: str) -> str:
        """Someone else's text without this secret in it, however it got there."""
        return hide_pieces(text, [self._value])

    def __str__(self) -> str:
        return HIDDEN

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.reveal() == self._value

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __reduce__(self) -> tuple[Callable[[str], Self], tuple[str]]:
        return type(self), (self._value,)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Accept a string or a finished secret; serialise hidden."""
        return core_schema.no_info_plain_validator_function(
            cls._of,
            serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json"),
        )

    @classmethod
    def _of(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls(value)
        raise ValueError(SECRET_FORMS)


def hide_pieces(text: str, pieces: Iterable[str]) -> str:
    """The text with each of these pieces replaced by ``***``."""
    # The longest first: a piece within another would leave the rest of it standing.
    for piece in sorted({p for p in pieces if p}, key=len, reverse=True):
        text = text.replace(piece, HIDDEN)
    return text
