"""The ``repr`` of a pipeline, a stream and a result: one line each, with nothing secret."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from windrow import Pipeline, from_collection, from_source
from windrow import aggregates as agg
from windrow.kafka import KafkaSource
from windrow.sinks import CollectSink, DatabaseSink
from windrow.windows import TumblingProcessingTimeWindows
from windrow_runtime.local import LocalRunner

HERE = Path(__file__).name


def test_each_is_one_line() -> None:
    stream = from_collection(list(range(1000)), name="numbers")
    keyed = stream.key_by(lambda number: number % 2)
    windows = keyed.window(TumblingProcessingTimeWindows.of(timedelta(seconds=1)))
    sink: CollectSink[int] = CollectSink("all")
    end = stream.sink_to(sink)
    pipeline = Pipeline("numbers", end)
    result = LocalRunner().run(pipeline)
    for found, beginning in (
        (stream, "DataStream(source 'numbers', "),
        (keyed, "KeyedStream(key_by, "),
        (windows, "WindowedStream(TumblingProcessingTimeWindows("),
        (stream.window_all(TumblingProcessingTimeWindows.of(timedelta(seconds=1))), "AllWindowedStream("),
        (windows.aggregate(agg.count()), "DataStream(window, "),
        (end, "DataStreamSink("),
        (pipeline.steps[0], "Step(numbers.1.numbers, "),
    ):
        text = repr(found)
        assert text.startswith(beginning)
        assert HERE in text
        assert "\n" not in text
        assert len(text) < 200 + len(__file__)
    assert repr(pipeline) == "Pipeline('numbers', 2 steps, 1 sink)"
    assert repr(result) == "PipelineResult('numbers', 2 steps, 1000 collected)"


def test_nothing_secret_is_shown() -> None:
    source = KafkaSource("host:9092", "topic", int, options={"kafka.sasl.jaas.config": "s3cret"})
    stream = from_source(source)
    end = stream.sink_to(DatabaseSink("postgresql://user:s3cret@host/db", "t", key=()))
    for found in (stream, end, Pipeline("p", end), stream.key_by(lambda n: n)):
        assert "s3cret" not in repr(found)
