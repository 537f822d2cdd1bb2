"""From the configuration to a client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.config.journal import Journal, JournalTls
from windrow.errors import InvalidValue
from windrow.extras import require

if TYPE_CHECKING:
    from windrow.journal.client.dial import Tls
    from windrow.journal.client.sync import SyncJournalClient


def connect_to(config: Journal) -> SyncJournalClient:
    """A blocking client of the configured brokers.

    Raises:
        MissingExtra: What it takes to call brokers is not installed.
        InvalidValue: A file that is named cannot be read.
    """
    require("grpc")
    require("google.protobuf")
    from windrow.journal.client.sync import connect

    return connect(config.addresses, **options_of(config))


def options_of(config: Journal) -> dict[str, Any]:
    """What is configured beside the addresses, as ``JournalClient`` takes it."""
    token = config.token
    return {
        "tls": tls_of(config.tls),
        "token": None if token is None else token.reveal(),
        "zone": config.zone,
        "file_root": Path(config.file_root) if config.file_root else None,
        "patience": config.patience,
    }


def tls_of(config: JournalTls) -> Tls | None:
    """What is configured of TLS, read from its files."""
    from windrow.journal.client.dial import Tls

    if not config.is_set:
        return None
    return Tls(
        _pem("ca_file", config.ca_file),
        _pem("cert_file", config.cert_file),
        _pem("key_file", config.key_file),
        config.server_name,
    )


def _pem(key: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise InvalidValue(f"journal.tls.{key}", path, "the configuration", reason) from error
