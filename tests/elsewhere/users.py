"""A run in a session of the user's own, with Hadoop's defaults: ``python -m tests.elsewhere.users FOLDER MASTER``."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

from pyspark.sql import SparkSession

from tests.elsewhere.program import Event
from windrow import Pipeline, WatermarkStrategy, from_collection
from windrow.sinks import CollectSink
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.storage import S3A_UPLOADS, HadoopPath, warn_of_uploads
from windrow_spark.paths import as_spark_path

# Any in this module: objects of the JVM, and what is printed as JSON.


def main(folder: str, master: str) -> dict[str, Any]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.driver.host", "127.0.0.1")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    sink = CollectSink[Any]()
    events = from_collection([Event(f"k{each % 3}", each * 10, each) for each in range(90)], Event)
    timed = events.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda event: event.at
    )
    totals = timed.key_by(lambda event: event.key).reduce(
        lambda one, other: Event(one.key, other.at, one.value + other.value)
    )
    runner = SparkRunner(spark, checkpoint=f"{folder}/checkpoint", partitions=1)
    found = runner.run(Pipeline("users", totals.sink_to(sink))).collected(sink)

    # Another bucket, which the user's program has opened before windrow does.
    jvm: Any = spark.sparkContext._jvm
    other = "s3a://of-the-users"
    jvm.org.apache.hadoop.fs.Path(other).getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_uploads(HadoopPath.of(spark, f"{other}/checkpoint", lambda call: call()))
        warn_of_uploads(HadoopPath.of(spark, as_spark_path(f"{folder}/checkpoint"), lambda call: call()))
    return {
        "last": sorted(event.value for event in found)[-3:],
        "setting": spark.conf.get(S3A_UPLOADS, None),
        "warnings": [str(each.message) for each in caught],
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
