"""Runs that are stopped between two moves of a batch's files: ``python -m tests.elsewhere.stopped FOLDER``.

It prints what a reader finds who knows nothing of windrow, in JSON: the files when the run was stopped, and those when
another one has gone on, each with its time and its size; and the rows.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.spark.comparison import Event
from tests.spark.stopped_moves import Stopper, pipeline
from windrow.errors import SinkError
from windrow.sinks import ParquetFileSink
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.storage import HadoopPath

# Any in this module: what is printed as JSON.

BY = {"flat": (), "by-key": ("key", "value")}


def shown(out: HadoopPath) -> dict[str, list[float]]:
    """The files that no reader passes over."""
    found: dict[str, list[float]] = {}
    for file in out.rglob("*"):
        name = file.url.partition(f"/{out.name}/")[2]
        if not any(part.startswith((".", "_")) and "=" not in part for part in name.split("/")):
            found[name] = [file.modified(), len(file.read_bytes())]
    return found


def main(folder: str, moves: int) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for name, by in BY.items():
        runner = SparkRunner(checkpoint=f"{folder}/checkpoint-{name}", partitions=2)
        out = HadoopPath.of(runner.spark, f"{folder}/{name}", lambda call: call())
        steps = pipeline(ParquetFileSink[Event](out.url, partition_by=by))
        stopper = Stopper(moves)
        try:
            runner.run(steps, drain=False)
        except SinkError as error:
            said[f"error-{name}"] = error.given
        finally:
            stopper.end()
        said[f"before-{name}"] = shown(out)
        runner.run(steps, drain=False)
        said[f"after-{name}"] = shown(out)
        said[f"hidden-{name}"] = sorted(file.name for file in (out / "_windrow").rglob("*"))
        said[f"rows-{name}"] = sorted(row["at"] for row in runner.spark.read.parquet(out.url).collect())
    return said


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
