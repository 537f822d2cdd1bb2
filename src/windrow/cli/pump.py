"""``windrow pump``: write made-up records into an outbox, as many and as fast as wanted."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from windrow.cli.loading import load_config
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line
from windrow.config import Config, Setting
from windrow.outbox.table import Table
from windrow.relay.go_dsn import as_libpq
from windrow.relay.load import Load
from windrow.relay.pumping import Progress, Pump
from windrow.telemetry import get_logger
from windrow.verify import Ledger

app = typer.Typer(help="Write made-up records into an outbox.", add_completion=False)

_log = get_logger("windrow.pump")

LOG_INTERVAL = 5.0


def _sizes(text: str) -> tuple[int, int]:
    least, _, greatest = text.partition("-")
    try:
        sizes = int(least), int(greatest or least)
    except ValueError:
        sizes = -1, -1
    if not 0 <= sizes[0] <= sizes[1]:
        raise typer.BadParameter("write it as 100 or 100-2000", param_hint="--size")
    return sizes


@app.command()
def pump(
    ctx: typer.Context,
    keys: Annotated[int, typer.Option("--keys", "-keys", min=1, help="How many keys there are.")],
    records: Annotated[
        int, typer.Option("--records", "-records", min=0, help="How many records to write.")
    ],
    config_file: ConfigFile = None,
    settings: Settings = None,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval",
            "-interval",
            min=0,
            metavar="MS",
            help="Milliseconds between records.",
            show_default=False,
        ),
    ] = None,
    data_source: Annotated[
        str | None,
        typer.Option("--ds", "-ds", metavar="DSN", help="The database.", show_default=False),
    ] = None,
    outbox: Annotated[
        str | None,
        typer.Option(
            "--outbox", "-outbox", metavar="TABLE", help="The outbox.", show_default=False
        ),
    ] = None,
    topic: Annotated[str, typer.Option("--topic", "-topic", help="Where they are to go.")] = "pump",
    blank: Annotated[bool, typer.Option("--blank", "-blank", help="Without values.")] = False,
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=0.001, help="Records a second.", show_default=False),
    ] = None,
    skew: Annotated[
        float, typer.Option("--skew", min=0, help="Zipf's exponent; 0 draws all keys alike.")
    ] = 0.0,
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="MIN-MAX", help="Length of the values.", show_default=False),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, help="Connections that write at a time.")
    ] = 1,
    rollbacks: Annotated[
        float,
        typer.Option(
            "--rollbacks", min=0, max=100, metavar="PERCENT", help="Transactions rolled back."
        ),
    ] = 0.0,
    per_transaction: Annotated[
        int, typer.Option("--per-transaction", min=1, help="Records of one transaction.")
    ] = 20,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger", metavar="FILE", help="Write down what was committed.", show_default=False
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="The same records each time.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write records with keys key-0, key-1 …, and their number in the header Seq."""
    if rate is not None and interval is not None:
        raise typer.BadParameter("give one of them", param_hint="--rate, --interval")
    data_source = None if data_source is None else as_libpq(data_source)
    flags = [] if data_source is None else [Setting(("database", "dsn"), data_source, "--ds")]
    if outbox is not None:
        flags.append(Setting(("database", "table"), outbox, "--outbox"))
    config = load_config(ctx, config_file, settings, flags).config
    load = Load(
        keys,
        records,
        topic,
        is_blank=blank,
        skew=skew,
        sizes=None if size is None else _sizes(size),
        per_transaction=per_transaction,
        rollbacks=rollbacks / 100,
        workers=min(concurrency, keys),
        seed=secrets.randbelow(2**32) if seed is None else seed,
    )
    if interval:
        rate = 1000 / interval
    done, seconds = _run(config, load, rate, ledger)
    _tell(load, done, seconds, as_json=as_json)


def _run(
    config: Config, load: Load, rate: float | None, ledger: Path | None
) -> tuple[Progress, float]:
    database = config.database
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        book = None if ledger is None else stack.enter_context(Ledger(ledger))
        on_progress = stack.enter_context(_shown(load.records))
        pump = Pump(
            database.dsn,
            Table.parse(database.table),
            load,
            rate=rate,
            book=book,
            connect_timeout=database.connect_timeout,
        )
        done = pump.run(on_progress)
    return done, time.monotonic() - began


@contextlib.contextmanager
def _shown(total: int) -> Iterator[Callable[[Progress], None]]:
    """A bar for people; a line in the log now and then for anybody else."""
    console, began = Console(stderr=True), time.monotonic()
    if not console.is_terminal:
        yield _logged(began)
        return
    columns = (
        TextColumn("pump"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with ProgressBar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("pump", total=total, rate="")

        def show(progress: Progress) -> None:
            done = progress.written + progress.rolled_back
            bar.update(task, completed=done, rate=f"{_rate(done, time.monotonic() - began)}/s")

        yield show


def _logged(began: float) -> Callable[[Progress], None]:
    last = began

    def log(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LOG_INTERVAL:
            last = now
            _log.info("pumped", written=progress.written, rate=_rate(progress.written, now - began))

    return log


def _tell(load: Load, done: Progress, seconds: float, *, as_json: bool) -> None:
    summary = {
        "written": done.written,
        "rolled_back": done.rolled_back,
        "transactions": done.commits,
        "seconds": round(seconds, 3),
        "rate": _rate(done.written, seconds),
        "workers": load.workers,
        "seed": load.seed,
    }
    if as_json:
        print_json(summary)
    else:
        rolled_back = f", rolled back {done.rolled_back}" if done.rolled_back else ""
        print_line(
            f"wrote {done.written} records{rolled_back} in {seconds:.1f} s"
            f" ({summary['rate']}/s); the same again with --seed {load.seed}"
        )


def _rate(count: int, seconds: float) -> int:
    return round(count / max(seconds, 1e-9))
