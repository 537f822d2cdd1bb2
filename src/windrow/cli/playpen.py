"""``windrow playpen``: heroes, a producer, relays and a receiver, to try the outbox on."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Annotated, cast

import typer

from windrow.cli.foreground import stopped_by_signals
from windrow.cli.loading import load_config
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_line, print_rows
from windrow.cli.progress import shown
from windrow.errors import StartFailed
from windrow.extras import require
from windrow.playpen.serving import Served, listen, url_of
from windrow.playpen.tail import Tail
from windrow.types import parse_duration

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from windrow.playpen.ground import Database, Playpen

app = typer.Typer(
    help="Try the outbox: a producer, relays and a receiver.",
    add_completion=False,
    no_args_is_help=True,
)

HERE = "127.0.0.1"
DATABASES = ("postgres", "mariadb", "sqlite")
LOOK_INTERVAL = 0.1
Idempotent = Annotated[bool, typer.Option("--idempotent", help="Put an inbox before the receiver.")]
Host = Annotated[str, typer.Option("--host", help="The address to listen on.")]
ProducerPort = Annotated[
    int, typer.Option("--producer-port", min=0, max=65535, help="The producer's port.")
]
ReceiverPort = Annotated[
    int, typer.Option("--receiver-port", min=0, max=65535, help="The receiver's port.")
]


@app.command()
def producer(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    host: Host = HERE,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 is a free one.")] = 3000,
    receiver: Annotated[
        str, typer.Option("--receiver", metavar="URL", help="Whom the control calls.")
    ] = "http://127.0.0.1:3001",
    sync_timeout: Annotated[
        str, typer.Option("--sync-timeout", metavar="TIME", help="How long the control waits.")
    ] = "5s",
) -> None:
    """Run the producer on the configured database, until SIGTERM or Ctrl-C."""
    _require_web()
    database = load_config(ctx, config_file, settings).config.database
    seconds = _duration(sync_timeout, "--sync-timeout")
    from windrow.playpen.heroes import Heroes
    from windrow.playpen.producer import Producer, producer_app

    heroes = Heroes(database.dsn.reveal(), database.table)
    with listen("producer", host, port) as listener:
        heroes.prepare()
        _serve("producer", producer_app(Producer(heroes, receiver, seconds)), listener)


@app.command()
def receiver(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    host: Host = HERE,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 is a free one.")] = 3001,
    data: Annotated[
        Path, typer.Option("--data", metavar="FILE", help="Where to keep what comes.")
    ] = Path("receiver.db"),
    producer_url: Annotated[
        str | None, typer.Option("--producer", metavar="URL", help="Whom /gaps asks.")
    ] = None,
    idempotent: Idempotent = False,
) -> None:
    """Run the receiver, until SIGTERM or Ctrl-C."""
    _require_web()
    load_config(ctx, config_file, settings)
    from windrow.playpen.arrivals import Arrivals
    from windrow.playpen.receiver import Receiver, receiver_app

    with listen("receiver", host, port) as listener:
        arrivals = Arrivals(data, once=idempotent)
        web = receiver_app(Receiver(arrivals, producer_url, idempotent=idempotent))
        _serve("receiver", web, listener)


def _serve(name: str, web: ASGIApp, listener: socket) -> None:
    server = Served(web)
    with stopped_by_signals(server.stop):
        print_line(f"{name} on {url_of(listener)}")
        if not server.run(listener):
            raise typer.Exit(1)


def _require_web() -> None:
    for module in ("starlette", "uvicorn", "httpx"):
        require(module)


def _duration(text: str, option: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


@app.command()
def up(
    relays: Annotated[int, typer.Option("--relays", min=0, max=64, help="How many compete.")] = 2,
    database: Annotated[
        str, typer.Option("--database", help="postgres, mariadb or sqlite.")
    ] = "postgres",
    producer_port: ProducerPort = 3000,
    receiver_port: ReceiverPort = 3001,
    keep_data: Annotated[
        Path | None,
        typer.Option("--keep-data", metavar="DIR", help="Leave the data there for the next time."),
    ] = None,
    idempotent: Idempotent = False,
    revive_after: Annotated[
        str,
        typer.Option(
            "--revive-after", metavar="TIME", help="Start a killed part again; 0s is never."
        ),
    ] = "5s",
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Do not show what the parts tell.")
    ] = False,
) -> None:
    """Start a database, the producer, the receiver and relays; Ctrl-C ends them all."""
    _require_web()
    seconds = _duration(revive_after, "--revive-after")
    if database not in DATABASES:
        raise typer.BadParameter(f"one of {', '.join(DATABASES)}", param_hint="--database")
    from windrow.playpen.ground import Playpen

    asked = threading.Event()
    with (
        stopped_by_signals(lambda at_once: asked.set()),
        Playpen.start(
            database=cast("Database", database),
            relays=relays,
            producer_port=producer_port,
            receiver_port=receiver_port,
            idempotent=idempotent,
            keep=keep_data,
            environ=os.environ,
            say=print_line,
        ) as playpen,
    ):
        _print_examples(playpen)
        _watch(playpen, asked, seconds, is_quiet=quiet)
        print_line("stopping")


def _watch(playpen: Playpen, asked: threading.Event, pause: float, *, is_quiet: bool) -> None:
    """Show what the parts tell, and start those again that were killed, until it is time to end."""
    tails = [] if is_quiet else [Tail(name, path) for name, path in playpen.logs.items()]
    due: dict[str, float] = {}
    while not asked.wait(LOOK_INTERVAL):
        _print_tails(tails)
        for name in playpen.ended():
            if name not in due:
                due[name] = time.monotonic() + pause
                print_line(f"{name} has ended" + (f"; it comes back in {pause:g} s" * (pause > 0)))
            elif pause > 0 and time.monotonic() >= due[name]:
                del due[name]
                _revive(playpen, name)


def _revive(playpen: Playpen, name: str) -> None:
    try:
        print_line(f"{name} is back: process {playpen.revive(name)}")
    except StartFailed as error:
        print_line(str(error))


def _print_tails(tails: list[Tail]) -> None:
    for tail in tails:
        for line in tail.lines():
            print_line(f"{tail.name:<9}| {line}")


def _print_examples(playpen: Playpen) -> None:
    producer, receiver = playpen.producer.url, playpen.receiver.url
    hero = """-H 'content-type: application/json' -d '{"name": "Batman"}'"""
    print_line(
        f"""
  with the outbox     curl -X POST {producer}/hero/create {hero}
  without             curl -X POST {producer}/hero/create-sync {hero}
  what arrived        curl {receiver}/messages
  what arrived twice  curl {receiver}/duplicates
  what did not        curl '{receiver}/gaps?producer={producer}'
  misbehave           curl -X PUT {receiver}/faults -d '{{"mode": "fail", "rate": 0.5}}'
  a steady stream     windrow playpen send --producer {producer} --count 1000 --rate 50
  to look at          {producer}/ and {receiver}/
