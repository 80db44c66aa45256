"""What pictures show."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.pictures.pictured import (
    SECOND,
    SVG,
    add,
    clock,
    element,
    groups,
    keyed_numbers,
    numbers_of,
    panels,
    recorded_numbers,
    recording_of,
    root_of,
    seconds,
    sums,
    texts,
    titles,
    watermark,
)
from windrow import from_source
from windrow.errors import InvalidArgumentError
from windrow.time import MIN_TIMESTAMP
from windrow.triggers import after_count, after_watermark, repeatedly
from windrow.windows import (
    AssignerContext,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from windrow_runtime.pictures import Recording, timeline
from windrow_runtime.testing import PushSource
from windrow_tools.pictures.axes import Axis, Labels

NOON = 1_441_022_400_000


def recorded(*, ticks: bool = False) -> Recording:
    """Two keys; early panes, one on time, one that is late; an element within the lateness, and one behind it."""
    source, keyed = keyed_numbers()
    trigger = after_watermark(early=after_count(2), late=after_count(1))
    windows = keyed.window(SECOND).trigger(trigger).allowed_lateness(seconds(1))
    first = [element(number, time) for number, time in ((1, 100), (2, 200), (3, 300), (5, 400), (4, 1_500))]
    if ticks:
        first = [each for at, one in enumerate(first) for each in (clock(NOON + 1_000 * at), one)]
    late = [watermark(1_200), element(7, 500), watermark(5_000), element(9, 600)]
    return recording_of(windows.retracting().reduce(add).changelog(), source, *first, *late)


def test_each_key_has_a_panel_with_its_elements_as_numbered_circles() -> None:
    odd, even = panels(timeline(recorded()))
    assert texts(odd, "number") == ["1", "3", "4", "6", "7"]
    assert texts(even, "number") == ["2", "5"]
    assert len(odd.findall(f".//{SVG}circle")) == 5
    assert texts(root_of(timeline(recorded())), "key") == ["key 'odd'", "key 'even'"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"by": "cl0ck"}, "no such by"),
        ({"circles": "x"}, "no such circles"),
        ({"width": 138}, "the width is too small"),
        ({"height": 0}, "the height is too small"),
    ],
    ids=str,
)
def test_arguments_that_a_picture_cannot_follow_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        timeline(recorded(), **wrong)


def test_circles_hold_values_where_that_is_asked_for() -> None:
    (odd,) = panels(timeline(recorded(), key="odd", circles="value"))
    assert texts(odd, "number") == ["1", "3", "5", "7", "9"]


def test_event_time_runs_across_and_order_upwards() -> None:
    (odd,) = panels(timeline(recorded(), key="odd"))
    places = [tuple(numbers_of(circle, "cx", "cy")) for circle in odd.iter(f"{SVG}circle")]
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)
    assert "order of arrival" in texts(root_of(timeline(recorded())))


def test_late_and_dropped_elements_are_marked() -> None:
    (odd,) = panels(timeline(recorded(), key="odd"))
    assert [title.splitlines()[0] for title in titles(groups(odd, "late")) if "element" in title] == [
        "element 6: 7",
        "element 7: 9",
    ]
    (dropped,) = groups(odd, "dropped")
    assert "dropped" in titles([dropped])[0]
    assert dropped.find(f"{SVG}path[@class='cross']") is not None


def test_panes_are_told_apart_by_their_timing_and_withdrawals_have_a_minus() -> None:
    picture = timeline(recorded(), key="odd")
    (odd,) = panels(picture)
    kinds = [group.get("class") for group in groups(odd, "pane")]
    assert sorted(filter(None, kinds)) == sorted(
        ["pane early", "pane on-time", "pane late", "pane withdrawn", "pane withdrawn"]
    )
    assert sorted(texts(odd, "value")) == sorted(["4", "9", "16", "\N{MINUS SIGN}4", "\N{MINUS SIGN}9"])
    legend = set(texts(root_of(picture), "note"))
    assert {"late element", "dropped element", "early pane", "pane on time", "late pane", "withdrawn pane"} <= legend


def test_a_box_begins_where_the_pane_before_came_out() -> None:
    (odd,) = panels(timeline(recorded(), key="odd"))
    boxes = [rect for group in groups(odd, "pane") if "withdrawn" not in (group.get("class") or "") for rect in group]
    areas = [tuple(numbers_of(rect, "x", "y", "width", "height")) for rect in boxes if rect.tag == f"{SVG}rect"]
    assert len({(x, width) for x, _, width, _ in areas}) == 1
    for (_, lower, _, _), (_, upper, _, height) in pairwise(areas):
        assert upper + height == pytest.approx(lower - 2, abs=0.2)


def test_the_watermark_is_one_line_of_steps() -> None:
    (odd,) = panels(timeline(recorded(), key="odd"))
    (line,) = odd.findall(f"{SVG}path[@class='watermark']")
    corners = [tuple(map(float, corner.split())) for corner in line.attrib["d"][1:].split("L")]
    assert len(corners) == 5
    assert all(x == next_x or y == next_y for (x, y), (next_x, next_y) in pairwise(corners))


def test_the_clock_is_drawn_where_it_was_set() -> None:
    words = texts(root_of(timeline(recorded(ticks=True))))
    assert "processing time (2015-08-31, UTC)" in words
    assert "12:00:02" in words
    assert "order of arrival" in texts(root_of(timeline(recorded(ticks=True), by="order")))
    with pytest.raises(InvalidArgumentError, match="clock was not set"):
        timeline(recorded(), by="clock")


def test_a_picture_is_the_same_each_time() -> None:
    assert timeline(recorded()) == timeline(recorded())


def test_a_picture_suits_light_and_dark_ground_and_needs_nothing_else() -> None:
    svg = timeline(recorded()).svg
    assert "@media (prefers-color-scheme: dark)" in svg
    assert "var(--windrow-ink)" in svg
    assert not any(word in svg for word in ("<script", "http:", "https:", "url(", "@import", "href")) or (
        svg.count("http:") == 1 and 'xmlns="http://www.w3.org/2000/svg"' in svg
    )


def test_odd_keys_and_values_are_escaped() -> None:
    source = PushSource[str]()
    longest = from_source(source).key_by(lambda word: '<b>&"\0').window(SECOND).reduce(max)
    odd = element("]]></text><script>\x01\ud800&amp;", 1)
    picture = timeline(recording_of(longest, source, odd, watermark(999)), title="<&>")
    assert texts(root_of(picture), "title") == ["<&>"]
    (panel,) = panels(picture)
    assert titles(groups(panel, "element"))[0].startswith("element 1: ]]></text><script>\ufffd\ufffd&amp;")
    assert "<script" not in picture.html
    picture.html.encode()


def test_values_are_shortened_and_shown_as_the_user_wants() -> None:
    (odd,) = panels(timeline(recorded(), key="odd", values=lambda value: f"value {value} " + "x" * 500))
    assert all(len(text) < 120 for text in texts(odd))
    assert titles(groups(odd, "element"))[0].startswith("element 1: value 1 xxx")


def test_windows_without_end_span_the_axis() -> None:
    recording = recorded_numbers(
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(repeatedly(after_count(2))).discarding().reduce(add),
        *(element(number, number) for number in (2, 4, 6, 8)),
    )
    (panel,) = panels(timeline(recording))
    rects = [rect for group in groups(panel, "pane") for rect in group.findall(f"{SVG}rect")]
    ends = [x for line in panel.findall(f"{SVG}line[@class='grid']") for x in numbers_of(line, "x1", "x2")]
    assert len(rects) == 2
    for x, width in (tuple(numbers_of(rect, "x", "width")) for rect in rects):
        assert (x - 1, x + width + 1) == pytest.approx((min(ends), max(ends)), abs=0.2)


def test_windows_in_processing_time_lie_along_the_clock() -> None:
    steps = [step for second in range(4) for step in (clock(1_000 * second), element(2))]
    windows = TumblingProcessingTimeWindows.of(seconds(1))
    picture = timeline(recorded_numbers(lambda keyed: keyed.window(windows).reduce(add), *steps))
    assert texts(root_of(picture), "axis") == ["processing time", "processing time"]
    assert len(groups(panels(picture)[0], "pane")) == 3


def test_a_long_title_has_several_lines() -> None:
    words = "a title of many words, " * 10
    lines = texts(root_of(timeline(recorded(), title=words, width=400)), "title")
    assert len(lines) > 1
    assert " ".join(lines) == words.strip()
    assert max(map(len, lines)) < 50


def test_labels_of_windows_that_overlap_lie_in_none_of_the_others() -> None:
    recording = recorded_numbers(
        lambda keyed: keyed.window(SlidingEventTimeWindows.of(seconds(10), seconds(5))).reduce(add),
        *(clock(3_000), element(2, 2_000), watermark(999)),
        *(clock(7_000), element(6, 6_000), watermark(6_999)),
        *(clock(13_000), element(12, 12_000), watermark(14_999), watermark(30_000)),
    )
    (panel,) = panels(timeline(recording))
    boxes = [
        tuple(numbers_of(rect, "x", "y", "width", "height"))
        for group in groups(panel, "pane")
        for rect in group.findall(f"{SVG}rect")
    ]
    labels = [tuple(numbers_of(label, "x", "y")) for label in panel.iter(f"{SVG}text") if label.get("class") == "value"]
    assert len(boxes) == len(labels) == 4
    for x, y in labels:
        assert (
            len([box for box in boxes if box[0] < x + 5 and x - 5 < box[0] + box[2] and box[1] < y < box[1] + box[3]])
            == 1
        )


def test_what_happens_first_stands_above_the_lower_edge() -> None:
    axis = Axis.over([1_000, 2_000, 5_000], 200.0, 0.0)
    assert (axis.low, axis.high) == (0, 6_000)
    assert Axis.over([1_000, 2_000, 5_000], 0.0, 200.0).low == 1_000


@pytest.mark.parametrize(("step", "shown"), [(1, "12:00:00.250"), (50, "12:00:00.25"), (500, "12:00:00.2")])
def test_ticks_have_the_digits_that_they_need(step: int, shown: str) -> None:
    assert Labels(are_dates=True).text(1_441_022_400_250, step) == shown


class Day(NamedTuple):
    """A window of a user's own, which shows its last timestamp alone."""

    number: int

    def max_timestamp(self) -> int:
        return self.number * 100 + 99


