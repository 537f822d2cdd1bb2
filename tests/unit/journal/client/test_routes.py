from __future__ import annotations

from windrow.journal.client.routes import FAILED_FOR, Dispatcher, RouteCache
from windrow.journal.process import ProcessId, Route

A, B, C = ProcessId("east", "aaaa"), ProcessId("east", "bbbb"), ProcessId("west", "cccc")
ROUTE = Route((A, B, C), 1, ("http://a:1", "http://b:1", "http://c:1"))


def test_a_route_is_forgotten_after_its_time() -> None:
    cache = RouteCache(ttl=10)
    cache.put("x/one", ROUTE, now=0)
    assert cache.get("x/one", now=10) == ROUTE
    assert cache.get("x/one", now=10.1) is None
    assert len(cache) == 0


def test_of_too_many_routes_the_one_not_used_for_longest_goes() -> None:
    cache = RouteCache(capacity=2)
    cache.put("x/one", ROUTE, 0)
    cache.put("x/two", ROUTE, 0)
    cache.get("x/one", 0)
    cache.put("x/three", ROUTE, 0)
    assert [cache.get(f"x/{name}", 0) is not None for name in ("one", "two", "three")] == [
        True,
        False,
        True,
    ]


def test_a_route_without_members_is_no_route() -> None:
    cache = RouteCache()
    cache.put("x/one", ROUTE, 0)
    cache.put("x/one", Route.NONE, 1)
    assert cache.get("x/one", 1) is None


def test_an_append_goes_to_the_primary_once_it_is_known() -> None:
    dispatcher = Dispatcher(["http://any:1"])
    assert dispatcher.for_primary("x/one", 0) == "http://any:1"
    dispatcher.on_answer("x/one", "http://any:1", ROUTE, 0)
    assert dispatcher.for_primary("x/one", 0) == "http://b:1"
    assert dispatcher.for_primary("x/two", 0) == "http://any:1"


def test_a_route_without_a_primary_sends_appends_anywhere() -> None:
    dispatcher = Dispatcher(["http://any:1"])
    dispatcher.on_answer("x/one", "http://any:1", Route((A,), -1, ("http://a:1",)), 0)
    assert dispatcher.for_primary("x/one", 0) == "http://any:1"
    assert dispatcher.for_member("x/one", 0) == "http://a:1"


def test_a_read_prefers_a_member_of_its_own_zone() -> None:
    for zone, endpoint in (("west", "http://c:1"), ("east", "http://a:1"), ("", "http://a:1")):
        dispatcher = Dispatcher(["http://any:1"], zone=zone)
        dispatcher.on_answer("x/one", "http://any:1", ROUTE, 0)
        assert dispatcher.for_member("x/one", 0) == endpoint


def test_a_broker_that_cannot_be_reached_costs_its_route() -> None:
    dispatcher = Dispatcher(["http://any:1"], zone="west")
    dispatcher.on_answer("x/one", "http://any:1", ROUTE, 0)
    dispatcher.on_unreachable("x/one", "http://c:1", 1)
    assert dispatcher.for_member("x/one", 1) == "http://any:1"
    dispatcher.on_answer("x/one", "http://any:1", ROUTE, 2)
    assert dispatcher.for_member("x/one", 2) == "http://a:1"
    dispatcher.on_answer("x/one", "http://any:1", ROUTE, 1 + FAILED_FOR)
    assert dispatcher.for_member("x/one", 1 + FAILED_FOR) == "http://c:1"


def test_of_several_addresses_a_failed_one_is_asked_only_if_all_have_failed() -> None:
    dispatcher = Dispatcher(["http://a:1", "http://b:1"])
    assert {dispatcher.any(0) for _ in range(4)} == {"http://a:1", "http://b:1"}
    dispatcher.on_unreachable("", "http://a:1", 0)
    assert {dispatcher.any(0) for _ in range(4)} == {"http://b:1"}
    dispatcher.on_unreachable("", "http://b:1", 0)
    assert {dispatcher.any(0) for _ in range(4)} == {"http://a:1", "http://b:1"}


def test_a_client_told_not_to_follow_routes_asks_only_its_own_addresses() -> None:
    dispatcher = Dispatcher(["http://any:1"], follow_routes=False)
    dispatcher.on_answer("x/one", "http://any:1", ROUTE, 0)
    assert dispatcher.for_primary("x/one", 0) == "http://any:1"
    assert dispatcher.for_member("x/one", 0) == "http://any:1"
