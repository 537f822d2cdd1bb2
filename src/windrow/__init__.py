"""Windrow: from the database transaction to the last consumer, exactly once.

The names below are imported when they are first used, so that a service that only stashes pays for
nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from windrow.version import __version__

if TYPE_CHECKING:
    from windrow.config import Config
    from windrow.graph import Graph, Message, Queue, Source, processor
    from windrow.outbox import Outbox, Record
    from windrow.relay.service import Relay

__all__ = [
    "Config",
    "Graph",
    "Message",
    "Outbox",
    "Queue",
    "Record",
    "Relay",
    "Source",
    "__version__",
    "processor",
]


def __getattr__(name: str) -> Any:
    homes = {
        "Config": "windrow.config",
        "Graph": "windrow.graph",
        "Message": "windrow.graph",
        "Outbox": "windrow.outbox",
        "Queue": "windrow.graph",
        "Record": "windrow.outbox",
        "Relay": "windrow.relay.service",
        "Source": "windrow.graph",
        "processor": "windrow.graph",
    }
    if name not in homes:
        raise AttributeError(f"module 'windrow' has no attribute {name!r}")
    return getattr(importlib.import_module(homes[name]), name)
