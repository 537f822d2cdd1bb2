"""The two services, and requests to them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fixtures.databases import Postgres
from windrow.playpen.services import PlaypenProducer, PlaypenReceiver, PlaypenService

HERO = {"name": "Batman", "team": "Justice League"}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


def request(
    service: PlaypenService,
    method: str,
    path: str,
    body: object = None,
    headers: dict[str, str] | None = None,
    timeout: float = 60.0,
) -> Answer:
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection = HTTPConnection("127.0.0.1", service.port, timeout=timeout)
    try:
        connection.request(method, path, content, headers or {})
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, found, answer.read())
    finally:
        connection.close()


def post(service: PlaypenService, path: str, body: object, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return request(service, "POST", path, body, named)


def plain(id: str) -> dict[str, Any]:
    return {"id": id, "msg": "HERO_CREATED", "payload": {"name": id}, "correlation": f"c-{id}"}


@pytest.fixture(scope="module")
def receiver() -> Iterator[PlaypenReceiver]:
    """One for all tests of a module; each starts it again if it has stopped it."""
    with PlaypenReceiver.start() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def producer(postgres_server: Postgres, receiver: PlaypenReceiver) -> Iterator[PlaypenProducer]:
    """One on PostgreSQL for all tests of a module."""
    name = f"test_{secrets.token_hex(6)}"
    dsn = postgres_server.create_database(name, template="template0")
    with PlaypenProducer.start(dsn, receiver.url) as producer:
        yield producer
    postgres_server.drop_database(name)


@pytest.fixture(params=["postgres", "mariadb", "sqlite"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    match request.param:
        case "postgres":
            return str(request.getfixturevalue("database"))
        case "mariadb":
            return str(request.getfixturevalue("mariadb_database"))
        case _:
            return f"sqlite:///{tmp_path / 'heroes.db'}"
