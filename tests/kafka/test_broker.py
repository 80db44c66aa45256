"""Topics by Spark's own connector: a DataFrame of it is a source, and its writer a sink.

The test runs in a process of its own, which `conftest.py` here starts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.kafka.topics import Topics, in_json
from windrow import Pipeline, from_dataframe
from windrow.sinks import WriterSink
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.program,
    pytest.mark.thorough(reason="tests/spark has frames of other formats, and writers of the user's"),
    pytest.mark.classic(reason="the session of the test has the connector, and is embedded"),
]


class Record(NamedTuple):
    value: str


def tenfold(record: Record) -> Record:
    return Record(f"{int(record.value) * 10}")


def test_a_dataframe_of_sparks_connector_goes_through_windrow(
    spark_with_connector: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.make("in"), topics.make("out")
    reader = spark_with_connector.readStream.format("kafka").option("kafka.bootstrap.servers", topics.servers)
    frame = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
    numbers = from_dataframe(frame.selectExpr("CAST(value AS STRING) AS value"), Record)
    written = WriterSink[Record](
        lambda rows: (
            rows.writeStream.format("kafka").option("kafka.bootstrap.servers", topics.servers).option("topic", target)
        )
    )
    pipeline = Pipeline("copy", numbers.map(tenfold).sink_to(written))
    for begin in (0, 10):
        topics.send(source, in_json(range(begin, begin + 10)))
        SparkRunner(spark_with_connector, checkpoint=tmp_path / "checkpoint").run(pipeline, drain=False)
    assert topics.values(target, 20) == [number * 10 for number in range(20)]
