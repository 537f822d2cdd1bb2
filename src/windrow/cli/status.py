"""``windrow status``: who leads, what waits, what is blocked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from windrow.cli.desks import desk_elsewhere, open_desk
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line, print_rows
from windrow.cli.reaper import ReaperOption, load_with_reaper
from windrow.config import Config
from windrow.relay.assembly import kafka_properties
from windrow.relay.heartbeats import find_heartbeat
from windrow.relay.status import (
    COUNT_LIMIT,
    QUERIES,
    Heartbeat,
    Leader,
    Status,
    Thresholds,
    find_problems,
    read_status,
)
from windrow.types import parse_duration

app = typer.Typer(help="See who leads, what waits and what is blocked.", add_completion=False)


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--max-age") from None


@app.command()
def status(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    reaper_file: ReaperOption = None,
    max_age: Annotated[
        str | None,
        typer.Option(
            "--max-age",
            metavar="DURATION",
            help="Exit 1 if a row has waited longer, as 30s.",
            show_default=False,
        ),
    ] = None,
    max_backlog: Annotated[
        int | None,
        typer.Option(
            "--max-backlog",
            metavar="ROWS",
            min=0,
            help="Exit 1 if more rows wait.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print how the outbox stands; exit 1 past a threshold, or if rows wait and nobody leads."""
    thresholds = Thresholds(None if max_age is None else _seconds(max_age), max_backlog)
    config, _ = load_with_reaper(ctx, reaper_file, config_file, settings)
    limit = max(COUNT_LIMIT, (max_backlog or 0) + 1)
    seen = _look(config, limit)
    problems = find_problems(seen, thresholds)
    if as_json:
        print_json({**asdict(seen), "problems": problems})
    else:
        _print(seen, problems)
    if problems:
        raise typer.Exit(1)


def _look(config: Config, limit: int) -> Status:
    elsewhere = desk_elsewhere(config)
    if elsewhere is not None:
        with elsewhere:
            return elsewhere.status(limit)
    with open_desk(config, QUERIES) as desk:
        return read_status(
            desk,
            elected_by=config.relay.election.kind,
            count_limit=limit,
            find_heartbeat=_heartbeat_of(config),
        )


def _heartbeat_of(config: Config) -> Callable[[int], Heartbeat | None]:
    election = config.relay.election
    return lambda shard: find_heartbeat(
        kafka_properties(config),
        election.topic or f"{election.group}.neli",
        3 * election.heartbeat_timeout,
        shard=shard,
    )


def _print(seen: Status, problems: list[str]) -> None:
    if seen.shards > 1:
        state = "" if seen.is_settled else ", not settled yet"
        print_line(f"shards     {seen.shards} (generation {seen.generation}{state})")
    for leader in seen.leaders:
        shard = f"{leader.shard}: " if seen.shards > 1 else ""
        print_line(f"leader     {shard}{_described(leader)}")
    more = " or more" if seen.backlog_is_bounded else ""
    oldest = "" if seen.oldest_age is None else f", the oldest {seen.oldest_age:.1f} s"
    print_line(f"backlog    {seen.backlog} rows{more}{oldest}; {seen.in_flight} in flight")
    reasons = ", ".join(f"{count} {reason}" for reason, count in seen.blocked_by_reason.items())
    print_line(f"blocked    {reasons or 'nothing'}")
    last = "" if seen.last_dead_letter is None else f", the last at {seen.last_dead_letter:%F %T}"
    print_line(f"dead       {seen.dead_letters} letters{last}")
    if seen.blocked:
        print_line()
        print_rows([asdict(wait) for wait in seen.blocked], as_json=False)
    if seen.hottest:
        print_line()
        print_rows(
            [{"hottest key": hot.key, "rows": hot.rows} for hot in seen.hottest], as_json=False
        )
    for problem in problems:
        print_line(f"problem: {problem}")


def _described(leader: Leader) -> str:
    if leader.name is None:
        return "nobody" if leader.epoch else "nobody, and nobody ever was"
    known = f"{leader.name} (epoch {leader.epoch}, since {leader.since:%F %T}"
    if leader.lease_remaining is not None:
        return f"{known}, lease for {leader.lease_remaining:.1f} s more)"
    if leader.leads:
        return f"{known}, elected by Kafka)"
    if leader.leads is None:
        return f"{known}; whether it still leads is not known here)"
    return f"nobody; the last was {known})"
