"""Spark's StructuredComplexSessionization: a session ends five seconds after its last event, or at CLOSE_SESSION."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from tests.ports.answer import Answer
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.state import ValueStateDescriptor

GAP = 5_000


class Event(NamedTuple):
    user: str
    kind: str
    second: int


class Session(NamedTuple):
    user: str
    duration: int
    events: int


class Open(NamedTuple):
    start: int
    end: int
    events: int

    def session(self, user: str, end: int) -> Session:
        return Session(user, end - self.start, self.events)


OPEN = ValueStateDescriptor("open", Open)


class Sessions(KeyedProcessFunction[str, Event, Session]):
    """Takes the events of a user in the order of time."""

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[Session]:
        at, state = value.second * 1000, context.get_state(OPEN)
        session = state.value()
        if session is not None:
            context.timer_service.delete_event_time_timer(session.end)
            if session.end <= at:  # events come before timers of an earlier time
                yield session.session(context.key, session.end)
                session = None
        start, events = (session.start, session.events) if session else (at, 0)
        if value.kind == "CLOSE_SESSION":
            yield Session(context.key, at - start, events + 1)
            state.clear()
        else:
            state.update(Open(start, at + GAP, events + 1))
            context.timer_service.register_event_time_timer(at + GAP)

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[Session]:
        state = context.get_state(OPEN)
        session = state.value()
        state.clear()
        if session is not None:
            yield session.session(context.key, session.end)


EVENTS = [
    Event("user1", "NEW_EVENT", 13),
    Event("user1", "NEW_EVENT", 10),
    Event("user1", "CLOSE_SESSION", 15),
    Event("user1", "NEW_EVENT", 17),
    Event("user1", "NEW_EVENT", 19),
    Event("user1", "NEW_EVENT", 29),
    Event("user2", "NEW_EVENT", 45),
    Event("user1", "NEW_EVENT", 65),
]
RESULTS = CollectSink[Session]()
PIPELINE = Pipeline(
    "sessions",
    from_source(CollectionSource(EVENTS, batch_size=4))
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=10)),
        timestamp=lambda event: event.second * 1000,
    )
    .key_by(lambda event: event.user)
    .in_event_time_order()
    .process(Sessions(), name="sessions")
    .sink_to(RESULTS),
)


def answers() -> list[Answer]:
    """Those of Spark's example, and the session of its last event: here the stream ends."""
    rows = [("user1", 5000, 3), ("user1", 7000, 2), ("user1", 5000, 1), ("user2", 5000, 1), ("user1", 5000, 1)]
    return [Answer(RESULTS, [Session(*row) for row in rows])]
