from __future__ import annotations

from datetime import timedelta

import pytest

import windrow
from windrow import Pipeline, WatermarkStrategy, from_collection
from windrow.errors import InvalidArgumentError
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner


@pytest.mark.parametrize(("batch_size", "late"), [(None, 0), (2, 1), (1, 1)])
def test_elements_are_late_by_the_batches_before_theirs(batch_size: int | None, late: int) -> None:
    seconds = from_collection([1, 20, 2], batch_size=batch_size)
    counts = (
        seconds.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda second: second * 1_000
        )
        .key_by(lambda second: "all")
        .window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
        .count()
    )
    result = LocalRunner().run(Pipeline("p", counts.sink_to(CollectSink[int]())))
    assert result.counter("late_records_dropped") == late


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="the batch size"):
        from_collection([1], int, batch_size=0)


def test_data_frames_are_found_by_the_names_of_their_libraries() -> None:
    assert windrow.from_pandas is windrow.from_polars is windrow.from_arrow
