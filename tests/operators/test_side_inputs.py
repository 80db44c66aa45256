"""Side inputs in the interpreter: random stories against a model, and the rules one at a time."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import numpy
import pytest

from tests.support.records import millis
from windrow import DataStream, OutputTag, as_dict, as_list, as_singleton, from_changes, from_collection, from_source
from windrow.errors import InvalidArgumentError, MissingTimestampError, UnsupportedOperationError, UserFunctionError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, ProcessContext
from windrow.panes import Change, ChangeKind
from windrow.rows.equality import is_same
from windrow.state import ValueStateDescriptor
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.triggers import after_count, after_watermark
from windrow.windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: views of every type.

Element: TypeAlias = tuple[str, int]
"""A key or a name, and the timestamp."""

LATE = OutputTag("late", tuple[str, int])
TENS = TumblingEventTimeWindows.of(millis(10))


def key_of(element: Element) -> str:
    return element[0]


class ModelView:
    """A view as its rules say: the last millisecond of a window is its name."""

    def __init__(self, size: int, slide: int, *, lateness: int = 0, at_end: bool, make: Callable[[list[Element]], Any]):
        self.size, self.slide, self.lateness, self.at_end, self.make = size, slide, lateness, at_end, make
        self.contents: dict[int, list[Element]] = {}

    def windows(self, time: int) -> list[int]:
        """The windows with a timestamp, the earliest first; without a size there is one."""
        if not self.size:
            return [MAX_TIMESTAMP]
        return [s + self.size - 1 for s in range(time - self.size + 1, time + 1) if s % self.slide == 0]


class Model:
    """The step as its rules say."""

    def __init__(self, views: Sequence[ModelView], allowed: int) -> None:
        self.views, self.allowed = views, allowed
        self.watermark = MIN_TIMESTAMP
        self.waiting: list[tuple[list[int], Element]] = []
        self.out: list[Any] = []
        self.late: list[Element] = []

    def over(self, view: ModelView, window: int) -> bool:
        return window != MAX_TIMESTAMP and window + max(view.lateness, self.allowed) <= self.watermark

    def side(self, element: Element) -> None:
        for view in self.views:
            for window in view.windows(element[1]):
                if not self.over(view, window):
                    view.contents.setdefault(window, []).append(element)
        self.release()

    def main(self, element: Element) -> None:
        windows = [view.windows(element[1])[0] for view in self.views]
        if any(map(self.over, self.views, windows)):
            self.late.append(element)
        else:
            self.waiting.append((windows, element))
            self.release()

    def advance(self, watermark: int) -> None:
        self.watermark = max(watermark, self.watermark)
        self.release()

    def release(self) -> None:
        for windows, element in list(self.waiting):
            pairs = list(zip(self.views, windows, strict=True))
            if all(end <= self.watermark or (not view.at_end and end in view.contents) for view, end in pairs):
                self.waiting.remove((windows, element))
                self.out.append((element, *[view.make(view.contents.get(end, [])) for view, end in pairs]))


def newest(elements: list[Element]) -> Element | None:
    return elements[-1] if elements else None


def by_name(elements: list[Element]) -> dict[str, int]:
    return dict(elements)


def drawn_view(chance: random.Random, side: DataStream[Element]) -> tuple[Any, ModelView]:
    """A view, and its model."""
    kind = chance.choice(["singleton", "dict", "list"])
    size, slide = chance.choice([(0, 0), (10, 10), (20, 10), (25, 25)])
    assigner: Any = None
    if size:
        assigner = SlidingEventTimeWindows.of(millis(size), millis(slide))
    make: dict[str, Callable[[list[Element]], Any]] = {"singleton": newest, "dict": by_name, "list": tuple}
    model = ModelView(size, slide, at_end=bool(size), make=make[kind])
    if kind == "singleton":
        return as_singleton(side, default=None, windows=assigner), model
    if kind == "dict":
        return as_dict(side, key_of, lambda element: element[1], windows=assigner), model
    return as_list(side, windows=assigner), model


def seen(element: Element, *values: Any) -> Any:
    return (element, *[dict(value) if hasattr(value, "keys") else value for value in values])


@pytest.mark.parametrize("seed", range(60))
def test_random_stories_are_as_the_model_says(seed: int) -> None:
    chance = random.Random(seed)
    main, side = PushSource(tuple[str, int]), PushSource(tuple[str, int])
    sides = from_source(side)
    drawn = [drawn_view(chance, sides) for _ in range(chance.randint(1, 4))]
    allowed = chance.choice([0, 0, 7])
    begin: Any = from_source(main)
    if seed % 3 == 0:
        begin = begin.key_by(key_of)
    stage = begin.with_side_input(*[view for view, _ in drawn], allowed_lateness=millis(allowed), late=LATE)
    model = Model([view for _, view in drawn], allowed)
    times = {main: 0, side: 0}
    late = stage.get_side_output(LATE)
    shuffled = chance.choice([None, seed])
    with StreamHarness(stage.map(seen), main, also=(late,), shuffles_keys=shuffled) as harness:
        for _ in range(60):
            source = chance.choice([main, side])
            if chance.random() < 0.25:
                times[source] += chance.randrange(15)
                harness.process_watermark(times[source], source=source)
                model.advance(min(times.values()) if all(times.values()) else MIN_TIMESTAMP)
            else:
                element = chance.choice("abc"), max(0, times[source] + chance.randrange(-15, 25))
                harness.process_element(element, element[1], source=source)
                (model.main if source is main else model.side)(element)
            if chance.random() < 0.1:
                harness.snapshot_restore()
            assert harness.take_values() == model.out
            model.out.clear()
        assert [each.value for each in harness.take(late)] == model.late


class Fed:
    """A stage with a view of the results of windows of ten, and its harness."""

    def __init__(self, make: Callable[[Any], Any], *, late: OutputTag[Element] | None = None) -> None:
        self.main, self.side = PushSource(tuple[str, int]), PushSource(tuple[str, int])
        view = make(from_source(self.side))
        self.stage: Any = from_source(self.main).with_side_input(view, late=late)

    def run(self, *story: tuple[str, Any], stream: Any = None) -> list[Any]:
        """What comes of elements ``main`` and ``side``, and of watermarks of both, ``until``; with timestamps."""
        with StreamHarness(self.stage.map(seen) if stream is None else stream, self.main) as harness:
            for call, what in story:
                if call == "until":
                    harness.process_watermark(what)
                else:
                    source = self.main if call == "main" else self.side
                    harness.process_element(what, what[1], source=source)
            self.late_dropped = harness.counter("late_records_dropped")
            return [(each.timestamp, *each.value[1:]) for each in harness.take_output()]


def larger(a: Element, b: Element) -> Element:
    return max(a, b)


STORY = [
    ("side", ("x", 1)),
    ("main", ("m", 2)),
    ("side", ("y", 3)),
    ("main", ("m", 4)),
    ("until", 9),
    ("main", ("m", 5)),
    ("main", ("m", 12)),
    ("until", 19),
]


def test_a_view_of_windows_is_there_when_their_end_is() -> None:
    # An element that comes after the end of its window is late; in a window without side elements is the default.
    fed = Fed(lambda side: as_singleton(side.window_all(TENS).reduce(larger), default=None))
    assert fed.run(*STORY) == [(2, ("y", 3)), (4, ("y", 3)), (12, None)]
    assert fed.late_dropped == 1


def test_late_panes_change_the_view_as_long_as_the_windows_allow() -> None:
    fed = Fed(lambda side: as_singleton(side.window_all(TENS).allowed_lateness(millis(5)).reduce(larger), default=None))
    story = [("main", ("m", 1)), ("side", ("x", 1)), ("until", 9), ("side", ("z", 2)), ("main", ("m", 3))]
    assert fed.run(*story) == [(1, ("x", 1)), (3, ("z", 2))]


def test_early_panes_are_seen_at_once() -> None:
    early = after_watermark(early=after_count(1))
    fed = Fed(lambda side: as_singleton(side.window_all(TENS).trigger(early).accumulating().reduce(larger)))
    assert fed.run(*STORY[:-2]) == [(2, ("x", 1)), (4, ("y", 3))]


def joined(a: str, b: str) -> str:
    return f"{a} {b}"


@pytest.mark.parametrize(("mode", "lists"), [("discarding", [["x"], ["x", "y"]]), ("retracting", [["x"], ["x y"]])])
def test_lists_have_each_element_once(mode: str, lists: list[list[str]]) -> None:
    early = after_watermark(early=after_count(1))

    def view(side: Any) -> Any:
        windows = getattr(side.map(key_of).window_all(TENS).trigger(early), mode)()
        return as_list(windows.reduce(joined))

    assert fed_values(Fed(view)) == lists


def fed_values(fed: Fed) -> list[Any]:
    return [list(view) for _, view in fed.run(*STORY[:4])]


def test_withdrawn_elements_leave_dictionaries() -> None:
    early = after_watermark(early=after_count(1))

    def view(side: Any) -> Any:
        counts = side.key_by(key_of).window(TENS).trigger(early).retracting()
        return as_dict(counts.reduce(larger), key=lambda element: element[1])

    story = [("side", ("x", 1)), ("side", ("x", 3)), ("main", ("m", 2))]
    assert Fed(view).run(*story) == [(2, {3: ("x", 3)})]


def test_an_empty_singleton_without_a_default_is_an_error_that_names_it() -> None:
    fed = Fed(lambda side: as_singleton(side, windows=TENS))
    with pytest.raises(UnsupportedOperationError, match=r"as_singleton in TumblingEventTimeWindows\(size=10 ms\), at"):
        fed.run(("main", ("m", 1)), ("until", 9))


def test_process_has_the_context_last() -> None:
    aside = OutputTag("aside", str)

    def process(element: Element, others: Sequence[Element], context: ProcessContext) -> list[tuple[str, int]]:
        context.output(aside, element[0])
        return [(element[0], len(others))] * 2

    fed = Fed(as_list)
    stream = fed.stage.process(process)
    assert fed.run(("side", ("x", 1)), ("main", ("m", 7)), stream=stream) == [(7, 1), (7, 1)]
    with StreamHarness(stream.get_side_output(aside), fed.main) as harness:
        harness.process_element(("x", 1), source=fed.side)
        harness.process_element(("m", 7))
        assert harness.take_values() == ["m"]


def test_elements_that_cannot_be_pickled_wait_as_others() -> None:
    class Local:
        def __init__(self, number: int) -> None:
            self.number = number

    numbers = from_collection([Local(1), Local(2)]).with_side_input(as_singleton(from_collection([10])))
    assert numbers.flat_map(lambda local, ten: [local.number * ten]).collect() == [10, 20]


def test_views_that_were_given_do_not_change_later() -> None:
    fed = Fed(as_list)
    kept: list[Any] = []

    def keep(element: Element, others: Sequence[Element]) -> tuple[Element, int]:
        kept.append(others)
        return element, len(others)

    stream = fed.stage.map(keep)
    with StreamHarness(stream, fed.main, isolates_functions=False) as harness:
        for name in "abc":
            harness.process_element((name, 1), source=fed.side)
            harness.process_element((name, 1))
        assert [value[1] for value in harness.take_values()] == [1, 2, 3]
    assert [len(view) for view in kept] == [1, 2, 3]


def test_elements_have_copies_for_each_function_and_views_are_shared() -> None:
    fed = Fed(as_list)
    given: list[tuple[list[int], Any]] = []

    def keep(element: Any, others: Sequence[Element]) -> int:
        given.append((element[2], others))
        element[2].append(1)
        return len(element[2])

    streams = fed.stage.map(keep), fed.stage.map(keep)
    with StreamHarness(streams[0], fed.main, also=streams[1:], isolates_functions=False) as harness:
        harness.process_element(("x", 1), source=fed.side)
        harness.process_element(("m", 1, []))  # type: ignore[arg-type]
        assert [each.value for stream in streams for each in harness.take(stream)] == [1, 1]
    assert given[0][0] is not given[1][0]
    assert given[0][1] is given[1][1]


def test_views_of_windows_that_are_over_are_dropped_with_the_next_element() -> None:
    fed = Fed(lambda side: as_list(side, windows=TENS))
    with StreamHarness(fed.stage.map(seen), fed.main) as harness:
        for second in range(10):
            harness.process_element(("s", second * 10), second * 10, source=fed.side)
            harness.process_watermark(second * 10 + 9)
        (operator,) = harness._execution.operators.values()  # pyright: ignore[reportPrivateUsage]  # its state
        assert [*operator.state.shared["view 0"]] == [99]


def test_elements_that_wait_come_out_in_order_of_arrival_over_all_keys() -> None:
    fed = Fed(lambda side: as_list(side, windows=TENS))
    names = [("m", number) for number in range(10)]
    with StreamHarness(fed.stage.map(lambda element, _: element), fed.main) as harness:
        for number, element in enumerate(names):
            harness.process_element(element, 9 - number)
            if number % 4 == 3:
                harness.snapshot_restore()
        # The timers of both windows are due with this watermark.
        harness.process_element(("m", 10), 15)
        harness.process_element(("m", 11), 5)
        harness.process_watermark(30)
        assert harness.take_values() == [*names, ("m", 10), ("m", 11)]


def test_windows_go_on_through_a_step_with_side_inputs() -> None:
    main, side, factor = PushSource(int), PushSource(int), PushSource(int)
    totals = from_source(side).window_all(TENS).sum(lambda number: number)
    doubled = totals.with_side_input(as_singleton(from_source(factor))).map(lambda total, by: total * by)
    stream = from_source(main).with_side_input(as_singleton(doubled, default=0)).map(lambda _, total: total)
    with StreamHarness(stream, main) as harness:
        harness.process_element(2, source=factor)
        for time in (3, 4, 15):
            harness.process_element(time, time, source=side)
            harness.process_element(time, time)
        harness.process_watermark(9)
        assert harness.take_values() == [14, 14]
        harness.process_watermark(19)
        assert harness.take_values() == [30]


EARLIER = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
LATER = EARLIER.replace(fold=1)


@dataclass(frozen=True)
class Row:
    number: float
    values: Any


def changed(*changes: tuple[ChangeKind, Any]) -> DataStream[Any]:
    return from_changes(from_collection([Change(kind, value) for kind, value in changes]))


def seen_by_one(view: Any) -> Any:
    (value,) = from_collection([1]).with_side_input(view).map(lambda _, value: value).collect()
    return value


@pytest.mark.parametrize(
    ("added", "withdrawn", "left"),
    [
        ([float("nan")], float("nan"), 0),
        ([("a", float("nan"))], ("a", float("nan")), 0),
        ([EARLIER, LATER], LATER, 1),
        ([numpy.array([1, 2]), numpy.array([1, 3])], numpy.array([1, 2]), 1),
        ([numpy.array([1.0, float("nan")])], numpy.array([1.0, float("nan")]), 0),
        ([numpy.array([1, 2])], numpy.array([1, 2, 3]), 1),
        ([Row(1.0, numpy.array([1, 2]))], Row(1.0, numpy.array([1, 2])), 0),
        ([Row(1.0, numpy.array([1, 2]))], Row(2.0, numpy.array([1, 2])), 1),
    ],
)
def test_what_is_withdrawn_is_found_as_state_finds_it(added: list[Any], withdrawn: Any, left: int) -> None:
    changes = changed(*[(ChangeKind.INSERT, value) for value in added], (ChangeKind.DELETE, withdrawn))
    listed = seen_by_one(as_list(changes))
    assert len(listed) == left
    # The newest value of the one key, or of the singleton, is the last one that was added.
    is_left = not is_same(added[-1], withdrawn)
    assert len(seen_by_one(as_dict(changes, lambda value: "all"))) == is_left
    assert len(seen_by_one(as_singleton(changes.map(lambda value: (value,)), default=()))) == is_left


def test_of_two_hours_that_a_clock_shows_alike_the_one_is_withdrawn_that_was_meant() -> None:
    changes = changed((ChangeKind.INSERT, EARLIER), (ChangeKind.INSERT, LATER), (ChangeKind.DELETE, LATER))
    assert [moment.fold for moment in seen_by_one(as_list(changes))] == [0]


def test_values_that_are_not_comparable_are_an_error() -> None:
    class Undecided:
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            raise ValueError("undecided")

    class Failing(Undecided):
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            raise KeyError("failing")

    for class_, error in ((Undecided, InvalidArgumentError), (Failing, UserFunctionError)):
        changes = [(ChangeKind.INSERT, class_()), (ChangeKind.DELETE, class_())]
        with pytest.raises(error, match=r"where: .*side_input"):
            seen_by_one(as_list(changed(*changes)))


def test_keys_are_one_as_keys_of_state_are() -> None:
    side = [(float("nan"), 1), (float("nan"), 2), (EARLIER, 3), (LATER, 4)]
    numbers = seen_by_one(as_dict(from_collection(side), lambda pair: pair[0], lambda pair: pair[1]))
    assert [*numbers.values()] == [2, 3, 4]
    assert (numbers[float("nan")], numbers[EARLIER], numbers[LATER]) == (2, 3, 4)
    assert [key.fold for key in numbers if isinstance(key, datetime)] == [0, 1]


def test_keys_are_one_after_a_restart_too() -> None:
    main, side = PushSource(int), PushSource(tuple[float, int])
    numbers = as_dict(from_source(side), lambda pair: pair[0], lambda pair: pair[1])
    stream = from_source(main).with_side_input(numbers).map(lambda _, view: [*view.values()])
    with StreamHarness(stream, main) as harness:
        for value in (1, 2):
            harness.process_element((float("nan"), value), source=side)
            harness.snapshot_restore()
        harness.process_element(1)
        assert harness.take_values() == [[2]]


class Kept(KeyedProcessFunction[int, tuple[int, Mapping[str, int]], bool]):
    _BEFORE: ValueStateDescriptor[Any] = ValueStateDescriptor("before")

    def process_element(self, value: tuple[int, Mapping[str, int]], context: KeyedProcessContext[int]) -> list[bool]:
        before = context.get_state(self._BEFORE)
        held = before.value()
        before.update(value[1])
        return [] if held is None else [bool(held == {"a": 1} and held != {"a": 2})]


def test_mappings_are_kept_in_state_and_checkpoints() -> None:
    main, side = PushSource(int), PushSource(tuple[str, int])
    view = as_dict(from_source(side), lambda pair: pair[0], lambda pair: pair[1])
    pairs = from_source(main).with_side_input(view).map(lambda number, mapping: (number, mapping))
    with StreamHarness(pairs.key_by(lambda pair: 0).process(Kept()), main) as harness:
        harness.process_element(("a", 1), source=side)
        harness.process_element(1)
        harness.snapshot_restore()
        harness.process_element(2)
        assert harness.take_values() == [True]


def test_mappings_are_read_only_and_equal_to_others() -> None:
    pairs = [("a", 1), ("b", 2)]
    mapping: Any = seen_by_one(as_dict(from_collection(pairs), lambda pair: pair[0], lambda pair: pair[1]))
    copied = pickle.loads(pickle.dumps(mapping))
    assert copied == mapping == dict(pairs) == copied
    assert mapping != {"a": 1, "c": 2}
    assert mapping != [("a", 1), ("b", 2)]
    assert repr(mapping) == "ViewMapping({'a': 1, 'b': 2})"
    assert ("c" in mapping, mapping.get("c"), len(mapping)) == (False, None, 2)
    with pytest.raises(KeyError, match="c"):
        mapping["c"]
    with pytest.raises(TypeError, match="item assignment"):
        mapping["a"] = 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(mapping)


def test_keys_without_a_hash_are_an_error_that_names_key_and_element() -> None:
    keys: Any = from_collection([[7]])
    with pytest.raises(InvalidArgumentError, match=r"key of as_dict cannot be hashed\n.*\[7\], of the element \[7\]"):
        seen_by_one(as_dict(keys, lambda key: key))


@pytest.mark.parametrize(("is_main", "reached"), [(True, "side inputs in windows"), (False, "the side input as_list")])
def test_elements_without_timestamps_are_an_error(is_main: bool, reached: str) -> None:
    fed = Fed(lambda side: as_list(side, windows=TENS))
    missing = pytest.raises(MissingTimestampError, match=f"without a timestamp reached {reached}")
    with StreamHarness(fed.stage.map(seen), fed.main) as harness, missing:
        harness.process_element(("m", 1), source=fed.main if is_main else fed.side)


def test_a_singleton_that_is_withdrawn_is_waited_for_until_the_next_one() -> None:
    main, side = PushSource(int), PushSource(Change[str])
    view = as_singleton(from_changes(from_source(side)))
    stream = from_source(main).with_side_input(view).map(lambda number, value: (number, value))
    with StreamHarness(stream, main) as harness:
        harness.process_element(Change(ChangeKind.INSERT, "old"), source=side)
        harness.process_element(1)
        harness.process_element(Change(ChangeKind.UPDATE_BEFORE, "old"), source=side)
        harness.process_element(2)
        harness.snapshot_restore()
        harness.process_element(3)
        assert harness.take_values() == [(1, "old")]
        harness.process_element(Change(ChangeKind.UPDATE_AFTER, "new"), source=side)
        assert harness.take_values() == [(2, "new"), (3, "new")]
        harness.process_element(Change(ChangeKind.DELETE, "new"), source=side)
        harness.process_element(4)
        with pytest.raises(UnsupportedOperationError, match="no element in the window"):
            harness.process_watermark(MAX_TIMESTAMP)


def test_a_singleton_that_is_withdrawn_has_its_default_at_once() -> None:
    changes = [(ChangeKind.INSERT, 1), (ChangeKind.DELETE, 1)]
    assert seen_by_one(as_singleton(changed(*changes), default=0)) == 0
