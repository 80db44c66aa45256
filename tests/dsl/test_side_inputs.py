"""Side inputs: what the builder makes of them, what a plan shows, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from tests.dsl.plans import IN_ORDER, SECOND, SECONDS, cases, fault_of, faults_of, in_time, plan, refusal
from windrow import DataStream, OutputTag, SideInput, as_dict, as_list, as_singleton, from_collection
from windrow.functions import MapFunction, ProcessAllWindowFunction, ProcessContext, ProcessFunction, TimeDomain
from windrow.panes import TimestampCombiner
from windrow.patterns import Pattern
from windrow.plan import SideInputNode
from windrow.state import StateTtlConfig
from windrow.triggers import CountTrigger, after_count, after_watermark
from windrow.windows import (
    CalendarWindows,
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeWindow,
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
        "is read by nothing: its elements are lost",
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


def first(element: str) -> str:
    return element[0]


DROPPED = "are dropped then"
ASIDE = "go to the side output of late elements then"
LATE = OutputTag("late", str)
HALVES = TumblingEventTimeWindows.of(SECOND / 2)
OF_TIME = StateTtlConfig(SECOND, time_domain=TimeDomain.EVENT_TIME)


@pytest.mark.parametrize(
    ("downstream", "fate"),
    [
        pytest.param(lambda stream: stream.window_all(HALVES).count(), DROPPED, id="smaller windows"),
        pytest.param(lambda stream: stream.window_all(SECONDS).count(), None, id="windows alike"),
        pytest.param(
            lambda stream: stream.window_all(HALVES).allowed_lateness(SECOND).count(),
            None,
            id="smaller windows with lateness",
        ),
        pytest.param(
            lambda stream: stream.window_all(HALVES).side_output_late_data(LATE).count(),
            ASIDE,
            id="smaller windows with a tag",
        ),
        pytest.param(
            lambda stream: stream.window_all(GlobalWindows.create()).trigger(CountTrigger.of(1)).count(),
            None,
            id="the global window",
        ),
        pytest.param(lambda stream: stream.count_window_all(2).count(), None, id="counted"),
        pytest.param(lambda stream: kept(stream, as_list(numbers, windows=HALVES)), DROPPED, id="smaller side input"),
        pytest.param(lambda stream: kept(stream, as_list(numbers, windows=SECONDS)), None, id="side input alike"),
        pytest.param(lambda stream: kept(stream, as_list(numbers)), None, id="global side input"),
        pytest.param(lambda stream: stream.key_by(first).in_event_time_order().map(first), DROPPED, id="in order"),
        pytest.param(
            lambda stream: stream.key_by(first).in_event_time_order(late=LATE).map(first),
            ASIDE,
            id="in order with a tag",
        ),
        pytest.param(
            lambda stream: stream.key_by(first).pattern(Pattern.begin("a", bool)).apply(lambda match: [1]),
            DROPPED,
            id="pattern",
        ),
        pytest.param(lambda stream: joined_by_time(stream).apply(lambda a, b: a), DROPPED, id="interval join"),
        pytest.param(lambda stream: as_of(stream, "as_of_join"), DROPPED, id="as-of join"),
        pytest.param(
            lambda stream: as_of(stream, "left_as_of_join"),
            "miss their partner then, or are dropped then where",
            id="left as-of join",
        ),
        pytest.param(
            lambda stream: stream.key_by(first).distinct(within=SECOND),
            "count as of the time of the watermark where state expires",
            id="distinct",
        ),
        pytest.param(
            lambda stream: stream.key_by(first).stateful_map(int, add, ttl=OF_TIME),
            "count as of the time of the watermark",
            id="stateful",
        ),
        pytest.param(lambda stream: stream.key_by(first).sum(len), None, id="sum"),
        pytest.param(lambda stream: kept(words, as_list(stream, windows=HALVES)), DROPPED, id="as side input"),
    ],
)
def test_steps_downstream_that_judge_by_time_say_so(
    downstream: Callable[[DataStream[Any]], DataStream[Any]], fate: str | None
) -> None:
    waited = kept(words, as_list(numbers, windows=SECONDS))
    note = " ".join(plan(downstream(waited)).explain().split()).partition("may be late here, and ")[2]
    assert note.startswith(fate) if fate else not note


def joined_by_time(stream: DataStream[str]) -> Any:
    return stream.key_by(first).interval_join(words.key_by(first)).between(-SECOND, SECOND)


def as_of(stream: DataStream[str], call: str) -> Any:
    return getattr(stream.key_by(first), call)(words.key_by(first)).apply(lambda a, b: a)


def add(number: int, word: str) -> tuple[int, int]:
    return number + 1, number


def test_the_global_view_makes_elements_late_too_where_they_have_timestamps() -> None:
    def noted(*views: SideInput[Any]) -> bool:
        waited = words.with_side_input(*views).map(lambda word, *_: word)
        return "may be late here, and are dropped then" in plan(waited.window_all(SECONDS).count()).explain()

    assert noted(as_list(unstamped))
    assert noted(as_list(numbers, windows=SECONDS), as_list(unstamped))
    assert not noted(as_list(numbers, windows=SECONDS), as_list(numbers, windows=SECONDS))
    anew = in_time(["a"], at=len)
    joined = kept(anew.map(len), as_list(unstamped)).assign_timestamps_and_watermarks(IN_ORDER, timestamp=abs)
    assert "may be late here" not in plan(joined.window_all(SECONDS).count()).explain()


def test_results_with_early_timestamps_are_late_for_joins_and_not_for_windows_alike() -> None:
    front = numbers.window_all(SECONDS).timestamp_combiner(TimestampCombiner.EARLIEST).reduce(max)
    by_number = front.key_by(abs)
    join = by_number.interval_join(numbers.key_by(abs)).between(-SECOND, SECOND).apply(lambda a, b: a)
    assert "results of step 3 may be late here, and are dropped then" in plan(join).explain()
    assert "may be late here" not in plan(by_number.window(SECONDS).reduce(max)).explain()
    assert "may be late here" not in plan(kept(words, as_list(front))).explain()
    assert "may be late here" in plan(kept(words, as_list(front, windows=HALVES))).explain()


def test_windows_go_on_through_steps_without_keys_and_their_side_outputs() -> None:
    class Aside(ProcessFunction[int, int]):
        def process_element(self, value: int, context: ProcessContext) -> list[int]:
            context.output(tag, value)
            return []

    class AsideOfWindows(ProcessAllWindowFunction[int, int, TimeWindow]):
        def process(self, context: Any, elements: Iterable[int]) -> list[int]:
            context.output(tag, 1)
            return []

    tag = OutputTag("aside", int)
    text = "TumblingEventTimeWindows(size=1 s)"
    totals = numbers.window_all(SECONDS).sum(lambda number: number)
    for through in (
        lambda stream: kept(stream, as_singleton(unstamped)),
        lambda stream: stream.process(Aside()).get_side_output(tag),
        lambda stream: kept(kept(stream, as_list(words)), as_list(unstamped)),
        lambda stream: stream.with_side_input(as_list(unstamped), late=tag).get_side_output(tag),
        lambda stream: stream.key_by(abs).window(sliding).side_output_late_data(tag).count().get_side_output(tag),
    ):
        assert windows_of(as_singleton(through(totals))) == text
        assert "panes of the windows upstream repeat" in refusal(partial(as_list, through(repeating()))).message
    # What a function of windows puts out is no result of them.
    aside = numbers.window_all(SECONDS).process(AsideOfWindows()).get_side_output(tag)
    assert windows_of(as_singleton(aside)) == "the global window"
    # The views that a step takes are not what it makes its results of.
    assert windows_of(as_singleton(kept(unstamped, as_list(totals)))) == "the global window"


def test_stages_say_what_to_write_instead_of_calls_of_streams() -> None:
    stage: Any = words.with_side_input(as_list(numbers))
    for name in ("key_by", "collect", "window_all", "keyBy", "sink_to"):
        with pytest.raises(AttributeError, match=r"hint: +call map\(\.\.\.\), flat_map"):
            getattr(stage, name)
    with pytest.raises(AttributeError, match=r"hint: +flat_map\(\.\.\.\)"):
        _ = stage.flatMap


def test_functions_that_return_one_value_are_faults() -> None:
    stage: Any = words.with_side_input(as_list(numbers))
    pair = lambda word, view: (word, view)  # noqa: E731 - the code of a lambda says what it returns
    assert "lambda returns one tuple" in fault_of(stage.flat_map(pair)).message
    assert "lambda returns one tuple" in fault_of(stage.process(lambda word, view, context: (word, view))).message

    def text(word: str, view: Any, context: Any) -> str:
        return word

    assert "text returns str" in fault_of(stage.process(text)).message


def of_windows(windows: Any) -> Callable[[], object]:
    return lambda: as_list(numbers, windows=windows)


def of_early(windows: Any) -> Any:
    return numbers.window_all(windows).timestamp_combiner(TimestampCombiner.EARLIEST).reduce(max)


def repeating() -> DataStream[int]:
    return numbers.window_all(SECONDS).trigger(early).accumulating().reduce(max)


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
                partial(as_list, of_early(each))
                for each in (
                    sliding,
                    CumulativeEventTimeWindows.of(max_size=2 * SECOND, step=SECOND),
                    CalendarWindows.days("UTC", size=2, slide=1),
                )
            ],
            "panes of the windows upstream repeat elements": [
                lambda: as_list(numbers.window_all(SECONDS).trigger(early).accumulating().reduce(max)),
                lambda: as_list(numbers.window_all(SECONDS).allowed_lateness(SECOND).count()),
                *[partial(as_list, repeating(), windows=each) for each in (SECONDS, HALVES, GlobalWindows.create())],
                lambda: as_list(repeating().assign_timestamps_and_watermarks(IN_ORDER, timestamp=abs), windows=SECONDS),
            ],
            "keys of type list[int] cannot be hashed": [
                lambda: as_dict(numbers, lambda number: [number])  # type: ignore[type-var]
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
            "the allowed lateness must not be negative": [
                lambda: words.with_side_input(as_list(numbers), allowed_lateness=-SECOND)
            ],
            "late elements go to a side output": [lambda: words.with_side_input(as_list(numbers), late="late")],  # type: ignore[call-overload]
            "map of a stream with side inputs takes a function of an element and the values of the views": [
                lambda: words.with_side_input(as_list(numbers)).map(Rich())  # type: ignore[arg-type]
            ],
            "on_error has an unknown value": [
                lambda: words.with_side_input(as_list(numbers)).map(lambda word, _: word, on_error="skip")  # type: ignore[arg-type]
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
