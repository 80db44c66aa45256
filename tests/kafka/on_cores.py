"""Copies files to a topic without a key, on so many cores; one record waits as long as a file is there.

By hand: ``python -m tests.kafka.on_cores SERVERS TOPIC FOLDER CORES``; the test beside it kills it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

from windrow import Pipeline, from_source
from windrow.kafka import KafkaSink
from windrow.sources import JsonFileSource

__all__ = ["LAST", "Number", "main"]

LAST = 19
"""The record that waits, in the last file."""


class Number(NamedTuple):
    n: int


def main(servers: str, topic: str, folder: Path, cores: str) -> None:
    """Run to the end of the files; ``folder`` has them, the checkpoint, and the sign to wait."""
    from pyspark.sql import SparkSession

    from windrow_runtime.spark import SparkRunner

    wait, waits = folder / "wait", folder / "waits"

    def waiting(each: Number) -> Number:
        if each.n == LAST:
            while wait.exists():
                waits.touch()
                time.sleep(0.02)
        return each

    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    numbers = from_source(JsonFileSource(folder / "files", Number, files_in_order="name"))
    pipeline = Pipeline("copy", numbers.map(waiting).sink_to(KafkaSink[Number](servers, topic)))
    SparkRunner(spark, checkpoint=folder / "checkpoint", partitions=2).run(pipeline, drain=False)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
