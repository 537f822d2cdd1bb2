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
    from windrow.outbox import Outbox, Record
    from windrow.relay.assembly import build_relay
    from windrow.relay.service import Relay

__all__ = ["Config", "Outbox", "Record", "Relay", "__version__", "build_relay"]


def __getattr__(name: str) -> Any:
    homes = {
        "Config": "windrow.config",
        "Outbox": "windrow.outbox",
        "Record": "windrow.outbox",
        "Relay": "windrow.relay.service",
        "build_relay": "windrow.relay.assembly",
    }
    if name not in homes:
        raise AttributeError(f"module 'windrow' has no attribute {name!r}")
    return getattr(importlib.import_module(homes[name]), name)
