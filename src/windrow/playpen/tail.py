"""Follow a file that grows by lines."""

from __future__ import annotations

from pathlib import Path


class Tail:
    """What was written to a file since one last looked, line by line."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path, self._position = path, 0

    def lines(self) -> list[str]:
        """The whole lines that are new; one that is not ended yet comes with the next look."""
        with self._path.open("rb") as file:
            file.seek(self._position)
            content = file.read()
        end = content.rfind(b"\n") + 1
        self._position += end
        return content[:end].decode(errors="replace").splitlines()
