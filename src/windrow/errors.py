"""Every error of Windrow, in one tree.

The class is the diagnosis, and the three branches answer the one question a caller has to ask
before trying again: can it ever work, did it happen, or is that unknown?

::

    WindrowError
    ├── UsageError              asked for something that cannot be; correct it (exit 2)
    │   ├── MissingExtra        an optional dependency is not installed
    │   └── ConfigError         the configuration is wrong
    │       ├── UnknownKey      a key nobody reads
    │       ├── InvalidValue    a value out of its range or form
    │       └── UnreadableConfig  the file cannot be read or parsed
    ├── Failed                  it certainly did not happen; trying again is safe (exit 1)
    │   ├── Unreachable         no answer from a service
    │   ├── NotInstalled        a program of the machine is missing
    │   └── StartFailed         a child process did not come up
    └── OutcomeUnknown          it may have happened: read back before trying again (exit 1)

Errors hand their facts to ``super().__init__`` and build the sentence in ``__str__``, so that they
survive pickling out of a Spark worker.
"""

from __future__ import annotations

from typing import ClassVar


class WindrowError(Exception):
    """Whatever Windrow raises on purpose."""

    exit_code: ClassVar[int] = 1


class UsageError(WindrowError):
    """The caller asked for something that cannot be."""

    exit_code: ClassVar[int] = 2


class MissingExtra(UsageError):
    """An optional dependency is needed and not installed."""

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(extra, module)
        self.extra, self.module = extra, module

    def __str__(self) -> str:
        return f"{self.module!r} is not installed; run: pip install 'windrow[{self.extra}]'"


class ConfigError(UsageError):
    """The configuration is wrong."""


class UnknownKey(ConfigError):
    """A key that nothing reads, most often a slip of the pen."""

    def __init__(self, key: str, origin: str, nearest: str | None = None) -> None:
        super().__init__(key, origin, nearest)
        self.key, self.origin, self.nearest = key, origin, nearest

    def __str__(self) -> str:
        hint = f'; did you mean "{self.nearest}"?' if self.nearest else ""
        return f'unknown key "{self.key}" in {self.origin}{hint}'


class InvalidValue(ConfigError):
    """A value out of its range or not of its form."""

    def __init__(self, key: str, value: str, origin: str, reason: str) -> None:
        super().__init__(key, value, origin, reason)
        self.key, self.value, self.origin, self.reason = key, value, origin, reason

    def __str__(self) -> str:
        return f'"{self.key}" in {self.origin} is {self.value}: {self.reason}'


class UnreadableConfig(ConfigError):
    """The configuration file cannot be read or parsed."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"cannot read configuration {self.path}: {self.reason}"


class Failed(WindrowError):
    """It certainly did not happen; trying again is safe."""


class Unreachable(Failed):
    """A service gave no answer, or refused the connection."""

    def __init__(self, service: str, address: str, reason: str) -> None:
        super().__init__(service, address, reason)
        self.service, self.address, self.reason = service, address, reason

    def __str__(self) -> str:
        return f"cannot reach {self.service} at {self.address}: {self.reason}"


class NotInstalled(Failed):
    """A program of the machine, not of Python, is missing."""

    def __init__(self, program: str, package: str) -> None:
        super().__init__(program, package)
        self.program, self.package = program, package

    def __str__(self) -> str:
        return f"{self.program!r} is not installed; run: apt-get install {self.package}"


class StartFailed(Failed):
    """A child process did not come up in time, or ended while it should have come up."""

    def __init__(self, service: str, reason: str, log_tail: str = "") -> None:
        super().__init__(service, reason, log_tail)
        self.service, self.reason, self.log_tail = service, reason, log_tail

    def __str__(self) -> str:
        tail = f"\n{self.log_tail}" if self.log_tail else ""
        return f"{self.service} did not start: {self.reason}{tail}"


class OutcomeUnknown(WindrowError):
    """It may have happened or not: read the state back before trying again."""
