"""Lateness against a model that looks at whole windows, element by element."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.operators.stories import WithWindow
from tests.support.records import Event, key_of, millis
from windrow import OutputTag, from_source
from windrow.windows import SlidingEventTimeWindows, TimeWindow
from windrow_runtime.testing import PushSource, StreamHarness

LATE = OutputTag("late", Event)
Fired = tuple[str, TimeWindow, tuple[Event, ...]]


class Model:
    """Windows of one size and slide with the default trigger."""

    def __init__(self, size: int, slide: int, lateness: int) -> None:
        self.size, self.slide, self.lateness = size, slide, lateness
        self.watermark = -1000
        self.contents: dict[tuple[TimeWindow, str], list[Event]] = {}
        self.late: list[Event] = []

    def element(self, event: Event) -> list[Fired]:
        fired: list[Fired] = []
        taken = False
        for start in range(event.at - self.size + 1, event.at + 1):
            window = TimeWindow(start, start + self.size)
            if start % self.slide or window.end - 1 + self.lateness <= self.watermark:
                continue
            taken = True
            values = self.contents.setdefault((window, event.key), [])
            values.append(event)
            if window.end - 1 <= self.watermark:
                fired.append((event.key, window, tuple(values)))
        if not taken and event.at + self.lateness <= self.watermark:
            self.late.append(event)
        return fired

    def advance(self, watermark: int) -> list[Fired]:
        fired = [
            (key, window, tuple(values))
            for (window, key), values in self.contents.items()
            if self.watermark < window.end - 1 <= watermark
        ]
        self.watermark = watermark
        self.contents = {
            (window, key): values
            for (window, key), values in self.contents.items()
            if window.end - 1 + self.lateness > watermark
        }
        return fired


@given(
    size=st.integers(1, 12),
    slide=st.integers(1, 14),
    lateness=st.integers(0, 12),
    to_side=st.booleans(),
    steps=st.lists(
        st.one_of(st.builds(Event, st.sampled_from("ab"), st.integers(-20, 40), st.integers(0, 99)), st.integers(0, 9)),
        max_size=30,
    ),
)
def test_windows_fire_refire_and_go(
    size: int, slide: int, lateness: int, to_side: bool, steps: list[Event | int]
) -> None:
    source = PushSource(Event)
    windows = (
        from_source(source)
        .key_by(key_of)
        .window(SlidingEventTimeWindows.of(millis(size), millis(slide)))
        .allowed_lateness(millis(lateness))
    )
    if to_side:
        windows = windows.side_output_late_data(LATE)
    model = Model(size, slide, lateness)
    watermark = -21
    with StreamHarness(windows.process(WithWindow()), source) as harness:
        for step in steps:
            if isinstance(step, Event):
                harness.process_element(step, step.at)
                expected = model.element(step)
            else:
                watermark += step
                harness.process_watermark(watermark)
                expected = model.advance(watermark)
            assert sorted(harness.take_values(), key=repr) == sorted(expected, key=repr)
            assert len(harness.open_windows()) == len(model.contents)
        side = [late.value for late in harness.take_side_output(LATE)]
        assert side == (model.late if to_side else [])
        assert harness.counter("late_records_dropped") == (0 if to_side else len(model.late))
