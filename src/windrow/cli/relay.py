"""``windrow relay``: move records from the outbox to Kafka until told to stop."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Annotated

import typer

from windrow.cli.loading import load_config
from windrow.cli.options import ConfigFile, Settings
from windrow.config import Config, Setting
from windrow.relay.assembly import build_relay
from windrow.relay.reporting import Sampler, count_events, log_events
from windrow.relay.service import Relay
from windrow.telemetry import CheckKind, EventBus, Health, Metrics, get_logger, http

app = typer.Typer(
    help="Move records from the outbox to Kafka.", add_completion=False, no_args_is_help=False
)

_log = get_logger("windrow.relay")

SAMPLE_INTERVAL = 1.0


@app.callback(invoke_without_command=True)
def relay(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    mode: Annotated[
        str | None, typer.Option("--mode", help="barrier or transactional.", show_default=False)
    ] = None,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Stop once the outbox has been emptied.")
    ] = False,
) -> None:
    """Relay until SIGTERM or Ctrl-C, then hand over: what is on its way is waited for."""
    if ctx.invoked_subcommand is not None:
        return
    flags = [] if mode is None else [Setting(("relay", "mode"), mode, "--mode")]
    config = load_config(ctx, config_file, settings, flags).config
    run(config, until_empty=until_empty)


def run(config: Config, *, until_empty: bool = False) -> None:
    """Relay as configured, in the foreground, until a signal or an error ends it."""
    metrics, bus = Metrics(), EventBus()
    log_events(bus)
    count_events(bus, metrics)
    running = build_relay(config, bus)
    sampler = Sampler(running, metrics)
    with _stopped_by_signals(running), _served(config, running, metrics):
        running.start()
        _log.info("relay started", mode=config.relay.mode, election=config.relay.election.kind)
        idle_since = 0
        while not running.wait(SAMPLE_INTERVAL):
            moved = sampler.sample()
            idle_since = (
                0 if moved or not running.is_leader or running.in_flight else idle_since + 1
            )
            if until_empty and idle_since >= 2:
                running.stop()
    sampler.sample()
    _log.info("relay stopped", delivered=running.delivered)


@contextlib.contextmanager
def _stopped_by_signals(running: Relay) -> Iterator[None]:
    """The first signal asks for a hand-over; the second does not wait for it."""
    asked = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        running.stop(0.0 if asked.is_set() else None)
        asked.set()

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _served(config: Config, running: Relay, metrics: Metrics) -> Iterator[None]:
    """Metrics and health, if a port is configured."""
    if config.http.port == 0:
        yield
        return
    health = Health()
    health.add("relay", lambda: _problem(running), kind=CheckKind.LIVE)
    server = http.start(config.http.host, config.http.port, metrics, health)
    try:
        yield
    finally:
        server.stop()


def _problem(running: Relay) -> str | None:
    return None if running.state.value in ("created", "running") else running.state.value
