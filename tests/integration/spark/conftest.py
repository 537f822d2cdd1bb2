"""A broker of journals for all tests of queues in this directory, and how to reach everything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.services import start_service
from windrow.embedded.broker import Broker
from windrow.spark.queues.clients import close_clients
from windrow.spark.queues.open import close_cached_queues


@pytest.fixture(scope="session")
def queue_broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """A broker that all tests share; each test has journals of its own."""
    with start_service(pytestconfig, "broker", Broker.start) as broker:
        yield broker


@pytest.fixture(autouse=True)
def closed_queues() -> Iterator[None]:
    """No test leaves a connection to the next."""
    yield
    close_cached_queues()
    close_clients()
