"""Read every source and resolve it: the one place where configuration meets the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from windrow.config.files import find_file, read_file
from windrow.config.layers import Layer, Setting, environment_layer, file_layer, flag_layer
from windrow.config.model import Config
from windrow.config.resolve import Resolved, resolve


def load(
    file: Path | None = None,
    flags: Sequence[Setting] = (),
    environ: Mapping[str, str] | None = None,
    base: Layer | None = None,
) -> Resolved[Config]:
    """The effective configuration: flags over environment over file over defaults.

    Args:
        file: The file to read, before ``$WINDROW_CONFIG`` and ``./windrow.toml``.
        flags: What the command line set.
        environ: The variables to read in place of the process's own.
        base: What to take in place of any file.

    Raises:
        ConfigError: The file cannot be read, a key is unknown or a value invalid.
    """
    environ = os.environ if environ is None else environ
    layers = [flag_layer(flags), environment_layer(environ)]
    found = find_file(file, environ) if base is None else None
    if base is not None:
        layers.append(base)
    elif found is not None:
        layers.append(file_layer(str(found), read_file(found)))
    return resolve(Config, layers, lambda kind, name: _read_reference(kind, name, environ))


def _read_reference(kind: str, name: str, environ: Mapping[str, str]) -> str:
    if kind == "env":
        if name not in environ:
            raise ValueError("that environment variable is not set")
        return environ[name]
    try:
        # Editors and "echo" end a file with a newline that is no part of the secret.
        return Path(name).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ValueError("that file is not UTF-8 text") from None
    except OSError as error:
        raise ValueError(f"that file cannot be read: {error.strerror}") from None
