"""A draining run reads one folder to its end while another goes on: nothing is late that comes to the first one later.

The second folder has a batch for each of its files::

    batch           0     1     2     3
    first folder    1 2   -     -     -        what comes now, or in a later run, is hours ahead
    second folder   1     2     3     4        the function fails here, or the first folder gets its file
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.budget import for_a_night
from tests.support import files
from tests.support.records import KeyAt
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.errors import UserFunctionError
from windrow.sinks import CollectSink
from windrow.sources import JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner

# Any in this module: counters of every step.

HOUR = 3_600_000


def put(folder: Path, name: str, times: Sequence[int]) -> None:
    files.put(folder, name, [KeyAt(folder.name, at) for at in times])


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    first, second = tmp_path / "first", tmp_path / "second"
    put(first, "0", [1000, 2000])
    for number in range(4):
        put(second, str(number), [1000 * (number + 1)])
    return first, second


class Counting:
    """Counts the elements of two folders in windows of ten seconds, apart or together."""

    def __init__(self, folders: tuple[Path, Path], *, together: bool, at_last: str) -> None:
        first, second, hook = str(folders[0]), str(folders[1]), str(folders[0].parent / at_last)

        def passing(event: KeyAt) -> KeyAt:
            if event.key == "second" and event.at == 4000:
                if hook.endswith("fails") and not os.path.exists(hook):
                    raise ValueError("a bad day")
                arriving = f"{first}/.late"
                if hook.endswith("arrives") and os.path.exists(arriving):
                    os.rename(arriving, f"{first}/late.json")
            return event

        sources = [
            from_source(JsonFileSource(first, KeyAt)),
            from_source(JsonFileSource(second, KeyAt, files_per_batch=1)).map(passing).returns(KeyAt),
        ]
        monotonous = WatermarkStrategy[KeyAt].for_monotonous_timestamps()
        streams = [each.assign_timestamps_and_watermarks(monotonous, timestamp=lambda e: e.at) for each in sources]
        if together:
            streams = [streams[0].union(streams[1])]
        self.sinks = [CollectSink[int]() for _ in streams]
        windows = TumblingEventTimeWindows.of(timedelta(seconds=10))
        counts = [stream.key_by(lambda event: event.key).window(windows).aggregate(agg.count()) for stream in streams]
        self.pipeline = Pipeline("exhausted", *map(DataStream.sink_to, counts, self.sinks))


def dropped(counters: Any) -> int:
    return sum(counts.get("late_records_dropped", 0) for counts in counters.values())


# In make test windows of their own for each folder here, and one window for both in the test below.
@pytest.mark.parametrize(
    ("together", "starts"),
    for_a_night([(together, starts) for together in (False, True) for starts in (False, True)], [(False, True)]),
)
def test_a_draining_run_that_failed_leaves_the_first_folder_open(
    spark: SparkSession, tmp_path: Path, folders: tuple[Path, Path], together: bool, starts: bool
) -> None:
    checkpoint = tmp_path / "checkpoint"
    failing = Counting(folders, together=together, at_last="fails")
    with pytest.raises(UserFunctionError, match="a bad day"):
        SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(failing.pipeline)
    (tmp_path / "fails").touch()
    put(folders[0], "1", [5000, HOUR])
    put(folders[1], "4", [HOUR])
    again = Counting(folders, together=together, at_last="fails")
    runner = SparkRunner(spark, checkpoint=checkpoint, partitions=1)
    if starts:
        running = runner.start(again.pipeline)
        running.process_available()
        assert dropped(running.counters()) == 0
        result = running.stop()
    else:
        result = runner.run(again.pipeline, drain=False)
    assert dropped(result.counters) == 0
    counts = [count for sink in again.sinks for count in result.collected(sink)]
    # Three of the first folder and four of the second in [0, 10 s), both closed by the elements an hour later.
    assert sorted(counts) == [3, 4]


@pytest.mark.parametrize("together", for_a_night([False, True], [True]))
def test_what_arrives_during_a_drain_is_left_in_its_folder(
    spark: SparkSession, tmp_path: Path, folders: tuple[Path, Path], together: bool
) -> None:
    put(folders[0], "late", [3000])
    (folders[0] / "late.json").rename(folders[0] / ".late")
    counting = Counting(folders, together=together, at_last="arrives")
    result = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1).run(counting.pipeline)
    assert (folders[0] / "late.json").exists()
    assert dropped(result.counters) == 0
    assert sorted(count for sink in counting.sinks for count in result.collected(sink)) == [2, 4]
