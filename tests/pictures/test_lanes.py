"""Recordings of steps without windows, and their pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import combinations
from xml.etree import ElementTree

import pytest

from tests.pictures.pictured import (
    SVG,
    Step,
    add,
    clock,
    element,
    groups,
    keyed_numbers,
    recorded_numbers,
    recording_of,
    root_of,
    sums,
    texts,
    titles,
    watermark,
)
from windrow import DataStream, KeyedStream, Pipeline, from_collection, from_source
from windrow.drawing.svg import width_of
from windrow.errors import InvalidArgumentError
from windrow.functions import (
    BroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessContext,
    OnTimerContext,
    ReadOnlyContext,
    TimeDomain,
)
from windrow.sinks import CollectSink
from windrow.state import MapStateDescriptor
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.local import LocalRunner
from windrow_runtime.pictures import Lane, Moment, Recording, Timeline, lanes
from windrow_runtime.testing import PushSource, StreamHarness

FACTORS = MapStateDescriptor("factors", str, int)


class Told(KeyedCoProcessFunction[str, str, int, str]):
    """Tells numbers at once, and letters when their timers fire: in event time, and in processing time."""

    uses_processing_time = True

    def process_element1(self, value: str, context: KeyedProcessContext[str]) -> Iterable[str]:
        assert context.timestamp is not None, "the harness gives timestamps"
        context.timer_service.register_event_time_timer(context.timestamp + 1_000)
        context.timer_service.register_processing_time_timer(5_000)
        return ()

    def process_element2(self, value: int, context: KeyedProcessContext[str]) -> Iterable[str]:
        return [f"number {value}", "and more"]

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[str]:
        return [f"{'event' if context.time_domain is TimeDomain.EVENT_TIME else 'clock'} {timestamp}"]


class Times(KeyedBroadcastProcessFunction[int, int, int, int]):
    def process_element(self, value: int, context: ReadOnlyContext[int]) -> Iterable[int]:
        return [value * (context.get_broadcast_state(FACTORS).get("all") or 1)]

    def process_broadcast_element(self, value: int, context: BroadcastContext[int, int]) -> Iterable[int]:
        context.get_broadcast_state(FACTORS).put("all", value)
        return [-value]


LETTERS, NUMBERS = PushSource(str), PushSource(int)


def told_of(*steps: Step, key: str = "k") -> Recording:
    both = from_source(LETTERS).connect(from_source(NUMBERS)).key_by(lambda letter: key, lambda number: "k")
    return recording_of(both.process(Told()), LETTERS, *steps)


def told(*, restores: bool = False) -> Recording:
    return told_of(
        *(element("a", 500), clock(2_000), element(7, 600, NUMBERS)),
        *[StreamHarness.snapshot_restore] * restores,
        *(watermark(1_000), watermark(1_600), clock(6_000)),
    )


@pytest.mark.parametrize("restores", [False, True])
def test_each_result_stands_with_what_let_it_out(restores: bool) -> None:
    (found,) = told(restores=restores).processes.values()
    assert (found.name, found.lanes) == ("Told", (Lane.FIRST, Lane.SECOND))
    assert [(each.lane, each.key, each.value, each.timestamp, each.results) for each in found.events] == [
        (Lane.FIRST, "k", "a", 500, ()),
        (Lane.SECOND, "k", 7, 600, ("number 7", "and more")),
        (Lane.WATERMARK, None, 1_000, None, ()),
        (Lane.WATERMARK, None, 1_600, None, ("event 1500",)),
        (Lane.CLOCK, None, 6_000, None, ("clock 5000",)),
    ]
    assert [each.moment for each in found.events] == [
        Moment(order=1, clock=None),
        *(Moment(order=order, clock=2_000) for order in (2, 3, 4)),
        Moment(order=5, clock=6_000),
    ]


def test_a_timer_behind_the_clock_is_fired_by_the_clock() -> None:
    found = told_of(clock(6_000), element("a", 500)).of_process().events
    assert [(each.lane, each.value, each.results) for each in found] == [
        (Lane.FIRST, "a", ()),
        (Lane.CLOCK, 6_000, ("clock 5000",)),
    ]


def times() -> Recording:
    numbers, factors = PushSource(int), PushSource(int)
    keyed = from_source(numbers).key_by(lambda number: number)
    multiplied = keyed.connect(from_source(factors).broadcast(FACTORS)).process(Times())
    return recording_of(multiplied, numbers, element(1), element(10, None, factors), element(2, 300))


def test_broadcast_elements_have_a_lane_of_their_own() -> None:
    found = times().of_process()
    assert found.lanes == (Lane.BROADCAST, Lane.ELEMENTS)
    assert [(each.lane, each.key, each.value, each.results) for each in found.events] == [
        (Lane.ELEMENTS, 1, 1, (1,)),
        (Lane.BROADCAST, None, 10, (-10,)),
        (Lane.ELEMENTS, 2, 2, (20,)),
    ]


def test_joins_by_time_and_rolling_sums_are_recorded_and_windows_are_not_among_them() -> None:
    left, right = (from_collection([number]).key_by(lambda number: "k") for number in (1, 2))
    source, keyed = keyed_numbers()
    joined = keyed.interval_join(keyed).between(timedelta(0), timedelta(seconds=1)).apply(add)
    (found,) = recording_of(joined, source, element(3, 1)).processes.values()
    assert [(each.lane, each.value, each.results) for each in found.events] == [
        (Lane.FIRST, 3, ()),
        (Lane.SECOND, 3, (6,)),
    ]
    rolling = left.sum(lambda number: number), right.sum(lambda number: number)
    result = LocalRunner(record=True).run(
        Pipeline("p", *(each.sink_to(CollectSink(str(id(each)))) for each in rolling))
    )
    assert [[each.results for each in step.events if each.results] for step in result.recording.processes.values()] == [
        [(("k", 1),)],
        [(("k", 2),)],
    ]
    windows = recorded_numbers(sums)
    assert (windows.processes, len(windows.steps)) == ({}, 1)


def test_which_step_must_be_clear() -> None:
    recording = times()
    (identifier,) = recording.processes
    assert recording.of_process(identifier) is recording.of_process()
    with pytest.raises(InvalidArgumentError, match=rf"given: +other\n +expected: {identifier}"):
        recording.of_process("other")
    with pytest.raises(InvalidArgumentError, match=r"the recording has no keyed step without windows"):
        Recording({}).of_process()
    with pytest.raises(InvalidArgumentError, match=r"a recording of a, b\n +expected: step='...'"):
        Recording({}, {"a": recording.of_process(), "b": recording.of_process()}).of_process()
    with pytest.raises(InvalidArgumentError, match="the width is too small"):
        lanes(recording, width=100)


def drawn_told() -> Timeline:
    return lanes(told(), title="Told", names={Lane.FIRST: "letters", Lane.SECOND: "numbers & more"})


def test_each_stream_has_a_lane_with_its_name() -> None:
    root = root_of(drawn_told())
    assert texts(root, "title") == ["Told"]
    assert texts(root, "key") == ["letters", "numbers & more", "watermark", "clock", "results"]
    assert titles(groups(root, "first")) == ["a\nevent time 500"]
    assert titles(groups(root, "second")) == ["7\nevent time 600"]
    assert titles(groups(root, "time")) == ["watermark 1000", "watermark 1600", "clock 6000"]
    assert titles(groups(root, "result")) == ["number 7", "and more", "event 1500", "clock 5000"]
    assert texts(root, "tick") == ["2000", "6000"]
    # Without names they are called what they are; a clock that was not set has no lane and no ticks.
    plain = root_of(lanes(times()))
    assert texts(plain, "key") == ["broadcast stream", "elements", "results"]
    assert texts(plain, "tick") == []
    assert titles(groups(plain, "elements")) == ["1\nkey 1", "2\nevent time 300\nkey 2"]
    assert titles(groups(plain, "broadcast")) == ["10"]


def rectangle(of: ElementTree.Element) -> tuple[float, float, float, float]:
    x, y, wide, high = (float(of.attrib[name]) for name in ("x", "y", "width", "height"))
    return x, y, x + wide, y + high


def note_area(note: ElementTree.Element) -> tuple[float, float, float, float]:
    """What a note covers; its letters are 8 pixels high."""
    x, y, wide = float(note.attrib["x"]), float(note.attrib["y"]), width_of(note.text or "", 10)
    return x - wide / 2, y - 8, x + wide / 2, y


def meet(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize("width", [240, 760])
@pytest.mark.parametrize("content", ["x", "some words that need lines", "w" * 90])
def test_boxes_and_notes_meet_nowhere(content: str, width: int) -> None:
    for recording in (told(), times()):
        root = root_of(lanes(recording, values=lambda value: content, width=width))
        boxes = [rectangle(each) for group in groups(root, "box") for each in group.iter(f"{SVG}rect")]
        notes = [*map(note_area, (each for each in root.iter(f"{SVG}text") if each.get("class") == "beside"))]
        found = [*boxes, *notes]
        assert [pair for pair in combinations(found, 2) if meet(*pair)] == []
        names = [float(each.attrib["x"]) for each in root.iter(f"{SVG}text") if each.get("class") == "key"]
        assert max(names) < min(box[0] for box in boxes)
        assert max(box[2] for box in boxes) <= float(root.attrib["width"])


def test_an_arrow_leads_from_what_let_results_out_to_them() -> None:
    arrows = [each.attrib["d"] for each in root_of(drawn_told()).iter(f"{SVG}path") if each.get("class") == "arrow"]
    assert len(arrows) == 2 * 3  # a line and a head for the number, the watermark and the clock


def test_the_end_of_a_stream_and_odd_characters_are_drawn() -> None:
    steps = element("<&", 500), element("", 1_000), element(1, None, NUMBERS), watermark(MAX_TIMESTAMP)
    picture = lanes(told_of(*steps, key="<k>"))
    root = root_of(picture)
    assert titles(groups(root, "time")) == ["watermark end"]
    assert "<&\nevent time 500\nkey '<k>'" in titles(groups(root, "first"))
    assert "<td>&lt;&amp;</td>" in picture.html
    assert picture.title == "Lanes of Told"


def test_a_page_has_a_table_of_the_events() -> None:
    rows = [row for row in drawn_told().html.splitlines() if row.startswith("<tr>")]
    assert rows[0] == "<tr><th>lane</th><th>key</th><th>element</th><th>time</th><th>results</th></tr>"
    assert rows[2] == (
        "<tr><td>numbers &amp; more</td><td>'k'</td><td>7</td><td>600</td><td>number 7, and more</td></tr>"
    )
    assert rows[4] == "<tr><td>watermark</td><td></td><td></td><td>1600</td><td>event 1500</td></tr>"


def test_an_empty_recording_is_an_empty_picture_and_events_beyond_the_most_are_counted() -> None:
    def rolling(keyed: KeyedStream[int, str]) -> DataStream[tuple[str, int]]:
        return keyed.sum(lambda number: number)

    assert texts(root_of(lanes(recorded_numbers(rolling))), "key") == ["elements", "results"]
    root = root_of(lanes(recorded_numbers(rolling, *map(element, range(61)))))
    assert texts(root, "note") == ["1 more event, not drawn"]
    assert len(groups(root, "event")) == 60
