"""Fragments as objects of a bucket: S3 itself, or whatever speaks its protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from windrow.extras import require
from windrow.journal.fragments.errors import InvalidStore, StoreError, StoreForbidden
from windrow.journal.fragments.stores.rewrite import StoreAddress
from windrow.journal.fragments.stores.store import Stored

ARGUMENTS = frozenset({"endpoint", "region", "SSE", "SSEKMSKeyId", "storageClass"})
_UNSUPPORTED = {
    "ACL": "let the bucket enforce its owner instead",
    "profile": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role, instead",
}
_DEFAULT_REGION = "us-east-1"
_SETTING_OF = {
    "endpoint": "endpoint",
    "region": "region",
    "SSE": "server_side_encryption",
    "SSEKMSKeyId": "sse_kms_key_id",
}


class S3Store:
    """An ``s3://bucket/path/`` store. Credentials come from the environment, as AWS's tools do it.

    ``settings`` are passed to the client as they are, and win over the environment.
    """

    def __init__(self, url: str, request_timeout: float = 60.0, **settings: Any) -> None:
        self.url = url
        known = ARGUMENTS | frozenset(_UNSUPPORTED)
        self._address = address = StoreAddress.parse(url, known)
        for argument, instead in _UNSUPPORTED.items():
            if argument in address.arguments:
                raise InvalidStore(url, f"argument {argument!r} is not supported; {instead}")
        self._attributes: dict[str, str] = {}
        if "storageClass" in address.arguments:
            self._attributes["Storage-Class"] = address.arguments["storageClass"]
        self._obstore = require("obstore")
        self._bucket = require("obstore.store").S3Store(
            address.host,
            **{**_client_settings(address, request_timeout), **settings},
        )

    def exists(self, path: str) -> bool:
        """Whether there is an object of that path."""
        with self._diagnosed("head"):
            try:
                self._obstore.head(self._bucket, self._key(path))
            except FileNotFoundError:
                return False
            return True

    def put(self, path: str, content: Iterable[bytes], encoding: str = "") -> None:
        """Upload an object, in parts if it is large."""
        attributes = dict(self._attributes)
        if encoding:
            attributes["Content-Encoding"] = encoding
        with self._diagnosed("put"):
            self._obstore.put(self._bucket, self._key(path), content, attributes=attributes)

    def get(self, path: str) -> Iterator[bytes]:
        """The object as it is kept, in pieces."""
        with self._diagnosed("get"):
            for chunk in self._obstore.get(self._bucket, self._key(path)).stream():
                yield bytes(chunk)

    def list(self, path: str) -> Iterator[Stored]:
        """Every object below a prefix."""
        prefix = self._key(path)
        with self._diagnosed("list"):
            for batch in self._obstore.list(self._bucket, prefix.removesuffix("/")):
                for found in batch:
                    below = found["path"].removeprefix(prefix)
                    yield Stored(below, int(found["last_modified"].timestamp()))

    def remove(self, path: str) -> None:
        """Delete the object."""
        with self._diagnosed("delete"):
            self._obstore.delete(self._bucket, self._key(path))

    def signed_url(self, path: str, lifetime: float) -> str:
        """A URL that lets anybody fetch the object."""
        with self._diagnosed("sign"):
            signed = self._obstore.sign(
                self._bucket, "GET", self._key(path), timedelta(seconds=lifetime)
            )
            return str(signed)

    def _key(self, path: str) -> str:
        return self._address.key(path).lstrip("/")

    @contextmanager
    def _diagnosed(self, operation: str) -> Iterator[None]:
        errors = require("obstore.exceptions")
        try:
            yield
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise StoreForbidden(self.url, operation, _first_line(error)) from error
        except (errors.BaseError, OSError) as error:
            raise StoreError(self.url, operation, _first_line(error)) from error


def _client_settings(address: StoreAddress, request_timeout: float) -> dict[str, Any]:
    arguments = address.arguments
    settings: dict[str, Any] = {"region": _DEFAULT_REGION} if "endpoint" in arguments else {}
    settings |= {_SETTING_OF[name]: arguments[name] for name in _SETTING_OF if name in arguments}
    options: dict[str, Any] = {"timeout": timedelta(seconds=request_timeout)}
    if "endpoint" in arguments:
        # Names of buckets below a host of one's own rarely resolve.
        settings["virtual_hosted_style_request"] = False
        options["allow_http"] = arguments["endpoint"].startswith("http://")
    return settings | {
        "client_options": options,
        "retry_config": {"max_retries": 3, "retry_timeout": timedelta(seconds=request_timeout)},
    }


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
