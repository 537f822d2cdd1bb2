"""``windrow relay``: move records from the outbox to its target until told to stop."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Annotated

import typer

from windrow.cli.desks import open_desk, tell
from windrow.cli.foreground import served, stopped_by_signals
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.reaper import ReaperOption, load_with_reaper
from windrow.config import Config, Setting
from windrow.relay import holds
from windrow.relay.partitioning import partitioner_of
from windrow.relay.reaper_config import PARTITIONER_NOTE, Translation
from windrow.relay.reporting import Sampler, count_events, log_events
from windrow.relay.service import Relay
from windrow.telemetry import EventBus, Metrics, get_logger

if TYPE_CHECKING:
    from windrow.relay.competing.service import CompetingRelay

app = typer.Typer(
    help="Move records from the outbox to its target.", add_completion=False, no_args_is_help=False
)

_log = get_logger("windrow.relay")

SAMPLE_INTERVAL = 1.0
GARBAGE_THRESHOLDS = (100_000, 20, 100)
"""Rows come and go by the thousand and refer to nothing: to look among them for cycles every few
hundred, as Python does by default, costs a third of the time and finds none."""


@app.callback(invoke_without_command=True)
def relay(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    mode: Annotated[
        str | None,
        typer.Option("--mode", help="barrier, transactional or competing.", show_default=False),
    ] = None,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Stop once the outbox has been emptied.")
    ] = False,
) -> None:
    """Relay until SIGTERM or Ctrl-C, then hand over: what is on its way is waited for."""
    if ctx.invoked_subcommand is not None:
        if config_file or settings or reaper_file or mode or until_empty:
            raise typer.BadParameter(f"write options after {ctx.invoked_subcommand!r}")
        return
    flags = [] if mode is None else [Setting(("relay", "mode"), mode, "--mode")]
    config, translation = load_with_reaper(ctx, reaper_file, config_file, settings, flags)
    if translation is not None:
        _tell_translation(config, translation)
    run(config, until_empty=until_empty)


Topic = Annotated[
    str | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic.", show_default=False),
]
Key = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="Only this key.", show_default=False)
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


@app.command()
def pause(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    topic: Topic = None,
    key: Key = None,
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="Why, for whoever asks.")
    ] = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Keep records in the outbox: all, or those of a topic or a key; what was taken still goes."""
    subject = _subject(topic, key)
    config, _ = load_with_reaper(ctx, reaper_file, config_file, settings)
    with open_desk(config, holds.QUERIES) as desk:
        outcome = holds.pause(desk, subject, note, dry_run=dry_run)
    tell(outcome, as_json=as_json, dry_run=dry_run)


@app.command()
def resume(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    topic: Topic = None,
    key: Key = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let records go on that were paused."""
    subject = _subject(topic, key)
    config, _ = load_with_reaper(ctx, reaper_file, config_file, settings)
    with open_desk(config, holds.QUERIES) as desk:
        outcome = holds.resume(desk, subject, dry_run=dry_run)
    tell(outcome, as_json=as_json, dry_run=dry_run)


def _subject(topic: str | None, key: str | None) -> holds.Subject:
    if topic is not None and key is not None:
        raise typer.BadParameter("give a topic or a key, not both", param_hint="--topic, --key")
    if topic is not None:
        return holds.Subject("topic", topic)
    return holds.Subject() if key is None else holds.Subject("key", key)


def _tell_translation(config: Config, translation: Translation) -> None:
    """Say what of goharvest's file is different here."""
    chosen = partitioner_of(config)
    _log.info("goharvest's file read", partitioner=chosen, why=PARTITIONER_NOTE)
    if translation.ignored:
        _log.info("of no effect here", ignored="; ".join(translation.ignored))
    for warning in translation.warnings:
        _log.warning(warning)


def run(config: Config, *, until_empty: bool = False) -> None:
    """Relay as configured, in the foreground, until a signal or an error ends it."""
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    if config.relay.mode == "competing":
        compete(config, until_empty=until_empty)
        return
    metrics, bus = Metrics(), EventBus()
    log_events(bus)
    count_events(bus, metrics)
    running = Relay(config, bus)
    sampler = Sampler(running, metrics)
    with (
        # The first signal asks for a hand-over.
        stopped_by_signals(lambda at_once: running.stop(0.0 if at_once else None)),
        served(config, metrics, "relay", lambda: _problem(running)),
    ):
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


def compete(config: Config, *, until_empty: bool = False) -> None:
    """Share an outbox with other relays, in the foreground, until a signal or an error ends it."""
    from windrow.relay.competing import reporting
    from windrow.relay.competing.assembly import competing_relay

    metrics, bus = Metrics(), EventBus()
    reporting.log_events(bus)
    reporting.count_events(bus, metrics)
    running = competing_relay(config, bus)
    sampler = reporting.CompetingSampler(running, metrics)
    with (
        stopped_by_signals(lambda at_once: running.stop(0.0 if at_once else None)),
        served(config, metrics, "relay", lambda: _problem(running)),
    ):
        running.start()
        _log.info("relay started", mode="competing", holder=str(running.token))
        idle_since = 0
        while not running.wait(SAMPLE_INTERVAL):
            moved = sampler.sample()
            idle_since = 0 if moved or running.in_flight else idle_since + 1
            if until_empty and idle_since >= 2:
                running.stop()
    sampler.sample()
    _log.info("relay stopped", delivered=running.delivered)


def _problem(running: Relay | CompetingRelay) -> str | None:
    return None if running.state.value in ("created", "running") else running.state.value
