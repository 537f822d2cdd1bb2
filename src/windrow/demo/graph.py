"""What happens to a hero on Spark: enriched, joined with a mission, forked to a table and an audit.

```text
 heroes ──▶ [enrich] ──▶ enriched ─┐
                                   ├─▶ [join] ──▶ assigned ──▶ [fork] ──▶ arrivals (PostgreSQL)
 missions ─────────────────────────┘                               └────▶ audit
```

The functions are found by their names in every worker, so nothing heavy is imported here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from windrow.graph import Graph, Message, Queue, Source, processor
from windrow.graph.context import Context

ID: Final = "demo"
ARRIVALS: Final = "arrivals"
"""The table at the end of the road, and the queue that lives there."""

TOPIC: Final = "HERO_CREATED"
"""What the play-pen calls its events, and so the topic on Kafka."""
NO_TEAM: Final = "no team"
COLUMNS: Final = ("id", "name", "team", "strength", "mission")
"""What a row of it says; its place and its time come from the database."""

Messages = Mapping[str, Message]


@processor(reads="heroes", writes="enriched", deterministic=True)
def enrich(msgs: Messages, ctx: Context) -> Message:
    """Say how strong a hero is, the same for the same name; from here on the team is the key."""
    hero = msgs["heroes"]
    strength = hashlib.sha256(hero.value["name"].encode()).digest()[0]
    team = hero.value["team"] or NO_TEAM
    return hero.having(key=team, value={**hero.value, "team": team, "strength": strength})


@processor(reads=("enriched", "missions"), writes="assigned", deterministic=True)
def join(msgs: Messages, ctx: Context) -> Message:
    """Give the next hero the next mission."""
    hero, mission = msgs["enriched"], msgs["missions"]
    return hero.having(value={**hero.value, "mission": mission.value["mission"]})


@processor(reads="assigned", writes={"row": ARRIVALS, "entry": "audit"}, deterministic=True)
def fork(msgs: Messages, ctx: Context) -> dict[str, Message]:
    """A row for the table, from which the totals of its team follow, and an entry for the audit."""
    hero = msgs["assigned"]
    told: dict[str, Any] = hero.value
    row = {name: told[name] for name in COLUMNS}
    return {"row": hero.having(value=row), "entry": hero.having(value={"id": told["id"]})}


def road(queues: list[Queue]) -> Graph:
    """The graph, with its queues where they are said to live."""
    table = Queue(ARRIVALS, postgres=ARRIVALS)
    parts = [Source("heroes"), Source("missions"), enrich, join, fork]
    return Graph(ID, parts, queues=[table, *queues])


on_journals = road([])
"""Everything between the relay and the table in journals."""

on_kafka = road(
    [
        Queue("heroes", kafka=TOPIC),
        # A join pairs by numbers without gaps, which offsets are not; nor do those count entries.
        Queue("enriched", kafka="demo.enriched", options={"positions": "sequence"}),
        Queue("assigned", kafka="demo.assigned"),
        Queue("audit", kafka="demo.audit", options={"positions": "sequence"}),
    ]
)
"""The same on Kafka. Missions stay in a journal, as does what the graph remembers."""
