"""Functions that hold megabytes, such as a table to look things up in, run in every kind of stage on Spark.

PySpark broadcasts what holds more than one, and the worker that learns a stateful step's state loads no broadcast.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.spark.comparison import Outputs
from windrow import WatermarkStrategy, from_source
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, MapFunction
from windrow.sources import CollectionSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def names() -> list[str]:
    """Two megabytes that do not compress."""
    draw = random.Random(3)
    return [f"{draw.getrandbits(256):064x}" for _ in range(32_000)]


class Named(MapFunction[int, str]):
    def __init__(self) -> None:
        self.names = names()

    def map(self, value: int) -> str:
        return self.names[value]


class NamedByKey(KeyedProcessFunction[str, str, str]):
    def __init__(self) -> None:
        self.names = names()

    def process_element(self, value: str, context: KeyedProcessContext[str]) -> Iterable[str]:
        yield self.names[int(value, 16) % len(self.names)]


def test_functions_that_hold_megabytes_run(spark: SparkSession) -> None:
    before = spark.sparkContext._jsc.sc().conf().contains("spark.broadcast.UDFCompressionThreshold")
    named = from_source(CollectionSource(range(40), batch_size=20)).map(Named())
    stamped = named.assign_timestamps_and_watermarks(
        WatermarkStrategy[str].for_monotonous_timestamps(), timestamp=lambda name: int(name[:3], 16)
    )
    by_letter = stamped.key_by(lambda name: name[0])
    held = names()
    outputs = Outputs()
    outputs.add("processed", by_letter.process(NamedByKey()), None)
    windows = by_letter.window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    outputs.add("windows", windows.apply(lambda key, window, found: [held[len(list(found))] for _ in range(2)]), None)
    outputs.check(SparkRunner(spark).run)
    assert spark.sparkContext._jsc.sc().conf().contains("spark.broadcast.UDFCompressionThreshold") == before
