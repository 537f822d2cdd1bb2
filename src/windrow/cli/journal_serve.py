"""``windrow journal serve``: run a broker until it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windrow.cli.loading import load_config
from windrow.cli.options import ConfigFile, Settings
from windrow.types import parse_duration

if TYPE_CHECKING:
    from windrow.journal.broker.settings import TlsFiles


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _flag(name: str, help: str, **more: object) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(f"--{name}", help=help, **more)  # type: ignore[arg-type]
    return option


def _duration(name: str, help: str) -> typer.models.OptionInfo:
    return _flag(name, help, metavar="DURATION")


def serve(
    ctx: typer.Context,
    data_dir: Annotated[Path, _flag("data-dir", "Where spools (and an id) are kept.")],
    config_file: ConfigFile = None,
    settings: Settings = None,
    embedded: Annotated[
        bool, _flag("embedded", "Alone: keep the keys in the data directory, without etcd.")
    ] = False,
    zone: Annotated[str, _flag("zone", "The failure domain of this broker.")] = "local",
    id: Annotated[
        str, _flag("id", "Its name inside the zone; by default one that the data directory keeps.")
    ] = "",
    host: Annotated[str, _flag("host", "The address to listen on and announce.")] = "127.0.0.1",
    port: Annotated[int, _flag("port", "The port to listen on; 0 is a free one.")] = 8080,
    limit: Annotated[
        int, _flag("limit", "How many journals it takes; 0 is 1024, or all if embedded.")
    ] = 0,
    file_root: Annotated[
        Path | None, _flag("file-root", "Where file:// stores lie.", show_default=False)
    ] = None,
    file_only: Annotated[
        bool, _flag("file-only", "Take every store for a file:// store of the same path.")
    ] = False,
    max_append_rate: Annotated[
        int, _flag("max-append-rate", "Cap on a journal's append rate, bytes/s; 0 is none.")
    ] = 0,
    min_append_rate: Annotated[
        int, _flag("min-append-rate", "Bytes/s below which an append is given up.")
    ] = 65_536,
    max_replication: Annotated[int, _flag("max-replication", "Cap on any replication.")] = 9,
    watch_delay: Annotated[
        str, _duration("watch-delay", "How long changes of keys are gathered.")
    ] = "30ms",
    auth_keys: Annotated[
        str,
        _flag(
            "auth-keys",
            "Base64 keys of tokens, the first signs; AA== lets calls without a token pass.",
            envvar="WINDROW_JOURNAL_AUTH_KEYS",
            show_envvar=True,
        ),
    ] = "",
    tls_cert_file: Annotated[
        Path | None, _flag("tls-cert-file", "Our certificate, PEM.", show_default=False)
    ] = None,
    tls_key_file: Annotated[
        Path | None, _flag("tls-key-file", "Its key, PEM.", show_default=False)
    ] = None,
    tls_client_ca_file: Annotated[
        Path | None,
        _flag("tls-client-ca-file", "Clients must show a certificate of it.", show_default=False),
    ] = None,
    tls_peer_cert_file: Annotated[
        Path | None, _flag("tls-peer-cert-file", "What peers are shown.", show_default=False)
    ] = None,
    tls_peer_key_file: Annotated[
        Path | None, _flag("tls-peer-key-file", "Its key, PEM.", show_default=False)
    ] = None,
    tls_peer_ca_file: Annotated[
        Path | None,
        _flag("tls-peer-ca-file", "Peers must show a certificate of it.", show_default=False),
    ] = None,
    etcd_address: Annotated[
        str, _flag("etcd-address", "The etcd of the cluster, as http://127.0.0.1:2379.")
    ] = "",
    etcd_prefix: Annotated[
        str, _flag("etcd-prefix", "What the cluster's keys begin with.")
    ] = "/gazette/cluster",
    etcd_lease: Annotated[
        str, _duration("etcd-lease", "How long a dead broker counts as alive.")
    ] = "20s",
    spool: Annotated[str, _flag("spool", "durable or memory.", metavar="KIND")] = "durable",
    pulse_interval: Annotated[
        str, _duration("pulse-interval", "How often an idle journal is synchronised.")
    ] = "60s",
    peer_timeout: Annotated[
        str, _duration("peer-timeout", "How long a replica may take for an answer.")
    ] = "5s",
    persist_tick: Annotated[
        str, _duration("persist-tick", "How often replicas upload what is left.")
    ] = "60s",
    jump_age: Annotated[
        str, _duration("jump-age", "Age from which a gap in the middle is read over.")
    ] = "6h",
    drain_timeout: Annotated[
        str, _duration("drain-timeout", "How long to wait for others to take over at the end.")
    ] = "60s",
    gateway: Annotated[
        str, _flag("gateway", "off, or shared: HTTP/1 on the same port.", metavar="KIND")
    ] = "shared",
    http_port: Annotated[
        int | None,
        _flag("http-port", "A port for HTTP/1 alone; 0 is a free one.", show_default=False),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        _flag(
            "allow-origin",
            "An origin whose web pages may use HTTP/1, or *; may be given several times.",
            show_default=False,
        ),
    ] = None,
    max_grpc_recv_size: Annotated[
        int, _flag("max-grpc-recv-size", "The largest message taken, bytes.")
    ] = 4 * 1024 * 1024,
    auto_suspend: Annotated[bool, _flag("auto-suspend", "Suspend idle journals.")] = False,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then hand the journals over; a second signal does not wait."""
    from windrow.journal.broker.process import run
    from windrow.journal.broker.settings import BrokerSettings

    load_config(ctx, config_file, settings)
    run(
        BrokerSettings(
            data_dir=data_dir,
            zone=zone,
            id=id,
            host=host,
            port=port,
            limit=limit,
            file_root=file_root,
            file_only=file_only,
            max_append_rate=max_append_rate,
            min_append_rate=min_append_rate,
            max_replication=max_replication,
            watch_delay=_seconds(watch_delay),
            auth_keys=auth_keys,
            tls=_tls_files(
                tls_cert_file,
                tls_key_file,
                tls_client_ca_file,
                tls_peer_cert_file,
                tls_peer_key_file,
                tls_peer_ca_file,
            ),
            etcd_address=etcd_address,
            etcd_prefix=etcd_prefix,
            etcd_lease=_seconds(etcd_lease),
            embedded=embedded,
            spool=spool,  # type: ignore[arg-type]  # checked there
            pulse_interval=_seconds(pulse_interval),
            peer_timeout=_seconds(peer_timeout),
            persist_tick=_seconds(persist_tick),
            jump_age=_seconds(jump_age),
            drain_timeout=_seconds(drain_timeout),
            gateway=gateway,  # type: ignore[arg-type]  # checked there
            http_port=http_port,
            allow_origins=tuple(allow_origin or ()),
            max_message_bytes=max_grpc_recv_size,
            auto_suspend=auto_suspend,
        )
    )


def _tls_files(
    certificate: Path | None,
    key: Path | None,
    client_authority: Path | None,
    peer_certificate: Path | None,
    peer_key: Path | None,
    peer_authority: Path | None,
) -> TlsFiles | None:
    from windrow.journal.broker.settings import TlsFiles, WrongBrokerSettings

    others = (client_authority, peer_certificate, peer_key, peer_authority)
    if certificate is None and key is None and not any(others):
        return None
    if certificate is None or key is None:
        raise WrongBrokerSettings("TLS needs both --tls-cert-file and --tls-key-file")
    return TlsFiles(
        certificate=certificate,
        key=key,
        client_authority=client_authority,
        peer_certificate=peer_certificate,
        peer_key=peer_key,
        peer_authority=peer_authority,
    )


__all__ = ["serve"]
