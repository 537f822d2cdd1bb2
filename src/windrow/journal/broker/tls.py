"""Credentials of a broker: what it shows to clients and to its peers, and whom it believes."""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc

from windrow.errors import UsageError
from windrow.journal.broker.settings import TlsFiles


class UnreadableTlsFile(UsageError):
    """A certificate or key cannot be read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"cannot use the TLS file {self.path}: {self.reason}"


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """What the gRPC server shows; with a client authority, clients must show something too.

    Raises:
        UnreadableTlsFile: One of the files cannot be read.
    """
    pair = (_read(files.key), _read(files.certificate))
    authorities = _authorities(files)
    return grpc.ssl_server_credentials(
        [pair], root_certificates=authorities, require_client_auth=authorities is not None
    )


def peer_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    """What this broker shows to a peer, and which peers it believes.

    Raises:
        UnreadableTlsFile: One of the files cannot be read.
    """
    trusted = files.peer_authority or files.client_authority
    return grpc.ssl_channel_credentials(
        root_certificates=None if trusted is None else _read(trusted),
        private_key=_read(files.peer_key or files.key),
        certificate_chain=_read(files.peer_certificate or files.certificate),
    )


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """The same as ``server_credentials``, for a port that answers HTTP/1 and h2.

    Raises:
        UnreadableTlsFile: One of the files cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        context.load_cert_chain(files.certificate, files.key)
        for authority in {files.client_authority, files.peer_authority} - {None}:
            context.load_verify_locations(authority)
    except (OSError, ssl.SSLError) as error:
        raise UnreadableTlsFile(str(files.certificate), str(error)) from error
    if files.client_authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _authorities(files: TlsFiles) -> bytes | None:
    if files.client_authority is None:
        return None
    both = [files.client_authority]
    if files.peer_authority not in (None, files.client_authority):
        both.append(files.peer_authority)
    return b"\n".join(_read(path) for path in both if path is not None)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableTlsFile(str(path), error.strerror or str(error)) from error
