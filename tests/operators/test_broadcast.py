"""Broadcast rules, one rule of theirs at a time: what the cases of tests/two_inputs do not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

import pytest

from tests.operators.stories import collected
from tests.support.records import Event, key_of, millis
from windrow import DataStream, OutputTag, WatermarkStrategy, from_source
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, UserFunctionError
from windrow.functions import (
    BroadcastContext,
    KeyedBroadcastProcessFunction,
    ReadOnlyContext,
    ReadOnlyOnTimerContext,
    RuntimeContext,
)
from windrow.sources import CollectionSource
from windrow.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: the functions under test do all kinds of things, also what types forbid.

T = TypeVar("T")
Rule: TypeAlias = tuple[str, int]
LIMITS = MapStateDescriptor("limits", str, int)
SEEN = ListStateDescriptor[int]("seen")
LAST = ValueStateDescriptor[int]("last")
ASIDE = OutputTag("aside", str)


class Limits(KeyedBroadcastProcessFunction[str, Event, Rule, Any]):
    """Rules set limits; elements above the limit of their key come out with it. It remembers the elements."""

    def process_element(self, value: Event, context: ReadOnlyContext[str]) -> Iterable[Any] | None:
        context.get_state(SEEN).add(value.value)
        context.get_state(LAST).update(value.value)
        limit = context.get_broadcast_state(LIMITS).get(context.key)
        return [(value.value, limit)] if limit is not None and value.value > limit else []

    def process_broadcast_element(self, value: Rule, context: BroadcastContext[str, Any]) -> Iterable[Any] | None:
        context.get_broadcast_state(LIMITS).put(*value)
        return None


def batched(elements: list[T], size: int) -> DataStream[T]:
    return from_source(CollectionSource(elements, batch_size=size))


class Fed:
    """A function and its harness, which scripts feed."""

    def __init__(self, function: KeyedBroadcastProcessFunction[str, Event, Rule, Any]) -> None:
        self._events, self._rules = PushSource(Event), PushSource(tuple[str, int])
        rules = from_source(self._rules).broadcast(LIMITS)
        stream: DataStream[Any] = from_source(self._events).key_by(key_of).connect(rules).process(function)
        self.aside = stream.get_side_output(ASIDE)
        self.harness = StreamHarness(stream, self._events, also=(self.aside,))

    def feed(self, moves: str) -> None:
        """Makes some moves.

        ``a7/2`` is an element with key, value and timestamp, ``a=5/50`` a rule with its timestamp, which is 0 if it is
        not there. ``^20`` is the watermark, ``@100`` the clock, and ``|`` a snapshot that is restored.
        """
        for move in moves.split():
            what, _, at = move.partition("/")
            name, equals, limit = what.partition("=")
            if what == "|":
                self.harness.snapshot_restore()
            elif what[0] == "^":
                self.harness.process_watermark(int(what[1:]))
            elif what[0] == "@":
                self.harness.set_processing_time(int(what[1:]))
            elif equals:
                self.harness.process_element((name, int(limit)), int(at or 0), source=self._rules)
            else:
                self.harness.process_element(Event(what[0], int(at or 0), int(what[1:])), int(at or 0))

    def taken(self) -> list[tuple[Any, int | None]]:
        return [(each.value, each.timestamp) for each in self.harness.take_output()]


def test_rules_come_first_in_their_batch() -> None:
    # batch      1                    2
    # rules      a <= 1               a <= 5
    # elements   a 3  a 2             a 4  a 6     <- also those that were read before the rule
    events = batched([Event("a", 0, value) for value in (3, 2, 4, 6)], 2)
    rules = batched([("a", 1), ("a", 5)], 1)
    stream = events.key_by(key_of).connect(rules.broadcast(LIMITS)).process(Limits())
    assert collected(stream) == [(3, 1), (2, 1), (6, 5)]


class Asking(Limits):
    """A rule without a limit asks about all keys, and changes their state."""

    def process_broadcast_element(self, value: Rule, context: BroadcastContext[str, Any]) -> Iterable[Any]:
        name, limit = value
        if limit:
            yield from super().process_broadcast_element(value, context) or ()
            return

        def told(key: str, seen: Any) -> Iterable[Any]:
            yield key, seen.get(), context.get_state(LAST).value()
            if key == name:
                seen.clear()
                context.get_state(LAST).clear()

        context.apply_to_keyed_state(SEEN, told)
        context.output(ASIDE, f"asked about {name}")
        yield "asked", context.timestamp, context.current_watermark


def test_a_function_is_applied_to_every_key_that_has_the_state() -> None:
    fed = Fed(Asking())
    fed.feed("a1 b2 a3 a=0/40")
    assert fed.taken() == [(("a", [1, 3], 3), 40), (("b", [2], 2), 40), (("asked", 40, MIN_TIMESTAMP), 40)]
    fed.feed("a=0/30")  # what a had was cleared
    assert fed.taken() == [(("b", [2], 2), 30), (("asked", 30, MIN_TIMESTAMP), 30)]
    aside = [(each.value, each.timestamp) for each in fed.harness.take(fed.aside)]
    assert aside == [("asked about a", 40), ("asked about a", 30)]
    fed.feed("a5 c=0")
    assert [value for value, _ in fed.taken()][:2] == [("b", [2], 2), ("a", [5], 5)]


class Waiting(Limits):
    uses_processing_time = True

    def process_element(self, value: Event, context: ReadOnlyContext[str]) -> None:
        context.timer_service.register_event_time_timer(value.at + 10)
        context.timer_service.register_processing_time_timer(100)

    def on_timer(self, timestamp: int, context: ReadOnlyOnTimerContext[str]) -> Iterable[Any]:
        yield context.time_domain.value, dict(context.get_broadcast_state(LIMITS).items())


def test_a_timer_sees_the_rules_at_the_time_at_which_it_fires() -> None:
    fed = Fed(Waiting())
    fed.feed("a=1 a0/5 a=2 ^20 a=3 @100")
    assert fed.taken() == [(("event_time", {"a": 2}), 15), (("processing_time", {"a": 3}), None)]


class Watermarks(Limits):
    """Shows the watermark at each element, and at a timer at 10."""

    def process_element(self, value: Event, context: ReadOnlyContext[str]) -> Iterable[Any]:
        if value.at == 0:
            context.timer_service.register_event_time_timer(10)
        return [(value.at, context.timer_service.current_watermark)]

    def on_timer(self, timestamp: int, context: ReadOnlyOnTimerContext[str]) -> Iterable[Any]:
        return [("timer", context.timer_service.current_watermark)]


def watermarks(rules: DataStream[Rule], idleness: int | None = None) -> list[tuple[Any, int]]:
    """What comes out where a batch, at each 100 of the clock, has an element at 0, 100, 200 and 300."""
    strategy = WatermarkStrategy[Any].for_monotonous_timestamps()
    of_rules = strategy if idleness is None else strategy.with_idleness(millis(idleness))
    events = batched([Event("a", at, 0) for at in (0, 100, 200, 300)], 1)
    timed_rules = rules.assign_timestamps_and_watermarks(of_rules, timestamp=lambda rule: rule[1])
    stream = (
        events.assign_timestamps_and_watermarks(strategy, timestamp=lambda event: event.at)
        .key_by(key_of)
        .connect(timed_rules.broadcast(LIMITS))
        .process(Watermarks())
    )
    clock = iter(range(0, 10_000, 100))
    return collected(stream, clock=lambda: next(clock))


def test_the_watermark_is_the_lower_of_both() -> None:
    rules = batched([("a", at) for at in (0, 5, 12)], 1)
    assert watermarks(rules) == [(0, MIN_TIMESTAMP), (100, -1), (200, 4), ("timer", 11), (300, 11)]


def test_an_idle_stream_of_rules_holds_nothing_back() -> None:
    # Its source goes on, so it is silent, and not at its end; it is idle from 200 on.
    rules = batched([("a", 0), *[("other", 0)] * 3], 1).filter(lambda rule: rule[0] == "a")
    assert watermarks(rules, 200) == [(0, MIN_TIMESTAMP), (100, -1), (200, -1), ("timer", 199), (300, 199)]


def test_rules_survive_a_snapshot_and_what_is_handed_out_is_a_copy() -> None:
    class Lists(KeyedBroadcastProcessFunction[str, Event, Rule, Any]):
        lists = MapStateDescriptor[str, list[int]]("limits")

        def process_element(self, value: Event, context: ReadOnlyContext[str]) -> Iterable[Any]:
            rules = context.get_broadcast_state(self.lists)
            (rules.get("a") or []).append(99)
            found = rules.is_empty(), rules.contains("a"), list(rules.keys()), list(rules.values())
            return [found]

        def process_broadcast_element(self, value: Rule, context: BroadcastContext[str, Any]) -> Iterable[Any]:
            rules = context.get_broadcast_state(self.lists)
            if value[1]:
                rules.put(value[0], [value[1]])
            else:
                rules.clear()
            return ()

    fed = Fed(Lists())
    fed.feed("a=5 x0 | x0 a=0 x0")
    there = (False, True, ["a"], [[5]])
    assert [value for value, _ in fed.taken()] == [there, there, (True, False, [], [])]


def test_state_that_has_expired_is_not_visited() -> None:
    class Fading(Limits):
        uses_processing_time = True
        faded = ValueStateDescriptor[int]("faded", ttl=StateTtlConfig(millis(80)))

        def process_element(self, value: Event, context: ReadOnlyContext[str]) -> None:
            context.get_state(self.faded).update(value.value)

        def process_broadcast_element(self, value: Rule, context: BroadcastContext[str, Any]) -> None:
            context.apply_to_keyed_state(self.faded, lambda key, faded: [(key, faded.value())])

    fed = Fed(Fading())
    fed.feed("@0 a1 @50 b2 @100 ask=0")
    assert [value for value, _ in fed.taken()] == [("b", 2)]


def test_a_value_that_is_none_is_no_state() -> None:
    class Forgetting(Limits):
        def process_element(self, value: Event, context: ReadOnlyContext[str]) -> None:
            held: Any = context.get_state(LAST)
            held.update(value.value or None)

        def process_broadcast_element(self, value: Rule, context: BroadcastContext[str, Any]) -> None:
            context.apply_to_keyed_state(LAST, lambda key, last: [(key, last.value())])

    fed = Fed(Forgetting())
    fed.feed("a1 b2 a0 ask=0")  # a has none any more, as in Flink
    assert [value for value, _ in fed.taken()] == [("b", 2)]


def test_it_is_opened_and_closed() -> None:
    calls: list[str] = []

    class Opened(Limits):
        def open(self, runtime_context: RuntimeContext) -> None:
            calls.append("open")

        def close(self) -> None:
            calls.append("close")

    Fed(Opened()).harness.close()
    assert calls == ["open", "close"]


Act: TypeAlias = Callable[[Any], object]


class Acting(Limits):
    """Does one thing in one place."""

    uses_processing_time = True

    def __init__(self, place: str, act: Act) -> None:
        self._place = place
        self._act = act

    def _do(self, place: str, context: Any) -> None:
        if place == self._place:
            self._act(context)

    def process_element(self, value: Event, context: ReadOnlyContext[str]) -> None:
        context.get_state(LAST).update(1)
        context.timer_service.register_event_time_timer(5)
        self._do("element", context)

    def process_broadcast_element(self, value: Rule, context: BroadcastContext[str, Any]) -> None:
        self._do("rule", context)
        context.apply_to_keyed_state(LAST, lambda key, last: self._do("applied", context))

    def on_timer(self, timestamp: int, context: ReadOnlyOnTimerContext[str]) -> None:
        self._do("timer", context)


OTHER = MapStateDescriptor("other", str, int)
REFUSED: list[tuple[str, Act, type[Exception], str]] = [
    *(
        (place, change, UnsupportedOperationError, "rules were to be changed for one key")
        for place in ("element", "timer", "applied")
        for change in (
            lambda context: context.get_broadcast_state(LIMITS).put("a", 1),
            lambda context: context.get_broadcast_state(LIMITS).remove("a"),
            lambda context: context.get_broadcast_state(LIMITS).clear(),
        )
    ),
    *(
        (place, lambda context: context.get_broadcast_state(OTHER), InvalidArgumentError, "one of 'limits'")
        for place in ("element", "timer", "rule", "applied")
    ),
    ("rule", lambda context: context.get_broadcast_state(SEEN), InvalidArgumentError, "was not broadcast"),
    ("rule", lambda context: context.get_state(LAST), UnsupportedOperationError, "has no key"),
    ("rule", lambda context: context.key, UnsupportedOperationError, "has no key"),
    ("rule", lambda context: context.timer_service, UnsupportedOperationError, "sets no timers"),
    ("applied", lambda context: context.timer_service, UnsupportedOperationError, "sets no timers"),
    ("rule", lambda context: context.time_domain, UnsupportedOperationError, "no time domain"),
    (
        "applied",
        lambda context: context.apply_to_keyed_state(LAST, print),
        UnsupportedOperationError,
        "applies another",
    ),
]


@pytest.mark.parametrize(("place", "act", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_says_where_and_what_instead(
    place: str, act: Act, error: type[Exception], message: str
) -> None:
    fed = Fed(Acting(place, act))
    with pytest.raises(error, match=message) as raised:
        fed.feed("a1 ^10 a=1")
    assert "broadcast_process, " in str(raised.value)


def test_a_handle_that_was_kept_changes_nothing_for_a_key() -> None:
    class Keeping(Limits):
        def process_broadcast_element(self, value: Rule, context: BroadcastContext[str, Any]) -> None:
            rules = context.get_broadcast_state(LIMITS)
            context.apply_to_keyed_state(LAST, lambda key, last: rules.put(key, 1))

    fed = Fed(Keeping())
    with pytest.raises(UnsupportedOperationError, match="rules were to be changed for one key"):
        fed.feed("a1 a=1")


def test_outside_of_a_call_there_are_no_rules() -> None:
    kept: list[Any] = []

    class Keeping(Limits):
        def process_element(self, value: Event, context: ReadOnlyContext[str]) -> None:
            kept.append(context)

        def process_broadcast_element(self, value: Rule, context: BroadcastContext[str, Any]) -> None:
            kept.append(context)

    fed = Fed(Keeping())
    fed.feed("a1 a=1")
    for context in kept:
        with pytest.raises(UnsupportedOperationError):
            context.get_broadcast_state(LIMITS)
    with pytest.raises(UnsupportedOperationError):
        kept[1].apply_to_keyed_state(LAST, print)


def test_an_error_of_the_users_names_the_rule_or_the_key() -> None:
    def fail(context: object) -> None:
        raise ValueError("no")

    for place, given in (("rule", r"element for all keys \('a', 1\)"), ("applied", "key 'a', state 'last'")):
        fed = Fed(Acting(place, fail))
        with pytest.raises(UserFunctionError, match=given):
            fed.feed("a1 a=1")
