"""How is a function named so that a file, or another process, can find it: ``module:function``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from windrow.graph.errors import UnknownFunction, UnnamedFunction

Function = Callable[..., Any]


def reference_of(function: Function) -> str:
    """The name of a function, ``module:function``, whether it can be imported by it or not."""
    module = getattr(function, "__module__", None) or type(function).__module__
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{module}:{name}"


def importable_reference_of(function: Function) -> str:
    """The name by which another process gets the same function.

    Raises:
        UnnamedFunction: There is none: it is a lambda, or was defined inside another function.
    """
    reference = reference_of(function)
    try:
        found = load_function(reference)
    except UnknownFunction:
        found = None
    if found is not function:
        raise UnnamedFunction(reference)
    return reference


def load_function(reference: str) -> Function:
    """Import the function of that name; of a declared processor, the function it was made from.

    Raises:
        UnknownFunction: The name is not of the form, or nothing callable is there.
    """
    module_name, separator, path = reference.partition(":")
    if not (module_name and separator and path) or module_name.startswith("."):
        raise UnknownFunction(reference, 'write it as "module:function"')
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnknownFunction(reference, f"there is no module {error.name!r}") from error
    for name in path.split("."):
        if not hasattr(found, name):
            raise UnknownFunction(reference, f"{module_name!r} has no {path!r}")
        found = getattr(found, name)
    # What a decorator left under the name of the function is the processor made from it.
    found = getattr(found, "function", found)
    if not callable(found):
        raise UnknownFunction(reference, f"it is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]  # callable was all that was asked
