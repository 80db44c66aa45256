"""A run whose files all lie in one folder, here or elsewhere: ``python -m tests.elsewhere.program FOLDER [WHAT...]``.

It prints what came of it, in JSON. With ``locked`` another process begins a run on the same checkpoint, whose argument
is ``lock``. With ``replaced`` a file is read while it is written anew. With ``features`` those of files follow; with
``more`` further pipelines, whose checkpoints need nothing else of the file system than that of the first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.custom_sources import Entry
from tests.elsewhere import features
from tests.partitioned import MONOTONOUS, logs
from tests.partitioned import put as put_lines
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.errors import WindrowError
from windrow.sinks import CollectSink, FunctionSink, ParquetFileSink, WriterSink
from windrow.sources import CollectionSource, JsonFileSource, TextFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.storage import HadoopPath
from windrow_spark.paths import as_spark_path
from windrow_spark.run_limits import USUAL_LIMITS

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


def sums(folder: str) -> DataStream[Total]:
    """Sums by key and second."""
    events = from_source(JsonFileSource(f"{folder}/in", Event)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(0)), timestamp=lambda event: event.at
    )
    seconds = events.key_by(lambda event: event.key).window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    return seconds.aggregate(agg.into(Total, agg.key(), agg.sum(lambda event: event.value)))


def totals(folder: str) -> Pipeline:
    """Writes sums as files, also in folders of keys."""
    totals = sums(folder)
    return Pipeline(
        "totals",
        totals.sink_to(ParquetFileSink(f"{folder}/out")),
        totals.sink_to(ParquetFileSink(f"{folder}/by-key", partition_by="key")),
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


def ordered(names: Path, checkpoint: str) -> list[list[str]]:
    """The files of each batch, in the order of their names, as they arrive, after a stop, and up to the end."""
    found: dict[int, list[str]] = {}

    def take(batch: int, lines: Sequence[str]) -> None:
        found[batch] = list(lines)

    def arrive(below: str, *new: str) -> None:
        (names.parent / "later").mkdir(parents=True)
        for name in new:
            (names.parent / "later" / name).write_text(f"{below}{name}\n")
        (names.parent / "later").rename(names / below)  # all at once

    names.mkdir()
    source = TextFileSource(names, files_in_order="name", files_per_batch=2)
    pipeline = Pipeline("ordered", from_source(source).sink_to(FunctionSink(take)))
    arrive("c", "3", "10", "9")
    running = ImpatientRunner(checkpoint=checkpoint).start(pipeline)
    running.process_available()
    arrive("a", "1", "20")
    running.process_available()
    running.stop()
    arrive("b", "30", "2", "4", "5", "6")
    running = ImpatientRunner(checkpoint=checkpoint).start(pipeline)
    running.process_available()
    arrive("d", "1")
    running.drain()
    return [lines for _, lines in sorted(found.items())]


def aligned(folder: Path, checkpoint: str) -> list[list[str]]:
    """Returns what each batch of two runs reads of two logs, where one log waits for the other."""
    found: dict[int, list[str]] = {}

    def take(batch: int, entries: Sequence[Entry]) -> None:
        found[batch] = sorted(f"{entry.log}{entry.second}" for entry in entries)

    timed = logs(folder, lines=1).assign_timestamps_and_watermarks(
        MONOTONOUS.with_watermark_alignment("logs", timedelta(seconds=50)), timestamp=lambda entry: entry.second * 1000
    )
    windows = timed.key_by(lambda entry: entry.log).window(TumblingEventTimeWindows.of(timedelta(seconds=100)))
    counts = windows.aggregate(agg.into(Total, agg.key(), agg.count()))
    pipeline = Pipeline("aligned", counts.sink_to(CollectSink[Total]()), timed.sink_to(FunctionSink(take)))
    put_lines(folder, a=[0, 100, 200], b=[0, 10, 20, 60])
    ImpatientRunner(checkpoint=checkpoint).run(pipeline, drain=False)
    put_lines(folder, b=[120, 160, 300])
    ImpatientRunner(checkpoint=checkpoint).run(pipeline)
    return [found[batch] for batch in sorted(found)]


def by_spark(folder: str) -> None:
    """Returns sums that Spark writes by itself, in two runs; the second one drains."""

    def write(frame: Any) -> Any:
        return frame.writeStream.format("parquet").option("path", as_spark_path(f"{folder}/by-spark"))

    pipeline = Pipeline("by Spark", sums(folder).sink_to(WriterSink(write)))
    runner = ImpatientRunner(checkpoint=f"{folder}/of-spark", partitions=2)
    runner.run(pipeline, drain=False)
    runner.run(pipeline)


def replaced(spark: SparkSession, folder: str) -> int:
    """Returns how many contents are read of a file that another thread writes anew all the time, as locks are."""
    file = HadoopPath.of(spark, as_spark_path(f"{folder}/replaced"), lambda call: call())
    file.write(b"0")
    contents: set[bytes] = set()

    def write() -> None:
        for each in range(200):
            file.rewrite(b"%d" % each)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not writing.done():
            contents.add(file.read_bytes())
        writing.result()
    return len(contents)


def main(folder: str, what: Sequence[str]) -> dict[str, Any]:
    now = iter(range(1_000_000, 2_000_000, 1000))
    # With a clock of its own, workers need the time of each batch.
    runner = ImpatientRunner(checkpoint=f"{folder}/checkpoint", partitions=2, clock=lambda: next(now))
    spark = runner.spark
    put(spark, folder, 0)
    put(spark, folder, 1)
    running = runner.start(totals(folder))
    running.process_available()
    seen: dict[str, Any] = {"here": refused(folder)}
    if "locked" in what:
        again = [sys.executable, "-m", "tests.elsewhere.program", folder, "lock"]
        seen["there"] = subprocess.run(again, stdout=subprocess.PIPE, text=True, check=True).stdout
    put(spark, folder, 2)
    running.process_available()
    running.stop()
    put(spark, folder, 3)
    runner.run(totals(folder))
    seen["after"] = refused(folder)
    names = ["out", "by-key"]
    with tempfile.TemporaryDirectory() as here:
        seen["ordered"] = ordered(Path(here) / "in", f"{folder}/ordered")
        if "replaced" in what:
            seen["replaced"] = replaced(spark, folder)
        if "features" in what:
            seen["features"] = features.main(f"{folder}/features")
        if "more" in what:
            by_spark(folder)
            names.append("by-spark")
            seen["aligned"] = aligned(Path(here) / "logs", f"{folder}/aligned")
            seen["numbers"] = numbers(folder)
    rows = {
        name: sorted([row.key, row.value] for row in spark.read.parquet(as_spark_path(f"{folder}/{name}")).collect())
        for name in names
    }
    return {"process": os.getpid(), **seen, **rows}


if __name__ == "__main__":
    said = refused(sys.argv[1]) if sys.argv[2:] == ["lock"] else json.dumps(main(sys.argv[1], sys.argv[2:]))
    print(said)
