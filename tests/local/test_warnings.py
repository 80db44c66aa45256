"""What the interpreter warns of: nothing comes out, and the run goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.records import add
from windrow import DataStream, Pipeline, from_collection
from windrow.errors import SourceError, WindrowWarning
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import CollectSink
from windrow.sources import JsonFileSource
from windrow.state import StateTtlConfig, ValueStateDescriptor
from windrow.stream_sources import from_source
from windrow.triggers import (
    CountTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    Trigger,
    TriggerContext,
    TriggerResult,
)
from windrow.windows import GlobalWindows, TumblingProcessingTimeWindows, Window
from windrow_runtime.local import LocalRunner

SECOND = timedelta(seconds=1)
KEYED = from_collection([1, 2, 3]).key_by(lambda number: number % 2)


class Waiting(Trigger[int, Window]):
    """Fires a second behind each element."""

    uses_processing_time = True

    def on_element(self, element: int, timestamp: int | None, window: Window, context: TriggerContext) -> TriggerResult:
        context.register_processing_time_timer(context.current_processing_time + 1000)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE


class Later(KeyedProcessFunction[int, int, int]):
    """Emits by timers, whose state expires."""

    last = ValueStateDescriptor("last", int, ttl=StateTtlConfig(SECOND))

    def __init__(self, delay: int | None) -> None:
        self.delay = delay

    def process_element(self, value: int, context: KeyedProcessContext[int]) -> Iterable[int]:
        context.get_state(self.last).update(value)
        if self.delay is not None:
            service = context.timer_service
            service.register_processing_time_timer(service.current_processing_time + self.delay)
        return []


BY_CLOCK = KEYED.window(TumblingProcessingTimeWindows.of(SECOND))
OF_ALL_TIME = KEYED.window(GlobalWindows.create())
TWO_OR_A_SECOND = PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(2), SECOND))
OPEN = "windows in processing time were open when the run ended"


@pytest.mark.parametrize(
    ("results", "warning", "given"),
    [
        (BY_CLOCK.reduce(add), OPEN, "2 of TumblingProcessingTimeWindows"),
        # Of the keys one has its two elements.
        (OF_ALL_TIME.trigger(TWO_OR_A_SECOND).reduce(add), OPEN, "1 of GlobalWindows"),
        (OF_ALL_TIME.trigger(Waiting()).reduce(add), OPEN, "2 of GlobalWindows"),
        (KEYED.process(Later(1)), "timers in processing time were set when the run ended", "2 of Later"),
    ],
    ids=["windows", "a timeout", "a trigger", "a function"],
)
def test_what_waits_for_the_clock_at_the_end_of_a_run(results: DataStream[int], warning: str, given: str) -> None:
    pipeline = Pipeline("clock", results.sink_to(CollectSink[int]()))
    with pytest.warns(WindrowWarning, match=warning) as caught:
        LocalRunner(clock=lambda: 0).run(pipeline)
    assert given in str(caught[0].message)
    assert "uses_processing_time" not in str(caught[0].message), "a class that does not say so is refused before"
    assert caught[0].filename == __file__
    # It may be meant to stay open.
    LocalRunner(clock=lambda: 0).run(pipeline, drain=False)


def test_state_that_has_not_expired_and_windows_that_the_clock_reaches_are_not_warned_of() -> None:
    assert KEYED.process(Later(None)).collect(LocalRunner(clock=lambda: 0)) == []
    ticks = iter(range(0, 100_000, 700))
    windows = from_collection([1, 2, 3], batch_size=1).key_by(lambda number: 0)
    sums = windows.window(TumblingProcessingTimeWindows.of(SECOND)).reduce(add)
    assert sums.collect(LocalRunner(clock=lambda: next(ticks))) == [3, 3]


@dataclass
class Row:
    x: int


def rows_of(path: object) -> DataStream[Row]:
    return from_source(JsonFileSource(str(path), Row))


@pytest.mark.parametrize("pattern", ["gone/*.json", "gone/day=*/x.json", "gone/{a,b}.json", "gone/[ab].json"])
def test_a_pattern_in_a_folder_that_does_not_exist(tmp_path: Path, pattern: str) -> None:
    for given in (tmp_path / pattern, f"file://{tmp_path / pattern}"):
        with pytest.raises(SourceError, match="the folder of a pattern does not exist") as caught:
            rows_of(given).collect(name="rows")
        assert caught.value.given == str(tmp_path / pattern)
        assert caught.value.expected == f"a folder {tmp_path}/gone/"
        assert str(caught.value.where).startswith(f"rows.1.source, {__file__}:")


def test_a_pattern_that_matches_nothing(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text('{"x": 1}')
    (tmp_path / "odd[1]").mkdir()
    for pattern in ("*.csv", "[cd].json", "{c,d}.json", "day=*/x.json"):
        with pytest.warns(WindrowWarning, match="no file matches the pattern of a source") as caught:
            assert rows_of(tmp_path / pattern).collect() == []
        assert caught[0].filename == __file__
    # What matches, or is no pattern.
    for path, found in (("?.json", [Row(1)]), ("{b,c}.json", [Row(1)]), ("odd[1]", [])):
        assert rows_of(tmp_path / path).collect() == found
