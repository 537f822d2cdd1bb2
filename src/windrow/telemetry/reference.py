"""The reference page of the metrics, written from their table.

``python -m windrow.telemetry.reference`` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable

from windrow.telemetry.metrics import METRICS, Metric

_HEAD = """\
# Metrics

Served at `/metrics` in Prometheus' text format.
Labels have few values: no key and no id of a record is ever one.
The client adds `_created` to counters, and `_bucket`, `_sum`, `_count`, `_created` to histograms.

<!-- Written by `python -m windrow.telemetry.reference > docs/reference/metrics.md`. -->

| name | kind | labels | unit | meaning |
|---|---|---|---|---|
"""


def metrics_page(table: Iterable[Metric] = METRICS) -> str:
    """The page in Markdown, one row per metric, by name."""
    return _HEAD + "".join(map(_row, sorted(table, key=lambda metric: metric.name)))


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
    meaning = metric.help.replace("|", "\\|")
    if metric.buckets:
        meaning += f" Buckets: {', '.join(f'{bound:g}' for bound in metric.buckets)}."
    return (
        f"| `{metric.full_name}` | {metric.kind} | {labels} | {metric.unit or '–'} | {meaning} |\n"
    )


if __name__ == "__main__":
    print(metrics_page(), end="")
