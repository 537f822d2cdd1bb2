"""The verbs of ``windrow graph`` that need brokers and no Spark."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from tests.fixtures.services import start_service
from windrow.cli.graph_finding import find_graph
from windrow.cli.main import main
from windrow.config import load
from windrow.embedded.broker import Broker
from windrow.graph.backing import Attempt, SnapshotTaken
from windrow.graph.high_water import Delivered
from windrow.graph.positions import Span
from windrow.graph.recovery_machine import Taken
from windrow.graph.snapshot import Snapshot
from windrow.journal.client.configured import connect_to
from windrow.journal.message.record import Record, decode_records
from windrow.spark.query.leg_plan import LegPlan, plan_legs
from windrow.spark.query.opened import STORES
from windrow.spark.query.start import ensure_places
from windrow.spark.queues.clients import close_clients
from windrow.spark.queues.open import close_cached_queues
from windrow.spark.runner.audit import read_repairs
from windrow.spark.runner.files import LocalFiles
from windrow.spark.runner.settings import connections_for
from windrow.spark.runner.standing import LegWord, Notice
from windrow.spark.runner.topology_guard import guard_topology
from windrow.spark.targets.open import close_cached_targets

SHOP = """
from windrow import Graph, Queue, Source, processor


@processor(reads="orders", writes="priced", deterministic=True)
def price(msgs, ctx):
    return msgs["orders"]


