"""What a broker can be told, with its defaults; the words are those of its flags."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from windrow.errors import UsageError

SpoolKind = Literal["durable", "memory"]
Gateway = Literal["off", "shared"]

DEFAULT_PREFIX = "/gazette/cluster"
CLUSTER_LIMIT = 1024
EMBEDDED_LIMIT = 1 << 17
"""An embedded broker is alone, so a lower limit could only leave journals without any broker."""


class WrongBrokerSettings(UsageError):
    """Settings that contradict each other, or lack one."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.problem}; see: windrow journal serve --help"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files: our certificate and key, and the authorities that sign those of others."""

    certificate: Path
    key: Path
    client_authority: Path | None = None
    """Clients must show a certificate signed by it: mutual TLS."""
    peer_certificate: Path | None = None
    """What this broker shows to its peers, if not ``certificate``."""
    peer_key: Path | None = None
    peer_authority: Path | None = None
    """Peers must show a certificate signed by it; ``client_authority`` if it is not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """All settings of one broker process. Durations are seconds."""

    data_dir: Path
    """Spools, and of an embedded broker also its keys."""
    zone: str = "local"
    id: str = ""
    """Empty: the one that ``data_dir`` had before, or a new one which it then keeps."""
    host: str = "127.0.0.1"
    port: int = 0
    limit: int = 0
    """How many journals it takes; 0 is 1024 in a cluster, and no limit if embedded."""
    file_root: Path | None = None
    """Where ``file://`` stores lie; without it such stores are refused."""
    file_only: bool = False
    """Take every store for a ``file://`` store of the same path: for tests and trials."""
    max_append_rate: int = 0
    min_append_rate: int = 65_536
    max_replication: int = 9
    watch_delay: float = 0.03
    auth_keys: str = field(default="", repr=False)
    tls: TlsFiles | None = None
    etcd_address: str = ""
    etcd_prefix: str = DEFAULT_PREFIX
    etcd_lease: float = 20.0
    embedded: bool = False
    """A local keyspace in ``data_dir`` in place of etcd."""
    spool: SpoolKind = "durable"
    pulse_interval: float = 60.0
    peer_timeout: float = 5.0
    persist_tick: float = 60.0
    jump_age: float = 6 * 3600.0
    drain_timeout: float = 60.0
    """How long an exiting broker waits for others to take over its journals."""
    stop_timeout: float = 15.0
    """How long calls under way may go on once nothing is left to drain."""
    gateway: Gateway = "shared"
    """Whether HTTP/1 is answered on the broker's own port."""
    http_port: int | None = None
    """A port for HTTP/1 alone; 0 is a free one."""
    allow_origins: tuple[str, ...] = ()
    """Origins whose web pages may use the gateway; ``*`` is all of them."""
    max_message_bytes: int = 4 * 1024 * 1024
    auto_suspend: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            WrongBrokerSettings: With what is wrong.
        """
        if self.embedded == bool(self.etcd_address):
            raise WrongBrokerSettings("give either --embedded or --etcd-address")
        if self.spool not in ("durable", "memory"):
            raise WrongBrokerSettings(f"--spool is durable or memory, not {self.spool!r}")
        if self.gateway not in ("off", "shared"):
            raise WrongBrokerSettings(f"--gateway is off or shared, not {self.gateway!r}")
        if self.file_only and self.file_root is None:
            raise WrongBrokerSettings("--file-only needs --file-root")
        for name in ("etcd_lease", "pulse_interval", "peer_timeout", "persist_tick"):
            if getattr(self, name) <= 0:
                flag = name.replace("_", "-")
                raise WrongBrokerSettings(f"--{flag} must be longer than nothing")
        if not 0 <= self.limit <= EMBEDDED_LIMIT:
            raise WrongBrokerSettings(f"--limit must be 0 to {EMBEDDED_LIMIT}, not {self.limit}")

    @property
    def journal_limit(self) -> int:
        """The limit that this broker announces."""
        return self.limit or (EMBEDDED_LIMIT if self.embedded else CLUSTER_LIMIT)

    @property
    def is_durable(self) -> bool:
        """Whether an acknowledged byte is on disk."""
        return self.spool == "durable"

    @property
    def scheme(self) -> str:
        """Of the endpoint that this broker announces."""
        return "http" if self.tls is None else "https"
