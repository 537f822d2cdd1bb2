"""The account of a stream says what is known of each request, and nothing more."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fixtures.processes import eventually
from windrow.embedded.ports import free_port
from windrow.playpen.services import PlaypenProducer, PlaypenReceiver
from windrow.playpen.stream import Stream
from windrow.verify import LedgerFile, tally
from windrow.verify.tally import Arrival


def arrivals(receiver: PlaypenReceiver) -> list[Arrival]:
    messages = receiver.get("/messages?limit=10000")["messages"]
    return [(message["payload"]["name"], message["correlation"]) for message in messages]


def test_ledgers_tell_the_written_from_the_lost(
    producer: PlaypenProducer, receiver: PlaypenReceiver, tmp_path: Path
) -> None:
    seen: list[str] = []
    stream = Stream(
        producer.url,
        tmp_path,
        rate=200.0,
        count=40,
        on_sent=lambda sent: seen.append(sent.correlation),
    )
    with stream:
        assert stream.wait(60.0)
    assert stream.counts["outbox"]["written"] == stream.counts["sync"]["written"] == 20
    assert len(seen) == 40
    by_sync = tally(LedgerFile(stream.ledgers["sync"]), arrivals(receiver))
    assert (by_sync.written, by_sync.lost, by_sync.doubled) == (20, 0, 0)
    by_outbox = tally(LedgerFile(stream.ledgers["outbox"]), [])
    assert (by_outbox.written, by_outbox.lost) == (20, 20), "there is no relay here"
    times = [json.loads(line) for line in stream.times.read_text().splitlines()]
    assert len(times) == 40
    assert all(each["seconds"] > 0 and each["message_id"] for each in times)


def test_control_without_a_receiver_is_written_and_lost(
    producer: PlaypenProducer, receiver: PlaypenReceiver, tmp_path: Path
) -> None:
    before = arrivals(receiver)
    receiver.end()
    with Stream(producer.url, tmp_path, rate=0, count=10, sync_share=1.0) as stream:
        assert stream.wait(60.0)
    receiver.restart()
    assert stream.counts["sync"] == {"written": 10, "undone": 0, "maybe": 0}
    now = [each for each in arrivals(receiver) if each not in before]
    assert tally(LedgerFile(stream.ledgers["sync"]), now).lost == 10


def test_request_to_nobody_is_undone(tmp_path: Path) -> None:
    with Stream(f"http://127.0.0.1:{free_port()}", tmp_path, rate=0, count=6) as stream:
        assert stream.wait(60.0)
    assert stream.counts["outbox"] == {"written": 0, "undone": 3, "maybe": 0}
    assert list(LedgerFile(stream.ledgers["outbox"])) == []


def test_killed_producer_leaves_a_maybe_and_what_was_answered_is_there(
    producer: PlaypenProducer, tmp_path: Path
) -> None:
    with Stream(producer.url, tmp_path, rate=0, sync_share=0.0, workers=4) as stream:
        assert eventually(lambda: stream.counts["outbox"]["written"] > 50, 60.0)
        producer.kill()
        assert eventually(lambda: stream.counts["outbox"]["undone"] > 0, 60.0)
    producer.restart()
    entries = list(LedgerFile(stream.ledgers["outbox"]))
    written = {entry.id for entry in entries if not entry.maybe}
    known = {hero["correlation"] for hero in producer.get("/heroes?limit=10000")["heroes"]}
    assert written <= known
    strangers = {c for c in known if c.startswith(next(iter(entries)).key.split("-")[0])}
    assert strangers <= {entry.id for entry in entries}, "what is there was at least a maybe"
