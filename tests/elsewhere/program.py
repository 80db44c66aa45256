"""A run whose files all lie in one folder, here or elsewhere: ``python -m tests.elsewhere.program FOLDER [lock]``.

It prints what came of it, in JSON. With ``lock`` it is a second run on the checkpoint of the first one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from pyspark.sql import SparkSession

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.errors import WindrowError
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import CollectionSource, JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner
from windrow_runtime.spark.paths import as_spark_path
from windrow_runtime.spark.run_limits import USUAL_LIMITS

# Any in this module: what is printed as JSON.


@dataclass
class Event:
    key: str
    at: int
    value: int


@dataclass
class Total:
    key: str
    value: int


class ImpatientRunner(SparkRunner):
    """A runner that soon knows whether another one lives."""

    _limits = replace(USUAL_LIMITS, lease_seconds=6)


def put(spark: SparkSession, folder: str, number: int) -> None:
    """Write a file of input: elements of one second of event time."""
    lines = [json.dumps(vars(Event(f"k{each % 3}", number * 1000 + each * 10, each))) for each in range(90)]
    assert spark.sparkContext._jvm is not None
    path: Any = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(as_spark_path(f"{folder}/in/{number}.json"))
    out = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).create(path)
    out.write("\n".join(lines).encode())
    out.close()


def totals(folder: str) -> Pipeline:
    """Sums by key and second, written as files in folders of keys."""
    events = from_source(JsonFileSource(f"{folder}/in", Event)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(0)), timestamp=lambda event: event.at
    )
    seconds = events.key_by(lambda event: event.key).window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    sums = seconds.aggregate(agg.into(Total, agg.key(), agg.sum(lambda event: event.value)))
    return Pipeline(
        "totals",
        sums.sink_to(ParquetFileSink(f"{folder}/out")),
        sums.sink_to(ParquetFileSink(f"{folder}/by-key", partition_by="key")),
    )


def refused(folder: str) -> str:
    """What a second run is told."""
    try:
        ImpatientRunner(checkpoint=f"{folder}/checkpoint").run(totals(folder))
    except WindrowError as error:
        return str(error)
    return "nothing"


def numbers(folder: str) -> Any:
    """The elements of a collection that is read in several batches."""
    sink = CollectSink[int]()
    source = from_source(CollectionSource(list(range(7)), batch_size=2))
    checkpoint = f"{folder}/numbers"
    return ImpatientRunner(checkpoint=checkpoint).run(Pipeline("numbers", source.sink_to(sink))).collected(sink)


def main(folder: str) -> dict[str, Any]:
    now = iter(range(1_000_000, 2_000_000, 1000))
    # With a clock of its own, workers need the time of each batch.
    runner = ImpatientRunner(checkpoint=f"{folder}/checkpoint", partitions=2, clock=lambda: next(now))
    spark = runner.spark
    put(spark, folder, 0)
    put(spark, folder, 1)
    running = runner.start(totals(folder))
    running.process_available()
    seen = {"here": refused(folder)}
    again = [sys.executable, "-m", "tests.elsewhere.program", folder, "lock"]
    seen["there"] = subprocess.run(again, stdout=subprocess.PIPE, text=True, check=True).stdout
    put(spark, folder, 2)
    running.process_available()
    running.stop()
    put(spark, folder, 3)
    runner.run(totals(folder))
    seen["after"] = refused(folder)
    rows = {
        name: sorted([row.key, row.value] for row in spark.read.parquet(as_spark_path(f"{folder}/{name}")).collect())
        for name in ("out", "by-key")
    }
    return {"process": os.getpid(), "numbers": numbers(folder), **seen, **rows}


if __name__ == "__main__":
    said = refused(sys.argv[1]) if sys.argv[2:] == ["lock"] else json.dumps(main(sys.argv[1]))
    print(said)
