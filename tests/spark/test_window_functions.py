"""Window functions of the user's that columns call where windows fire, against the general operator.

They get the elements of their windows, or what a declared aggregate makes of these. What may keep state runs as before.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from tests.budget import seeded
from tests.columnar.engine import LATE, Keyed, at, batches, by_key, millis, told
from tests.columnar.planning import column_form
from tests.spark.group_engine import run
from windrow import DataStream
from windrow import aggregates as agg
from windrow.errors import UserFunctionError
from windrow.functions import ProcessWindowContext, ProcessWindowFunction, RuntimeContext
from windrow.state import ValueStateDescriptor
from windrow.triggers import EventTimeTrigger, PurgingTrigger
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TimeWindow, TumblingEventTimeWindows
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.storage.tuning import ROW_CHUNKS, StateTuning

# Any in this module: elements and results of every type.

Context = ProcessWindowContext[TimeWindow]
Texts = tuple[Any, ...]


class Shown(ProcessWindowFunction[Any, Texts, "str | None", TimeWindow]):
    """Gives all that a function can see: one result, or several, or none."""

    results: ClassVar[int] = 1

    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Iterator[Texts]:
        window = context.window
        for number in range(self.results):
            yield key, window.start, window.end, number, repr(elements), context.current_watermark


class Several(Shown):
    """Gives results by the number of elements."""

    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Iterator[Texts]:
        for number in range(len(repr(elements)) % 3):
            yield key, context.window.start, number, context.current_processing_time


class Spoils(Shown):
    """Changes what it is handed, and emits one list again and again."""

    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Iterator[Any]:
        start, kept = context.window.start, [key, 0]
        elements = list(elements)
        while elements:
            taken = elements.pop()
            if isinstance(taken, list):
                taken.append(start)
                taken = str(taken)
            kept[1] = repr(taken)
            yield kept


class Returns(Shown):
    """Returns a list, or nothing."""

    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Any:
        if context.window.start % 3 == 0:
            return None
        return [(key, context.window.end, tuple(elements))]


def windows_of(keyed: Keyed, shape: str, lateness: timedelta, *, late: bool, purges: bool = False) -> Any:
    assigners = {
        "tumbling": TumblingEventTimeWindows.of(millis(40)),
        "sliding": SlidingEventTimeWindows.of(millis(60), millis(20)),
        "sessions": EventTimeSessionWindows.with_gap(millis(7)),
    }
    windows: Any = keyed.window(assigners[shape])
    if lateness:
        windows = windows.allowed_lateness(lateness)
    if late:
        windows = windows.side_output_late_data(LATE)
    return windows.trigger(PurgingTrigger.of(EventTimeTrigger())) if purges else windows


AGGREGATES: dict[str, Any] = {
    "elements": None,
    "a value": agg.count(),
    "a list": agg.collect_list(lambda e: e.text),
    "several": agg.combine(agg.count(), agg.max(lambda e: e.number), agg.collect_list(lambda e: e.number)),
}

CASES = [
    f"{shape}, {aggregate}, {lateness}"
    for shape in ("tumbling", "sliding", "sessions")
    for aggregate in AGGREGATES
    for lateness in ("0", "30", "10000", "purges")
    if not (shape == "sessions" and (aggregate == "elements" or lateness == "purges"))
]


FUNCTIONS: list[type[Shown]] = [Shown, Several, Spoils, Returns]


@pytest.mark.parametrize(("case", "seed"), seeded(CASES))
def test_functions_give_what_the_general_operator_gives(case: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, aggregate, lateness = case.split(", ")
    function = FUNCTIONS[CASES.index(case) * 7 // 4 % 4]
    chance = random.Random(f"{seed} {case} {function.__name__}")
    late, purges = chance.random() < 0.5, lateness == "purges"
    monkeypatch.setattr("windrow_spark.columnar.window_calls._VALUES_AT_ONCE", chance.choice([1, 3, 10, 8192]))

    def build(keyed: Keyed) -> DataStream[Any]:
        delay = millis(30 if purges else int(lateness))
        windows = windows_of(keyed, shape, delay, late=late, purges=purges)
        process = function()
        if AGGREGATES[aggregate] is None:
            stream: DataStream[Any] = windows.process(process)
        else:
            stream = windows.aggregate(AGGREGATES[aggregate], process)
        return stream

    tuning = StateTuning(row_chunks=replace(ROW_CHUNKS, tail_bytes=chance.choice([100, 10_000])))
    ran = run(build, list(batches(chance)), column_form, crash_at=seed % 5, late=late, tuning=tuning)
    assert isinstance(ran.engine.form, ColumnarForm)
    assert by_key(ran.engine.results) == by_key(ran.expected[0])
    assert ran.expected[0]
    if late:
        assert told(ran.engine.late) == told(ran.expected[1])
    assert ran.engine.counted["late_records_dropped"] == ran.dropped


class Plain(ProcessWindowFunction[Any, Texts, "str | None", TimeWindow]):
    """Refuses windows with many elements."""

    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Any:
        if len(elements) > 2:
            raise ValueError("too many")
        return [(key, len(elements))]


@pytest.mark.parametrize("lateness", [0, 10_000])
def test_errors_name_key_window_and_late_element(lateness: int) -> None:
    def build(keyed: Keyed) -> DataStream[Any]:
        stream: DataStream[Any] = windows_of(keyed, "tumbling", millis(lateness), late=False).process(Plain())
        return stream

    inputs = [[at(5), at(6)], [at(500)], [at(7, number=3)], [at(600)]] if lateness else [[at(5), at(6), at(7)]]
    with pytest.raises(UserFunctionError) as caught:
        run(build, inputs, column_form, alone=True)
    element = f", element {at(7, number=3)}" if lateness else ""
    assert caught.value.given == f"key 'k', window TimeWindow(start=0, end=40){element}"
    assert "test_window_functions.py:" in str(caught.value.where)


class Refuses(Plain):
    """Refuses the third element that came."""

    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Any:
        if elements[0] in (3, [1, 1, 3]):
            raise ValueError("too late")
        return [(key, elements[0])]


@pytest.mark.parametrize("shape", ["tumbling", "sessions"])
@pytest.mark.parametrize("aggregate", [agg.count, lambda: agg.collect_list(lambda e: e.number)], ids=["few", "many"])
def test_errors_behind_an_aggregate_name_key_and_window(shape: str, aggregate: Any) -> None:
    """Columns have what the aggregate takes, and not the element, as the page on errors says."""

    def build(keyed: Keyed) -> DataStream[Any]:
        windows = windows_of(keyed, shape, millis(10_000), late=False)
        stream: DataStream[Any] = windows.aggregate(aggregate(), Refuses())
        return stream

    with pytest.raises(UserFunctionError) as caught:
        run(build, [[at(5), at(6)], [at(500)], [at(7, number=3)], [at(600)]], column_form, alone=True)
    end = 40 if shape == "tumbling" else 14
    assert caught.value.given == f"key 'k', window TimeWindow(start={0 if end == 40 else 5}, end={end})"


class Opened(Shown):
    """Looks at what it was opened with."""

    def open(self, context: RuntimeContext) -> None:
        self.counter = context.metrics.counter("windows")

    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Iterator[Texts]:
        self.counter.inc()
        context.output(LATE, at(context.window.start, key or ""))
        yield key, len(elements)


def test_functions_are_opened_count_and_have_side_outputs() -> None:
    def build(keyed: Keyed) -> DataStream[Any]:
        stream: DataStream[Any] = windows_of(keyed, "tumbling", timedelta(0), late=False).process(Opened())
        return stream

    ran = run(build, [[at(5), at(45)], [at(500)]], column_form, late=True)
    assert told(ran.engine.results) == told(ran.expected[0])
    assert told(ran.engine.late) == told(ran.expected[1])
    assert ran.engine.late
    assert ran.engine.counted["windows"] == ran.engine.wanted_counts["windows"] == 3


LAST = ValueStateDescriptor("last", int)


class KeepsState(Shown):
    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Iterator[Texts]:
        yield key, context.global_state.get_state(LAST).value()


class HandsOn(Shown):
    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Iterator[Texts]:
        yield from helper(key, context)


class Renames(Shown):
    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Iterator[Texts]:
        same = context
        yield key, same.window


class Captures(Shown):
    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Iterator[Texts]:
        yield from ((key, context.window) for _ in elements)


class Asks(Shown):
    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Iterator[Texts]:
        yield tuple(locals())


class TakesAll(Shown):
    def process(self, *given: Any) -> Iterator[Texts]:
        yield given


class Clears(Shown):
    def clear(self, context: Context) -> None:
        """Clears nothing."""


def helper(key: Any, context: Context) -> Iterator[Texts]:
    yield key, context.global_state


@pytest.mark.parametrize("function", [KeepsState, HandsOn, Renames, Captures, Asks, TakesAll, Clears])
def test_functions_that_may_keep_state_are_declined(function: type[Shown]) -> None:
    def build(keyed: Keyed) -> DataStream[Any]:
        stream: DataStream[Any] = windows_of(keyed, "tumbling", timedelta(0), late=False).process(function())
        return stream

    reason = "clears state" if function is Clears else "may use the state of its context"
    with pytest.raises(DeclinedError, match=f"^{function.__name__} {reason}$"):
        run(build, [], column_form)
