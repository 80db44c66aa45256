"""A broker that makes topics by itself, as Kafka does by default, makes those of sinks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafka.topics import Topics
from tests.services.kafka import MAKES_TOPICS, launch
from tests.services.server import stop_server
from tests.support.files import forget_batch
from windrow import Pipeline, from_collection, from_source
from windrow.errors import SourceError
from windrow.kafka import KafkaSink, KafkaSource
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def makes_topics(client: None, kafka: str) -> Iterator[str]:
    """The address of a broker of its own; the other fixtures skip the tests where there can be none."""
    own = launch(properties=MAKES_TOPICS)
    try:
        yield own.address
    finally:
        stop_server(own)


def pipeline(topics: Topics) -> Pipeline:
    numbers = from_collection(range(20), int)
    by_element = KafkaSink[int](topics.servers, lambda n: f"{topics.prefix}-{n % 2}", key=str)
    return Pipeline(
        "p", numbers.sink_to(KafkaSink(topics.servers, f"{topics.prefix}-out")), numbers.sink_to(by_element)
    )


def check(topics: Topics) -> None:
    """The topics have the broker's own number of partitions, and each record once."""
    for name, expected in (("out", range(20)), ("0", range(0, 20, 2)), ("1", range(1, 20, 2))):
        assert len(topics.offsets_of(f"{topics.prefix}-{name}")) == 3
        written = topics.committed(f"{topics.prefix}-{name}")
        assert sorted(int(record.value or b"") for record in written) == list(expected)


def test_topics_of_sinks_are_made_on_the_interpreter(makes_topics: str) -> None:
    topics = Topics(makes_topics, "local")
    LocalRunner().run(pipeline(topics))
    check(topics)
    source = KafkaSource(makes_topics, "absent", int, starting_offsets="earliest")
    with pytest.raises(SourceError, match="the topic of a source is not there"):
        LocalRunner().run(Pipeline("p", from_source(source).sink_to(CollectSink[int]())), drain=False)


def test_topics_of_sinks_are_made_on_spark(spark: SparkSession, makes_topics: str, tmp_path: Path) -> None:
    topics = Topics(makes_topics, "spark")
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    runner.run(pipeline(topics), drain=False)
    check(topics)
    forget_batch(tmp_path / "checkpoint", 0)
    runner.run(pipeline(topics), drain=False)  # the batch runs again, and its marks are found
    check(topics)