"""
    )


@app.command()
def send(
    producer_url: Annotated[
        str, typer.Option("--producer", metavar="URL", help="Whom to ask.")
    ] = "http://127.0.0.1:3000",
    count: Annotated[int, typer.Option("--count", min=1, help="How many in all.")] = 100,
    rate: Annotated[
        float, typer.Option("--rate", min=0, help="How many per second; 0 is as fast as it goes.")
    ] = 20.0,
    sync_share: Annotated[
        float, typer.Option("--sync-share", min=0, max=1, help="How many of them are the control.")
    ] = 0.5,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", metavar="DIR", help="Keep the account of what was answered."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create heroes at a steady rate, half of them without the outbox; exit 1 if none was."""
    from windrow.playpen.stream import Stream

    with tempfile.TemporaryDirectory() as scratch, shown("sending", count) as advance:
        stream = Stream(
            producer_url,
            Path(scratch) if ledger is None else ledger,
            rate=rate,
            count=count,
            sync_share=sync_share,
            on_sent=lambda sent: advance(1),
        )
        stopping = threading.Event()
        with stopped_by_signals(lambda at_once: stopping.set()), stream:
            while not stopping.is_set() and not stream.wait(LOOK_INTERVAL):
                pass
    counts = stream.counts
    rows: list[dict[str, object]] = [
        {"kind": kind, **dict(numbers.items())} for kind, numbers in counts.items()
    ]
    print_rows(rows, as_json=as_json)
    if not any(numbers["written"] for numbers in counts.values()):
        raise typer.Exit(1)
