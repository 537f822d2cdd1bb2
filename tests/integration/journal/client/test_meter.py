"""What a client counts of its own doings."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from tests.fixtures.journal_server import Fault, JournalServer
from tests.integration.journal.client.serving import JOURNAL
from windrow.journal.client.append_service import AppendService
from windrow.journal.client.client import JournalClient
from windrow.journal.errors import AppendUnknown, WrongAppendOffset
from windrow.journal.wire import protocol_pb2 as pb
from windrow.telemetry import Metrics


def lines(metrics: Metrics) -> set[str]:
    told = metrics.exposition().decode().splitlines()
    return {line for line in told if "journal_client" in line and "_created" not in line}


def test_a_client_counts_appends_by_their_outcome_and_bytes_and_retries() -> None:
    metrics = Metrics()

    async def scenario() -> None:
        async with JournalServer() as server:
            server.create(JOURNAL)
            async with JournalClient(server.address, metrics=metrics) as client:
                server.faults["Append"].append(Fault(status=pb.INSUFFICIENT_JOURNAL_BROKERS))
                await client.append(JOURNAL, b"four")
                with pytest.raises(WrongAppendOffset):
                    await client.append(JOURNAL, b"x", offset=77)
                server.faults["Append"].append(Fault(code=grpc.StatusCode.UNAVAILABLE))
                with pytest.raises(AppendUnknown):
                    await client.append(JOURNAL, b"x")
                async with AppendService(client) as service:
                    await service.append(JOURNAL, b"six...")
                assert await client.read(JOURNAL) == b"foursix..."

    asyncio.run(scenario())
    prefix = "windrow_journal_client"
    assert {
        f'{prefix}_appends_total{{outcome="committed"}} 2.0',
        f'{prefix}_appends_total{{outcome="refused"}} 2.0',
        f'{prefix}_appends_total{{outcome="unknown"}} 1.0',
        f"{prefix}_append_bytes_total 10.0",
        f"{prefix}_read_bytes_total 10.0",
        f'{prefix}_retries_total{{operation="Append"}} 1.0',
    } <= lines(metrics)