class Days(WindowAssigner[int, Day]):
    def assign_windows(self, element: int, timestamp: int, context: AssignerContext) -> list[Day]:
        return [Day(timestamp // 100)]

    @property
    def is_event_time(self) -> bool:
        return True

    def default_trigger(self) -> Any:
        return SECOND.default_trigger()


def test_windows_of_users_own_are_drawn() -> None:
    days = recorded_numbers(lambda keyed: keyed.window(Days()).reduce(add), element(2, 250), watermark(500))
    (pane,) = groups(panels(timeline(days))[0], "pane")
    assert "window Day(number=2)" in titles([pane])[0]


def test_an_empty_recording_is_an_empty_picture() -> None:
    assert panels(timeline(recorded_numbers(sums))) == []


def test_nan_is_a_key() -> None:
    source = PushSource[float]()
    highest = from_source(source).key_by(lambda number: number).window(SECOND).reduce(max)
    (panel,) = panels(timeline(recording_of(highest, source, element(float("nan"), 1), element(float("nan"), 2))))
    assert texts(panel, "number") == ["1", "2"]


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no element has the key"):
        timeline(recorded(), key="neither")


def test_keys_beyond_the_most_are_counted() -> None:
    source = PushSource(int)
    many = from_source(source).key_by(lambda number: number).window(SECOND).reduce(add)
    picture = timeline(recording_of(many, source, *(element(number, number) for number in range(14))))
    assert len(panels(picture)) == 12
    assert "2 more keys, not drawn; key=... chooses one" in texts(root_of(picture), "note")


def test_a_picture_is_saved_by_its_suffix(tmp_path: Path) -> None:
    picture = timeline(recorded(), title="Sums")
    assert picture.save(tmp_path / "sums.svg").read_text(encoding="utf-8") == picture.svg == picture._repr_svg_()
    page = picture.save(str(tmp_path / "sums.html")).read_text(encoding="utf-8")
    assert page == picture.html
    assert picture.svg in page
    assert page.count("<tr>") == 1 + len(recorded().of().panes)
    assert repr(picture).startswith("Timeline('Sums', ")
    with pytest.raises(InvalidArgumentError, match="SVG or HTML"):
        picture.save(tmp_path / "sums.png")


@pytest.mark.parametrize(
    ("times", "labels"),
    [
        ([0, 37], ["0", "5", "10", "15", "20", "25", "30", "35", "40"]),
        ([NOON, NOON + 240_000], ["12:00", "12:01", "12:02", "12:03", "12:04"]),
        ([NOON + 10, NOON + 4_000], ["12:00:00", "12:00:01", "12:00:02", "12:00:03", "12:00:04"]),
        ([7], ["7", "8"]),
    ],
)
def test_ticks_are_easy_to_count_in(times: list[int], labels: list[str]) -> None:
    assert [label for _, label in Axis.over(times, 0, 480).ticks()] == labels


def test_times_far_away_have_labels() -> None:
    assert Labels.of([MIN_TIMESTAMP, NOON]).text(NOON) == "1,441,022,400,000"
    assert Labels.of([NOON]).text(NOON + 3_250) == "12:00:03.250"
    assert len(list(Axis.over([NOON, NOON + 10**12], 0, 500).ticks())) < 12
