"""What can be wrong with a graph, and with what its functions give back."""

from __future__ import annotations

from windrow.errors import UsageError


class InvalidGraph(UsageError):
    """A graph was declared that cannot run; all that is wrong is told at once, one per line."""

    def __init__(self, graph: str, mistakes: tuple[str, ...]) -> None:
        super().__init__(graph, mistakes)
        self.graph, self.mistakes = graph, mistakes

    def __str__(self) -> str:
        return "\n".join(f'graph "{self.graph}": {mistake}' for mistake in self.mistakes)


class InvalidBindings(UsageError):
    """What a processor reads or writes was not given as names of queues."""

    def __init__(self, processor: str, setting: str, value: str) -> None:
        super().__init__(processor, setting, value)
        self.processor, self.setting, self.value = processor, setting, value

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}": {self.setting} is {self.value}; give the name of a'
            " queue, a list of names, or a mapping of the function's names to queues"
        )


class InvalidReturn(UsageError):
    """A function gave back what cannot be written to the queues of its processor."""

    def __init__(self, processor: str, returned: str, reason: str) -> None:
        super().__init__(processor, returned, reason)
        self.processor, self.returned, self.reason = processor, returned, reason

    def __str__(self) -> str:
        return f'processor "{self.processor}" returned {self.returned}: {self.reason}'


class InvalidMessage(UsageError):
    """A value cannot be written in the form of its queue, or what was read is not of that form."""

    def __init__(self, values: str, reason: str) -> None:
        super().__init__(values, reason)
        self.values, self.reason = values, reason

    def __str__(self) -> str:
        return f'not a value of the form "{self.values}": {self.reason}'


class UnknownFunction(UsageError):
    """A function was named that cannot be imported."""

    def __init__(self, reference: str, reason: str) -> None:
        super().__init__(reference, reason)
        self.reference, self.reason = reference, reason

    def __str__(self) -> str:
        return f'cannot load the function "{self.reference}": {self.reason}'


class UnnamedFunction(UsageError):
    """A function has no name by which another process could import it."""

    def __init__(self, function: str) -> None:
        super().__init__(function)
        self.function = function

    def __str__(self) -> str:
        return (
            f"{self.function} cannot be named in a file; define it at the top of a module that can"
            " be imported"
        )


class UnknownInCatalog(UsageError):
    """A catalog was asked to rename what it does not have."""

    def __init__(self, what: str, name: str, nearest: str | None = None) -> None:
        super().__init__(what, name, nearest)
        self.what, self.name, self.nearest = what, name, nearest

    def __str__(self) -> str:
        hint = f'; did you mean "{self.nearest}"?' if self.nearest else ""
        return f'the catalog has no {self.what} "{self.name}"{hint}'


class TopologyChanged(UsageError):
    """The graph is not the one whose progress was stored."""

    def __init__(self, graph: str, differences: tuple[str, ...]) -> None:
        super().__init__(graph, differences)
        self.graph, self.differences = graph, differences

    def __str__(self) -> str:
        changes = "".join(f"\n  {difference}" for difference in self.differences)
        return (
            f'graph "{self.graph}" is not the one whose progress is stored:{changes}\n'
            'restore it, or run with "--accept-topology" to go on with the new one'
        )


class NotPlainData(UsageError):
    """A graph holds something that a file cannot."""

    def __init__(self, key: str, kind: str) -> None:
        super().__init__(key, kind)
        self.key, self.kind = key, kind

    def __str__(self) -> str:
        return (
            f'"{self.key}" holds a {self.kind}, which no file can; keep to text, numbers, lists and'
            " tables"
        )
