"""In which order can nodes be visited so that every edge points forward, and if none: why?"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

Edges = Mapping[str, AbstractSet[str]]
"""From each node to those that follow it; a node without followers may be missing."""


def find_cycle(edges: Edges) -> Sequence[str] | None:
    """A way that returns to where it began, its first node repeated at its end, or nothing.

    The same edges give the same cycle, in whatever order they were declared. It begins at its least
    node.
    """
    finished: set[str] = set()
    for root in sorted(edges):
        if root in finished:
            continue
        path: list[str] = [root]
        pending = [sorted(edges.get(root, ()), reverse=True)]
        while path:
            if not pending[-1]:
                finished.add(path.pop())
                pending.pop()
                continue
            following = pending[-1].pop()
            if following in path:
                return _from_least(path[path.index(following) :])
            if following not in finished:
                path.append(following)
                pending.append(sorted(edges.get(following, ()), reverse=True))
    return None


def ordered(nodes: AbstractSet[str], edges: Edges) -> list[str]:
    """All nodes, every one after those that lead to it; between equals the lesser name is first."""
    missing = dict.fromkeys(nodes, 0)
    for followers in edges.values():
        for node in followers:
            missing[node] += 1
    ready = [node for node, count in missing.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for follower in edges.get(node, ()):
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, follower)
    return order


def reachable(start: str, edges: Edges) -> frozenset[str]:
    """Every node that some way from ``start`` leads to."""
    found: set[str] = set()
    unseen = list(edges.get(start, ()))
    while unseen:
        node = unseen.pop()
        if node not in found:
            found.add(node)
            unseen.extend(edges.get(node, ()))
    return frozenset(found)


def _from_least(cycle: Sequence[str]) -> Sequence[str]:
    least = cycle.index(min(cycle))
    return [*cycle[least:], *cycle[:least], cycle[least]]
