"""A snapshot in the middle of a stream changes nothing that comes after it."""

from __future__ import annotations

from typing import Any, TypeAlias

from hypothesis import example, given
from hypothesis import strategies as st

from tests.budget import examples
from tests.support.records import Event, Total, key_of, millis
from windrow import DataStream, OutputTag, WatermarkStrategy, from_source
from windrow.watermarks import WatermarkGenerator, WatermarkOutput
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: elements and strategies of every kind.
Step: TypeAlias = "tuple[str, int]"

LATE = OutputTag("late", Event)


class EveryThird(WatermarkGenerator[Event]):
    """The highest timestamp so far, at each third element and at the end of a batch of two or more."""

    __slots__ = ("_batch", "_seen")

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._batch = 0

    def on_event(self, element: Event, timestamp: int, output: WatermarkOutput) -> None:
        self._seen.append(timestamp)
        self._batch += 1
        if len(self._seen) % 3 == 0:
            output.emit_watermark(max(self._seen) - 5)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if self._batch >= 2:
            output.emit_watermark(max(self._seen) - 2)
        self._batch = 0


STRATEGIES: dict[str, WatermarkStrategy[Any]] = {
    "bounded": WatermarkStrategy.for_bounded_out_of_orderness(millis(3)),
    "monotonous": WatermarkStrategy.for_monotonous_timestamps(),
    "own generator": WatermarkStrategy.for_generator(EveryThird),
    "ingestion time": WatermarkStrategy.for_ingestion_time(),
    "none": WatermarkStrategy.no_watermarks(),
}


def at_of(event: Event) -> int:
    return event.at


def timed(source: PushSource[Event], strategy: WatermarkStrategy[Any]) -> DataStream[Event]:
    timestamp = None if strategy.ingestion_time else at_of
    return from_source(source).assign_timestamps_and_watermarks(strategy, timestamp)


def run(strategies: tuple[WatermarkStrategy[Any], ...], steps: list[Step], cuts: frozenset[int]) -> list[Any]:
    """All that can be seen of a stream after each of some steps, with a snapshot before those at ``cuts``."""
    sources = [PushSource(Event) for _ in strategies]
    first, *others = (timed(source, strategy) for source, strategy in zip(sources, strategies, strict=True))
    # A step of the first stream alone has another watermark than one behind both streams.
    alone = first.key_by(key_of).window(EventTimeSessionWindows.with_gap(millis(4))).aggregate(Total())
    windows = first.union(*others).key_by(key_of).window(TumblingEventTimeWindows.of(millis(10)))
    totals = windows.allowed_lateness(millis(4)).side_output_late_data(LATE).aggregate(Total())
    seen: list[Any] = []
    with StreamHarness(totals, sources[0], also=(alone,)) as harness:
        for number, (kind, value) in enumerate(steps):
            if number in cuts:
                harness.snapshot_restore()
            if kind == "element":
                event = Event("ab"[value % 2], value, number)
                harness.process_element(event, source=sources[value % len(sources)])
            elif kind == "clock":
                harness.set_processing_time(harness.current_processing_time + value if number else value)
            else:
                harness.emit_watermarks()
            seen.append((harness.current_watermark, harness.take_output(), harness.take(alone), harness.event_timers()))
            seen.append((harness.take_side_output(LATE), harness.counter("late_records_dropped")))
    return seen


steps = st.lists(
    st.one_of(
        st.tuples(st.just("element"), st.integers(0, 60)),
        st.tuples(st.just("clock"), st.integers(0, 20)),
        st.tuples(st.just("watermark"), st.just(0)),
    ),
    max_size=25,
)


ALONE = [("element", 1), ("element", 30), ("watermark", 0)]
"""Elements of a stream alone, whose strategy has seen them before the snapshot."""


@examples(60)
@example(names=["bounded"], idleness=None, given_steps=ALONE, cuts=frozenset({3}))
@example(names=["monotonous"], idleness=None, given_steps=ALONE, cuts=frozenset({3}))
@example(names=["own generator"], idleness=None, given_steps=ALONE, cuts=frozenset({3}))
# Too late for the step behind the first stream, whatever the second stream has to say.
@example(
    names=["monotonous"] * 2,
    idleness=None,
    given_steps=[("element", 60), *ALONE[2:], ("element", 6)],
    cuts=frozenset({3}),
)
@given(
    names=st.lists(st.sampled_from(sorted(STRATEGIES)), min_size=1, max_size=2),
    idleness=st.sampled_from([None, 5, 15]),
    given_steps=steps,
    cuts=st.frozensets(st.integers(0, 24)),
)
def test_a_snapshot_anywhere_changes_nothing(
    names: list[str], idleness: int | None, given_steps: list[Step], cuts: frozenset[int]
) -> None:
    strategies = tuple(
        STRATEGIES[name] if idleness is None else STRATEGIES[name].with_idleness(millis(idleness)) for name in names
    )
    # The clock begins at a time of its own, so that elements in ingestion time have one.
    begun: list[Step] = [("clock", 1), *given_steps, ("watermark", 0)]
    assert run(strategies, begun, cuts) == run(strategies, begun, frozenset())
