"""Side inputs: what the builder makes of them, what a plan shows, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.dsl.plans import SECOND, SECONDS, cases, fault_of, faults_of, in_time, plan, refusal
from windrow import DataStream, OutputTag, SideInput, as_dict, as_list, as_singleton, from_collection
from windrow.functions import MapFunction
from windrow.panes import TimestampCombiner
from windrow.plan import SideInputNode
from windrow.triggers import after_count, after_watermark
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)

# Any in this module: views of several types.

words = in_time(["a", "bb"], at=len)
numbers = in_time([1, 2, 3], at=lambda number: number)
unstamped = from_collection([1, 2])
early = after_watermark(early=after_count(1))
sliding = SlidingEventTimeWindows.of(2 * SECOND, SECOND)


def windows_of(view: SideInput[Any]) -> str:
    return view.view.windows.describe()


def test_explain_shows_the_views() -> None:
    totals = as_singleton(numbers.window_all(SECONDS).sum(lambda number: number), default=0)
    halves = as_dict(unstamped, lambda number: number // 2)
    sized = words.with_side_input(totals, halves, allowed_lateness=SECOND, late=OutputTag("late", str), name="sides")
    kept = sized.filter(lambda word, total, _: len(word) < total)
    shown = [line.split(maxsplit=1)[1] for line in plan(kept).explain().splitlines()[1:]]
    windows = "TumblingEventTimeWindows(size=1 s)"
    assert [" ".join(line.split()) for line in shown] == [
        "source collection of 2 : str",
        "timestamps <- 1 monotonous timestamps, timestamp len : str",
        "key_by <- 2 spread : str",
        "source collection of 3 : int",
        "timestamps <- 4 monotonous timestamps, timestamp element : int",
        f"window <- 5 {windows}, trigger EventTimeTrigger, aggregate sum(element) : int",
        "changelog <- 6 side input : SideElement[NoneType, int]",
        "source collection of 2 : int",
        "changelog <- 8 side input, lambda : SideElement[int, int]",
        "union <- 7, 9 : SideElement",
        "broadcast <- 10 : SideElement",
        f"side_input sides <- 3, 11 as_singleton in {windows}, as_dict in the global window, allowed lateness 1 s, "
        "late to 'late' : tuple[str, int, Mapping[int, int]]",
        "filter <- 12 lambda : tuple[str, int, Mapping[int, int]]",
        "map <- 13 without_views : str",
        "sink <- 14 collect",
    ]


def test_stages_show_what_they_are() -> None:
    view = as_list(numbers, windows=SECONDS)
    assert repr(view).startswith(
        "SideInput(as_list in TumblingEventTimeWindows(size=1 s), DataStream(timestamps: int, "
    )
    stage = words.with_side_input(view)
    assert repr(stage).startswith("SideInputStream(side_input: ")
    assert isinstance(stage.node, SideInputNode)
    assert stage.map(lambda word, others: (word, len(others))).element_type == tuple[str, int]
    assert stage.filter(lambda word, others: not others).element_type is str


def test_windows_are_those_of_the_results_of_a_stream() -> None:
    of_seconds = numbers.window_all(SECONDS).allowed_lateness(SECOND).sum(lambda number: number)
    later = of_seconds.map(lambda number: number + 1).filter(lambda number: number > 0)
    text = "TumblingEventTimeWindows(size=1 s), lateness 1 s"
    assert windows_of(as_singleton(later)) == text
    assert windows_of(as_singleton(later.union(of_seconds))) == text
    # Where results are elements anew, they are in no windows, unless somebody says so.
    assert (
        windows_of(as_singleton(later.key_by(lambda number: number).sum(lambda number: number))) == "the global window"
    )
    assert windows_of(as_singleton(later, windows=GlobalWindows.create())) == "the global window"
    assert windows_of(as_singleton(numbers.count_window_all(2).count())) == "the global window"


@pytest.mark.parametrize(
    ("trigger", "at_end"),
    [(None, True), (after_watermark(), True), (after_watermark(late=after_count(2)), True), (early, False)],
)
def test_a_view_is_whole_at_the_end_where_no_pane_comes_before(trigger: Any, at_end: bool) -> None:
    windows = numbers.window_all(SECONDS)
    stream = (windows if trigger is None else windows.trigger(trigger)).sum(lambda number: number)
    assert as_singleton(stream).view.windows.at_end == at_end


def test_windows_downstream_of_other_sizes_are_warned_of() -> None:
    stage = words.with_side_input(as_list(numbers, windows=SECONDS)).map(lambda word, _: word)

    def explained(windows: TumblingEventTimeWindows) -> str:
        return plan(stage.window_all(windows).count()).explain()

    assert "may be late here" not in explained(SECONDS)
    assert "may be late here, and are dropped then" in explained(TumblingEventTimeWindows.of(SECOND / 2))


def of_windows(windows: Any) -> Callable[[], object]:
    return lambda: as_list(numbers, windows=windows)


class Rich(MapFunction[int, int]):
    def map(self, value: int) -> int:
        return value


UNMAPPED = "no timestamp of another stream maps to the windows of this side input"


@pytest.mark.parametrize(
    ("call", "message"),
    cases(
        {
            UNMAPPED: [
                of_windows(EventTimeSessionWindows.with_gap(SECOND)),
                of_windows(TumblingProcessingTimeWindows.of(SECOND)),
                of_windows(TumblingEventTimeWindows.of(SECOND, stagger=WindowStagger.RANDOM)),
                lambda: as_singleton(numbers.window_all(EventTimeSessionWindows.with_gap(SECOND)).count()),
            ],
            "the elements of a side input are in windows of several kinds": [
                lambda: as_list(numbers.window_all(SECONDS).count().union(numbers.window_all(sliding).count())),
                lambda: as_list(numbers.window_all(SECONDS).count().union(numbers)),
            ],
            "results of windows that overlap do not say by their timestamp of which window they are": [
                lambda: as_list(numbers.window_all(sliding).timestamp_combiner(TimestampCombiner.EARLIEST).reduce(max))
            ],
            "panes of the windows upstream repeat elements": [
                lambda: as_list(numbers.window_all(SECONDS).trigger(early).accumulating().reduce(max)),
                lambda: as_list(numbers.window_all(SECONDS).allowed_lateness(SECOND).count()),
            ],
            "as_dict views a stream": [lambda: as_dict(numbers.key_by(abs), abs)],  # type: ignore[call-overload]
            "the key of as_dict": [lambda: as_dict(numbers, Rich()), lambda: as_dict(numbers, 1)],  # type: ignore[call-overload]
            "the value of as_dict": [lambda: as_dict(numbers, abs, Rich())],
            "windows need an assigner": [of_windows("hour")],
            "with_side_input takes views of streams": [lambda: words.with_side_input(numbers)],  # type: ignore[call-overload]
            "with_side_input takes one to four views": [
                words.with_side_input,
                lambda: words.with_side_input(*[as_list(numbers)] * 5),
            ],
            "the allowed lateness is negative": [
                lambda: words.with_side_input(as_list(numbers), allowed_lateness=-SECOND)
            ],
            "late elements go to a side output": [lambda: words.with_side_input(as_list(numbers), late="late")],  # type: ignore[call-overload]
            "map of a stream with side inputs takes a plain function": [
                lambda: words.with_side_input(as_list(numbers)).map(Rich())  # type: ignore[arg-type]
            ],
            "filter needs a function": [lambda: words.with_side_input(as_list(numbers)).filter(1)],  # type: ignore[arg-type]
        }
    ),
)
def test_what_is_no_side_input_is_refused(call: Callable[[], object], message: str) -> None:
    assert message in refusal(call).message


def kept(main: DataStream[Any], view: SideInput[Any]) -> DataStream[Any]:
    return main.with_side_input(view).map(lambda element, _: element)


def test_windows_need_timestamps_on_both_sides() -> None:
    assert "and the main stream has none" in fault_of(kept(unstamped, as_list(numbers, windows=SECONDS))).message
    assert "and the side input has none" in fault_of(kept(words, as_list(unstamped, windows=SECONDS))).message
    assert faults_of(kept(unstamped, as_list(unstamped))) == []


def test_the_main_stream_withdraws_nothing() -> None:
    retracting = numbers.window_all(SECONDS).trigger(early).retracting().reduce(max)
    assert "takes elements for good" in fault_of(kept(retracting, as_list(numbers))).message
    assert faults_of(kept(numbers, as_list(retracting))) == []


def test_side_outputs_are_those_that_were_asked_for() -> None:
    late = OutputTag("late", str)
    assert (
        "has no side output 'late'" in fault_of(words.with_side_input(as_list(numbers)).get_side_output(late)).message
    )
    stage = words.with_side_input(as_list(numbers), late=OutputTag("late"))
    assert stage.get_side_output(OutputTag("late")).element_type is str
