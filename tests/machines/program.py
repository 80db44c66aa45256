"""The program on the driver's machine: ``python -m tests.machines.program SETTINGS``, with its settings as JSON.

It runs until its standard input ends, and then drains the pipeline. It says the number of each batch.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace

from pyspark.sql import SparkSession

from tests.machines.jobs import Place, build
from windrow_runtime.spark import SparkRunner
from windrow_sql.database.output import LIMITS
from windrow_sql.database.spark_writer import DatabaseSparkWriter


def main() -> None:
    settings = json.loads(sys.argv[1])
    # A task has some dozen rows: they would all go to the driver.
    DatabaseSparkWriter.limits = replace(LIMITS, sent_elements=2)
    builder = SparkSession.builder.appName("machines")
    for name, value in settings["spark"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    runner = SparkRunner(
        spark,
        checkpoint=settings["checkpoint"],
        partitions=3,
        on_progress=lambda progress: print(f"windrow batch {progress.batch}", flush=True),
    )
    running = runner.start(build(Place(**settings["place"])))
    ended = threading.Event()
    threading.Thread(target=_await_end, args=(ended,), daemon=True).start()
    while not ended.is_set():
        running.await_termination(timeout_seconds=0.5)
    running.drain()
    print("windrow drained", flush=True)
    spark.stop()


def _await_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    main()
