"""Whom to ask: which brokers serve a journal, as far as answers have told. Pure.

A cache of routes forgets by age and by disuse, and drops a route as soon as one of its brokers
cannot be reached. Without a route any address of the cluster will do: brokers pass calls on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from windrow.journal.process import Route

FAILED_FOR = 5.0
"""How long an address that could not be reached is asked only if there is no other."""


class RouteCache:
    """The routes of the journals used last. Time is an argument."""

    def __init__(self, capacity: int = 4096, ttl: float = 600.0) -> None:
        self.capacity, self.ttl = capacity, ttl
        self._routes: OrderedDict[str, tuple[Route, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._routes)

    def get(self, journal: str, now: float) -> Route | None:
        """The route of a journal, if it was told not too long ago."""
        found = self._routes.get(journal)
        if found is None:
            return None
        route, told_at = found
        if now - told_at > self.ttl:
            del self._routes[journal]
            return None
        self._routes.move_to_end(journal)
        return route

    def put(self, journal: str, route: Route, now: float) -> None:
        """Remember what an answer told; a route without members is worth forgetting."""
        if not route.members:
            self.drop(journal)
            return
        self._routes[journal] = route, now
        self._routes.move_to_end(journal)
        if len(self._routes) > self.capacity:
            self._routes.popitem(last=False)

    def drop(self, journal: str) -> None:
        """Forget a route that turned out wrong."""
        self._routes.pop(journal, None)


class Dispatcher:
    """Chooses the address of each call, and learns from how it ended."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        zone: str = "",
        routes: RouteCache | None = None,
        follow_routes: bool = True,
    ) -> None:
        self.addresses = tuple(addresses)
        self.zone = zone
        self.routes = routes if routes is not None else RouteCache()
        self.follow_routes = follow_routes
        self._failed: dict[str, float] = {}
        self._turn = 0

    def for_primary(self, journal: str, now: float) -> str:
        """Where to append: at the primary if it is known and can be reached."""
        route = self._route(journal, now)
        if route is not None and route.primary_id is not None:
            endpoint = route.endpoint_of(route.primary_id)
            if endpoint and not self._is_failed(endpoint, now):
                return endpoint
        return self.any(now)

    def for_member(self, journal: str, now: float) -> str:
        """Where to read: at a member, in our own zone if there is one."""
        route = self._route(journal, now)
        if route is None or not route.endpoints:
            return self.any(now)
        reachable = [
            (member.zone != self.zone, endpoint)
            for member, endpoint in zip(route.members, route.endpoints, strict=True)
            if endpoint and not self._is_failed(endpoint, now)
        ]
        return min(reachable)[1] if reachable else self.any(now)

    def any(self, now: float) -> str:
        """One of the addresses the client was given, in turn; failed ones only if all have."""
        candidates = [a for a in self.addresses if not self._is_failed(a, now)] or self.addresses
        self._turn += 1
        return candidates[self._turn % len(candidates)]

    def on_answer(self, journal: str, address: str, route: Route, now: float) -> None:
        """A broker answered, and said who serves the journal."""
        self._failed.pop(address, None)
        if self.follow_routes:
            self.routes.put(journal, route, now)

    def on_unreachable(self, journal: str, address: str, now: float) -> None:
        """A broker could not be reached: neither it nor the route is to be trusted."""
        self._failed[address] = now
        self.routes.drop(journal)

    def _route(self, journal: str, now: float) -> Route | None:
        return self.routes.get(journal, now) if self.follow_routes else None

    def _is_failed(self, address: str, now: float) -> bool:
        since = self._failed.get(address)
        return since is not None and now - since < FAILED_FOR
