"""Errors of the configuration beyond those every layer knows."""

from __future__ import annotations

from windrow.errors import ConfigError


class SeveralMistakes(ConfigError):
    """More than one thing is wrong; all are told at once, one per line."""

    def __init__(self, mistakes: tuple[ConfigError, ...]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes

    def __str__(self) -> str:
        return "\n".join(str(mistake) for mistake in self.mistakes)
