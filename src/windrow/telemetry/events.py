"""Typed events: what happened, told to whoever asked, at no risk to the teller.

An event is a frozen dataclass named in the past tense, defined by the layer that emits it::

    @dataclass(frozen=True, slots=True)
    class LeaderAcquired(Event):
        epoch: int

Handlers run on the emitter's thread, so they count, note or enqueue, and never wait.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

if TYPE_CHECKING:
    from windrow.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class Event:
    """Something that happened. Subclasses are frozen dataclasses; the class gives the name."""

    # Not `slots=True`: that makes the class anew, and super() below would look for the old one.
    __slots__ = ()

    name: ClassVar[str] = "event"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = _WORD_START.sub("_", cls.__name__).lower()


E = TypeVar("E", bound=Event)


@dataclass(eq=False, slots=True)
class _Subscription:
    handler: Callable[[Any], None]
    types: tuple[type[Event], ...]
    reported: set[type[Exception]] = field(default_factory=set)


class EventBus:
    """Hands each event to the handlers that subscribed to its type or to a base of it.

    A handler that raises neither reaches the emitter nor keeps the event from other handlers.
    """

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics
        self._changing = threading.Lock()
        self._subscriptions: tuple[_Subscription, ...] = ()
        # What emit() looks at: filled as types are first seen, thrown away on every change, so
        # that an event nobody wants costs one lookup.
        self._routes: dict[type[Event], tuple[_Subscription, ...]] = {}

    @overload
    def subscribe(self, handler: Callable[[Event], None], /) -> Callable[[], None]: ...

    @overload
    def subscribe(
        self, handler: Callable[[E], None], first: type[E], /, *others: type[E]
    ) -> Callable[[], None]: ...

    def subscribe(
        self, handler: Callable[[Any], None], /, *types: type[Event]
    ) -> Callable[[], None]:
        """Call ``handler`` with every event of ``types``, or with every event if none is named.

        Returns what ends the subscription; calling it again changes nothing.
        """
        subscription = _Subscription(handler, types or (Event,))
        with self._changing:
            self._replace((*self._subscriptions, subscription))

        def unsubscribe() -> None:
            with self._changing:
                self._replace(tuple(s for s in self._subscriptions if s is not subscription))

        return unsubscribe

    def emit(self, event: Event) -> None:
        """Tell the subscribers, in the order in which they came. Never raises for a handler."""
        subscriptions = self._routes.get(type(event))
        if subscriptions is None:
            subscriptions = self._route(type(event))
        for subscription in subscriptions:
            try:
                subscription.handler(event)
            except Exception as error:
                self._on_handler_failed(subscription, event, error)

    def _replace(self, subscriptions: tuple[_Subscription, ...]) -> None:
        # In this order: whoever sees the new routes also sees the new subscriptions.
        self._subscriptions = subscriptions
        self._routes = {}

    def _route(self, event_type: type[Event]) -> tuple[_Subscription, ...]:
        # Taken before the subscriptions are read: if they change meanwhile, what is written
        # below lands in a dict that nobody reads any more.
        routes = self._routes
        wanted = tuple(s for s in self._subscriptions if issubclass(event_type, s.types))
        routes[event_type] = wanted
        return wanted

    def _on_handler_failed(
        self, subscription: _Subscription, event: Event, error: Exception
    ) -> None:
        if self._metrics is not None:
            self._metrics.counter("event_handler_errors_total", event=event.name).inc()
        if type(error) in subscription.reported:
            return  # a handler broken for good must not cost a traceback per event
        subscription.reported.add(type(error))
        handler = subscription.handler
        _log.error(
            "event handler failed",
            exc_info=error,
            extra={
                "handler": getattr(handler, "__qualname__", None) or type(handler).__qualname__,
                "emitted": event.name,
            },
        )
