"""Find the configuration file and read it: TOML or YAML, by its suffix."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from windrow.errors import UnreadableConfig

DEFAULT_FILE = "windrow.toml"
FILE_VARIABLE = "WINDROW_CONFIG"


def find_file(named: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The file to read: the named one, else ``$WINDROW_CONFIG``, else ``./windrow.toml`` if there.

    A file that was named is returned whether it exists or not, so that reading it says so.
    """
    if named is not None:
        return named
    if variable := environ.get(FILE_VARIABLE):
        return Path(variable)
    default = Path(DEFAULT_FILE)
    return default if default.exists() else None


def read_file(path: Path) -> Mapping[Any, Any]:
    """The content of a configuration file.

    Raises:
        UnreadableConfig: It cannot be read or parsed. The message gives the place, not the text
            there, which may be a secret.
    """
    if path.suffix not in (".toml", ".yaml", ".yml"):
        raise UnreadableConfig(str(path), 'its name must end in ".toml", ".yaml" or ".yml"')
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableConfig(str(path), error.strerror or type(error).__name__) from None
    except UnicodeDecodeError as error:
        raise UnreadableConfig(str(path), f"byte {error.start} is not UTF-8 text") from None
    content = _toml(path, text) if path.suffix == ".toml" else _yaml(path, text)
    if not isinstance(content, Mapping):
        raise UnreadableConfig(str(path), "it must hold sections, such as database:")
    return content


# Both parsers keep the text in their error, so neither is chained.
def _toml(path: Path, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
    raise UnreadableConfig(str(path), reason)


def _yaml(path: Path, text: str) -> Any:
    try:
        return yaml.safe_load(text) or {}
    except yaml.MarkedYAMLError as error:
        # An unquoted password that begins with "*" or "!" is quoted back as an alias or a tag.
        reason = re.sub(r"""'.*'|".*\"""", "…", error.problem or "not YAML")
        mark = error.problem_mark
        place = f" (at line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    except yaml.YAMLError:
        reason, place = "it has characters that YAML does not allow", ""
    raise UnreadableConfig(str(path), reason + place)
