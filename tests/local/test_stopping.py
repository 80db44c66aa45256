"""A run of the interpreter that is told to stop ends after the batch at hand."""

from __future__ import annotations

from datetime import timedelta

from tests.support.runs import in_order
from windrow import Pipeline, from_source
from windrow import aggregates as agg
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner


def test_a_stop_that_comes_before_the_first_batch_counts() -> None:
    runner, read = LocalRunner(), CollectSink[int]()
    pipeline = Pipeline("early", from_source(CollectionSource(range(4), int, batch_size=1)).sink_to(read))
    runner.stop()
    assert len(runner.run(pipeline).collected(read)) <= 1
    assert runner.run(pipeline).collected(read) == [0, 1, 2, 3]


def test_a_run_that_is_stopped_fires_nothing_more_and_the_next_one_is_whole() -> None:
    runner, stops = LocalRunner(), [3, 5]

    def stop(number: int) -> int:
        if number in stops:
            runner.stop()
        return number

    read, counts = CollectSink[int](), CollectSink[int]()
    numbers = from_source(CollectionSource(range(10), int, batch_size=2)).map(stop).returns(int)
    stamped = in_order(numbers, lambda number: number)
    windows = stamped.key_by(lambda number: 0).window(TumblingEventTimeWindows.of(timedelta(milliseconds=3)))
    pipeline = Pipeline("stopping", stamped.sink_to(read), windows.aggregate(agg.count()).sink_to(counts))
    for first, fired in ((3, []), (5, [3]), (None, [3, 3, 3, 1])):
        result = runner.run(pipeline)
        assert result.collected(read) == [*range(10 if first is None else first + 1)]
        assert result.collected(counts) == fired
        if first is not None:
            stops.remove(first)
