"""What runs from topic to topic: the mean of each sensor over 5 s, of readings in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from benchmarks.contenders.native import tumbling as native_tumbling
from benchmarks.contenders.windrow_declared import tumbling as declared_tumbling
from benchmarks.contenders.windrow_python import tumbling as python_tumbling
from benchmarks.contenders.windrow_run import Build, Sinks
from benchmarks.problems import BOUND_MS
from benchmarks.readings import Reading, WindowMean
from benchmarks.topics.records import BATCH
from benchmarks.tuning import tuned
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.kafka import KafkaSink, KafkaSource
from windrow.sinks import CollectSink

__all__ = ["CONTENDERS", "TUNED", "Job"]

# Any in this module: sessions of Spark.

_SCHEMA: Final = "sensor string, at long, celsius double"


@dataclass(frozen=True)
class Job:
    """From which topic to which."""

    spark: Any
    servers: str
    source: str
    target: str
    folder: Path


def _native(job: Job) -> None:
    from pyspark.sql import functions as F  # noqa: N812  its usual name

    stream = job.spark.readStream.format("kafka").option("kafka.bootstrap.servers", job.servers)
    options = {"subscribe": job.source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": BATCH}
    values = stream.options(**options).load()
    readings = values.select(F.from_json(F.col("value").cast("string"), _SCHEMA).alias("r")).select("r.*")
    results = native_tumbling(readings).select(F.to_json(F.struct("sensor", "window_end", "mean")).alias("value"))
    writer = results.writeStream.format("kafka").option("kafka.bootstrap.servers", job.servers)
    writer = writer.option("topic", job.target).option("checkpointLocation", str(job.folder / "checkpoint"))
    writer.outputMode("append").trigger(availableNow=True).start().awaitTermination()


def _tuned(job: Job) -> None:
    with tuned(job.spark):
        _native(job)


def _windrow(build: Build) -> Callable[[Job], None]:
    def run(job: Job) -> None:
        from windrow_runtime.spark import SparkRunner

        source = KafkaSource(job.servers, job.source, Reading, starting_offsets="earliest", max_offsets_per_batch=BATCH)
        readings = from_source(source).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=BOUND_MS)), timestamp=lambda r: r.at
        )
        sink = KafkaSink[WindowMean](job.servers, job.target)
        sinks = Sinks(sink, CollectSink[Reading]())
        SparkRunner(job.spark, checkpoint=job.folder / "checkpoint").run(
            Pipeline("topics", *build(readings, sinks)), drain=False
        )

    return run


TUNED: Final = "native Spark, tuned"
CONTENDERS: Final[Mapping[str, Callable[[Job], None]]] = {
    "native Spark": _native,
    TUNED: _tuned,
    "windrow, declared": _windrow(declared_tumbling),
    "windrow, Python functions": _windrow(python_tumbling),
}
"""Each runs a job to the end of its topic."""