shop = Graph({name!r}, [Source("orders"), price], queues=[Queue("orders", partitions={parts})])
"""


@pytest.fixture(scope="module")
def broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    with start_service(pytestconfig, "broker", Broker.start) as broker:
        yield broker


class Shop:
    """A graph in a file of the working directory, and commands about it."""

    def __init__(self, directory: Path, address: str) -> None:
        self.directory, self.address = directory, address
        self.name = f"shop{token_hex(4)}"
        self.file = f"{self.name}.py"
        self.declare()

    def declare(self, parts: int = 1) -> None:
        (self.directory / self.file).write_text(SHOP.format(name=self.name, parts=parts))

    def run(self, *words: str, code: int = 0) -> str:
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            found = main(["graph", words[0], self.file, *words[1:]])
        told = out.getvalue() + err.getvalue()
        assert found == code, f"{words}: {found}\n{told}"
        assert "Traceback" not in told
        return told

    def ask(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code))

    def records(self, queue: str) -> list[Record]:
        with connect_to(load(environ=os.environ).config.journal) as client:
            return decode_records(client.read(f"{self.name}/{queue}"))

    @property
    def leg(self) -> LegPlan:
        config = load(environ=os.environ).config
        [plan] = plan_legs(find_graph(self.file), connections_for(config))
        return plan

    def deliver(self, *ends: int) -> None:
        """Have snapshots delivered that end there, as a query would."""
        plan = self.leg
        ensure_places(plan)
        backing, target = STORES.backing(plan), STORES.target(plan.target)
        taken = backing.take("test")
        assert isinstance(taken, Taken)
        [one] = STORES.reader(plan.sources["orders"]).available()
        held: Delivered | None = None
        for number, (start, end) in enumerate(pairwise([0, *ends]), 1):
            span = Span("orders", one.incarnation, 0, start, end)
            snapshot = Snapshot(plan.uid, number, (span,))
            taking = SnapshotTaken(snapshot, held.delivery_hash if held else "")
            done = Attempt("attempt-output", number, snapshot.delivery_hash, "priced", 1)
            for record in (taking, done):
                backing.append(record, taken.epoch)
            whole = Delivered(plan.uid, number, snapshot.delivery_hash, snapshot.ends, taken.epoch)
            target.commit_delivered(held, whole)
            held = whole
        close_all()


def close_all() -> None:
    close_cached_queues()
    close_cached_targets()
    close_clients()


@pytest.fixture
def shop(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("WINDROW__JOURNAL__ADDRESS", broker.address)
    monkeypatch.setenv("WINDROW__JOURNAL__PATIENCE", "3s")
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield Shop(tmp_path, broker.address)
    close_all()
    root.handlers[:] = handlers
    root.setLevel(level)


# --- send -----------------------------------------------------------------------------------------


def test_message_is_sent_with_its_key_and_type(shop: Shop) -> None:
    told = shop.ask("send", "orders", '{"count": 2}', "--key", "ada", "--type", "order.placed")
    assert told == {"queue": "orders", "messages": 1, "was_there": False, "positions": {"0": 0}}
    [record] = shop.records("orders")
    assert (record.key, record.value) == (b"ada", b'{"count":2}')
    assert ("windrow-type", b"order.placed") in record.headers
    assert record.time > 0


def test_second_send_with_the_same_idempotency_key_appends_nothing(shop: Shop) -> None:
    first = shop.ask("send", "orders", "1", "--idempotency-key", "order 1/é")
    for value in range(2, 5):
        shop.ask("send", "orders", str(value))  # the writer's last batch is another one by now
    again = shop.ask("send", "orders", "1", "--idempotency-key", "order 1/é")
    assert again["was_there"]
    assert again["positions"] == first["positions"]
    assert [record.value for record in shop.records("orders")] == [b"1", b"2", b"3", b"4"]
    assert "was there already" in shop.run("send", "orders", "1", "--idempotency-key", "order 1/é")


def test_sends_of_one_key_at_once_write_it_once(shop: Shop) -> None:
    """Both find nothing, both append: the registers let one of them through."""
    from windrow.graph.messages import Message
    from windrow.spark.runner.send import send

    config = load(environ=os.environ).config
    graph = find_graph(shop.file)
    together = threading.Barrier(6)
    answers = []

    def try_it(number: int) -> None:
        together.wait()
        for key in ("one", "two"):
            answers.append(send(graph, config, [Message(key)], "orders", key).was_there)
            send(graph, config, [Message(number)], "orders")

    threads = [threading.Thread(target=try_it, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = [record.value for record in shop.records("orders")]
    assert values.count(b'"one"') == values.count(b'"two"') == 1
    assert len(values) == 2 + 12
    assert answers.count(False) == 2


def test_lines_of_input_are_messages_and_keep_their_order(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\n2\n3\n"))
    assert shop.ask("send", "orders", "-")["messages"] == 3
    assert [record.value for record in shop.records("orders")] == [b"1", b"2", b"3"]


def test_messages_of_one_key_go_to_one_partition_again_and_again(shop: Shop) -> None:
    shop.declare(parts=3)
    first = shop.ask("send", "orders", "1", "--key", "ada", "--idempotency-key", "a")
    again = shop.ask("send", "orders", "1", "--key", "ada", "--idempotency-key", "a")
    assert again == {**first, "was_there": True}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("send", "sold", "1"), 'has no source "sold"; its sources are "orders"'),
        (("send", "orders", "not json"), 'not a value of the form "json"'),
        (("stop", "--wait", "soon"), "--wait"),
        (("repair", "--skip", "orders"), "SOURCE:PARTITION"),
        (("run", "--conf", "spark.x"), "KEY=VALUE"),
        (("show", "--set", "graph.max_rows=0"), "max_rows"),
    ],
)
def test_mistake_is_one_line_and_exit_2(shop: Shop, words: tuple[str, ...], said: str) -> None:
    told = shop.run(*words, code=2)
    assert told.startswith("windrow: error:")
    assert said in told


# --- show and status ------------------------------------------------------------------------------


def test_drawing_has_figures_once_something_was_sent(shop: Shop) -> None:
    assert "offset" not in shop.run("show", "--offline")
    shop.run("send", "orders", "1")
    assert "offset 1, lag 1" in shop.run("show")
    shop.run("show", "--svg", "shop.svg", "--html", "shop.html")
    assert "lag 1" in (shop.directory / "shop.svg").read_text()
    assert "<html" in (shop.directory / "shop.html").read_text()
    assert shop.ask("show")["queues"]["orders"] == {"offset": 1, "lag": 1}


def test_drawing_is_made_without_brokers_and_says_what_it_lacks(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDROW__JOURNAL__ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("WINDROW__JOURNAL__PATIENCE", "500ms")
    told = shop.run("show")
    assert "[ price · pipe ]" in told
    assert "no figures:" in told
    assert "problem:" in shop.run("status", code=1)


def test_file_that_cannot_be_written_is_told(shop: Shop) -> None:
    assert "cannot write" in shop.run("show", "--offline", "--svg", "no/such/place", code=1)


def test_status_tells_what_was_delivered_and_what_waits(shop: Shop) -> None:
    assert "never ran here" in shop.run("status")
    shop.run("send", "orders", "1")
    shop.run("send", "orders", "2")
    shop.deliver(1)
    [leg] = shop.ask("status")["legs"]
    assert (leg["leg"], leg["delivered"], leg["lag"]) == (f"{shop.name}/price", 1, 1)
    assert leg["in_doubt"] is None


def test_status_ends_with_1_if_a_processor_needs_somebody(shop: Shop) -> None:
    notice = Notice(LocalFiles(), "checkpoints", shop.name, "me")
    notice.say([LegWord(f"{shop.name}/price", "price", "refused", error="SinkLost: gone")])
    told = shop.ask("status", code=1)
    assert told["running"]
    assert told["problems"] == [f'processor "{shop.name}/price" is refused: SinkLost: gone']


def test_another_topology_is_refused_before_spark_is_started(shop: Shop) -> None:
    guard_topology(LocalFiles(), "checkpoints", find_graph(shop.file))
    text = (shop.directory / shop.file).read_text()
    (shop.directory / f"{shop.name}_changed.py").write_text(text.replace('"priced"', '"sold"'))
    shop.file = f"{shop.name}_changed.py"
    told = shop.run("run", "--once", code=2)
    assert 'no longer writes "priced"' in told
    assert "--accept-topology" in told


# --- stop -----------------------------------------------------------------------------------------


def test_stop_reaches_the_runner_and_waits_for_its_end(shop: Shop) -> None:
    assert "is not running" in shop.run("stop")
    notice = Notice(LocalFiles(), "checkpoints", shop.name, "me")
    notice.begin()
    notice.say([])
    assert "was asked to stop" in shop.run("stop", "--wait", "0s")
    assert notice.is_stop_requested()
    assert "has not within" in shop.run("stop", "--wait", "300ms", code=1)
    ending = threading.Timer(0.3, notice.say, ([],), {"is_ended": True})
    ending.start()
    assert "has stopped" in shop.run("stop", "--wait", "30s")
    ending.join()


# --- repair ---------------------------------------------------------------------------------------


def test_well_graph_needs_no_repair(shop: Shop) -> None:
    assert "nothing is wrong" in shop.run("repair")


def test_torn_log_is_removed_after_a_yes_and_written_down(shop: Shop) -> None:
    shop.run("send", "orders", "1")
    offsets = shop.directory / "checkpoints" / shop.name / "price" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("")
    (offsets / ".0.crc").write_text("crc")
    told = shop.run("repair", "--dry-run")
    assert "was cut short" in told
    assert "will remove" in told
    assert "add --yes" in shop.run("repair", code=2)
    assert (offsets / "0").exists()
    shop.run("repair", "--yes")
    assert list(offsets.iterdir()) == []
    [line] = read_repairs(LocalFiles(), "checkpoints", shop.name)
    assert line["leg"] == f"{shop.name}/price"
    assert line["removed"][0].endswith("offsets/0")
    assert shop.ask("repair")["findings"] == []


def test_lost_sink_is_refused_then_mended_by_its_flag(shop: Shop) -> None:
    shop.run("send", "orders", "1")
    shop.run("send", "orders", "2")
    shop.deliver(1, 2)
    lose(f"{shop.name}/priced")
    told = shop.run("repair", code=1)
    assert "needs --sink-lost" in told
    [finding] = shop.ask("repair", "--sink-lost", "--yes")["findings"]
    assert finding["done"]
    state = STORES.backing(shop.leg).read()
    assert state.rewound is not None
    assert "repair" in state.rewound.reason
    assert "nothing is wrong" in shop.run("repair")
    [line] = read_repairs(LocalFiles(), "checkpoints", shop.name)
    assert '"rewound"' in line["record"]


def test_source_made_again_is_refused_then_mended_by_its_flag(shop: Shop) -> None:
    shop.run("send", "orders", "1")
    shop.deliver(1)
    lose(f"{shop.name}/orders")
    shop.run("send", "orders", "2")
    told = shop.run("repair", code=1)
    assert "deleted and made again" in told
    assert "needs --accept-incarnation orders" in told
    shop.run("repair", "--accept-incarnation", "orders", "--yes")
    assert not any(finding["blocks"] for finding in shop.ask("repair")["findings"])


def test_running_graph_is_not_mended(shop: Shop) -> None:
    Notice(LocalFiles(), "checkpoints", shop.name, "me").say([])
    assert "windrow graph stop" in shop.run("repair", code=1)


def lose(journal: str) -> None:
    """Delete a journal; whoever asks for it next makes another."""
    from windrow.journal.client.requests import Delete

    close_all()
    with connect_to(load(environ=os.environ).config.journal) as client:
        [found] = [
            each for each in client.list(f"name={journal}").journals if each.spec.name == journal
        ]
        client.apply([Delete(journal, found.mod_revision)])
        deadline = time.monotonic() + 20
        while client.list(f"name={journal}").journals:
            assert time.monotonic() < deadline
            time.sleep(0.05)
