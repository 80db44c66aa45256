"""Every feature of files, on S3 by both engines."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq

from windrow import Pipeline, from_collection, from_source
from windrow.connectors import HybridSource
from windrow.errors import WindrowError
from windrow.sinks import CollectSink, CsvFileSink, FileSink, JsonFileSink, ParquetFileSink, TextFileSink
from windrow.sources import CsvFileSource, FileSource, JsonFileSource, ParquetFileSource, TextFileSource
from windrow_runtime.connectors.files.objects import ObjectPath, use_options
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_spark.connectors.files.buckets import bucket_options

# Any in this module: sources and sinks of several types, and what is printed as JSON.


@dataclass(frozen=True)
class Row:
    day: str
    value: int


@dataclass(frozen=True)
class Moment:
    at: datetime


ROWS = [Row(day, value) for value, day in enumerate(["a b", "ü/x", "100%", "", "a b"])]


def put(folder: ObjectPath) -> None:
    """Write the files that are read."""

    def lines(*values: int) -> bytes:
        return "".join(json.dumps({"day": f"d{value}", "value": value}) + "\n" for value in values).encode()

    for name, value in (("10", 1), ("9", 2), ("9 ü%20", 3), ("_hidden", 4)):
        (folder / "json" / f"{name}.json").write(lines(value, value * 10))
    (folder / "json" / "deep" / "er" / "11.json.gz").write(gzip.compress(lines(5)))
    for day, value in (("a b", 6), ("ü%2Fx", 7)):
        (folder / "days" / f"day={day}" / "1.json").write(f'{{"value": {value}}}\n'.encode())
    (folder / "utf-16" / "1.json").write('{"day": "ü", "value": 8}\n'.encode("utf-16"))
    (folder / "csv" / "1.csv").write(b'day,value\r\n"two\nlines",9\r\n')
    (folder / "large" / "1.txt").write(b"".join(b"%d\n" % number for number in range(400_000)))
    table = io.BytesIO()
    pq.write_table(pa.table({"at": pa.array([datetime(2026, 3, 1, 12)], pa.timestamp("us"))}), table, version="2.6")
    (folder / "parquet" / "1.parquet").write(table.getvalue())


def sources(url: str) -> dict[str, Callable[[], FileSource[Any]]]:
    """The sources, by what each of them shows."""
    berlin = ZoneInfo("Europe/Berlin")
    return {
        "by name": lambda: JsonFileSource(f"{url}/json", Row, files_in_order="name"),
        "by function": lambda: JsonFileSource(f"{url}/json", Row, files_in_order=lambda path: -len(path)),
        "pattern": lambda: JsonFileSource(f"{url}/json/{{1*,9 *}}", Row),
        "one file": lambda: JsonFileSource(f"{url}/json/9 ü%20.json", Row),
        "partitions": lambda: JsonFileSource(f"{url}/days", Row, partitions=("day",)),
        "encoding": lambda: JsonFileSource(f"{url}/utf-16", Row, encoding="utf-16"),
        "quotes": lambda: CsvFileSource(f"{url}/csv", Row),
        "in parts": lambda: TextFileSource(f"{url}/large"),
        "time zone": lambda: ParquetFileSource(f"{url}/parquet", Moment, timezone=berlin),
    }


def sinks(url: str) -> dict[str, FileSink[Any]]:
    """The sinks, by what each of them shows."""
    return {
        "json": JsonFileSink(f"{url}/json"),
        "csv with a header by day": CsvFileSink(f"{url}/csv", partition_by="day"),
        "parquet by day": ParquetFileSink(f"{url}/parquet", partition_by="day"),
        "overwritten": JsonFileSink(f"{url}/again", overwrite=True),
    }


def written(sink: FileSink[Any]) -> list[str]:
    """The rows that a sink has written, read back by its own source."""
    kind: Any = {JsonFileSink: JsonFileSource, CsvFileSink: CsvFileSource, ParquetFileSink: ParquetFileSource}
    source = kind[type(sink)](sink.path, Row, partitions=sink.partition_by)
    return sorted(map(repr, from_source(source).collect()))


def read(url: str) -> dict[str, list[list[str]]]:
    """What each engine reads of the sources, as a job."""
    found: dict[str, list[list[str]]] = {name: [] for name in sources(url)}
    for runner in (LocalRunner().run, SparkRunner().run_batch):
        collected = {name: CollectSink[Any]() for name in found}
        streams = {name: from_source(source()) for name, source in sources(url).items()}
        result = runner(Pipeline("read", *(streams[name].sink_to(sink) for name, sink in collected.items())))
        for name, sink in collected.items():
            found[name].append(list(map(repr, result.collected(sink))))
    return found


def wrote(url: str) -> dict[str, list[list[str]]]:
    """What each engine writes."""
    found: dict[str, list[list[str]]] = {name: [] for name in sinks(url)}
    for engine, runner in (("local", LocalRunner().run), ("spark", SparkRunner().run_batch)):
        written_to = sinks(f"{url}/{engine}")
        rows = from_collection(ROWS, Row)
        runner(Pipeline("before", rows.sink_to(written_to["overwritten"])))
        runner(Pipeline("write", *(rows.sink_to(sink) for sink in written_to.values())))
        for name, sink in written_to.items():
            found[name].append(written(sink))
    return found


def streamed(url: str, folder: ObjectPath, checkpoint: str) -> dict[str, Any]:
    """What three runs of a stream write: by time, by name without a new file, and by name with a file before all."""
    sink = TextFileSink(f"{url}/stream/out")
    seen: dict[str, Any] = {}
    for run, names in enumerate((["b", "c"], [], ["a"])):
        for name in names:
            (folder / "stream" / "in" / f"{name} %20").write(f"{name}\n".encode())
        by_name = TextFileSource(f"{url}/stream/in", files_in_order="name", files_per_batch=1)
        source = by_name if run else TextFileSource(by_name.path, files_per_batch=1)
        SparkRunner(checkpoint=checkpoint).run(Pipeline("stream", from_source(source).sink_to(sink)), drain=False)
        files = sorted((folder / "stream" / "out").rglob("*.txt"), key=lambda file: file.parent.name)
        seen[str(run)] = [file.read_bytes().decode() for file in files]
    try:
        LocalRunner().run(Pipeline("stream", from_collection(["d"]).sink_to(sink)))
    except WindrowError as error:
        seen["refused"] = str(error)
    return seen


def by_time(url: str, folder: ObjectPath, checkpoint: str) -> dict[str, Any]:
    """What runs in the default order write, by who opens the bucket in each of two runs, and who keeps what was read.

    The name of the later file comes before that of the earlier one.
    """
    seen: dict[str, Any] = {}
    for first, second in (("windrow", "windrow"), ("Spark", "windrow"), ("windrow", "Spark")):
        name = f"{first}-{second}"
        sink = TextFileSink(f"{url}/{name}/out")
        try:
            for opener, file in ((first, "b %20"), (second, "a")):
                use_options(bucket_options if opener == "windrow" else lambda bucket: None)
                (folder / name / "in" / file).write(f"{file}\n".encode())
                pipeline = Pipeline("stream", from_source(TextFileSource(f"{url}/{name}/in")).sink_to(sink))
                SparkRunner(checkpoint=f"{checkpoint}-{name}").run(pipeline, drain=False)
        except WindrowError as error:
            seen["refused"] = str(error)
        use_options(bucket_options)
        files = sorted((folder / name / "out").rglob("*.txt"), key=lambda file: file.parent.name)
        logs = Path(f"{checkpoint}-{name}").rglob("files-of-batches*")
        seen[name] = [file.read_bytes().decode() for file in files], len(list(logs))
    return seen


def main(url: str) -> dict[str, Any]:
    """What came of it, as JSON."""
    spark = SparkRunner().spark
    use_options(bucket_options)  # as the first source or sink of files on Spark does
    folder = ObjectPath.of(url)
    assert folder is not None, "the library is installed"
    put(folder / "in")
    both_read, both_wrote = read(f"{url}/in"), wrote(url)
    first = JsonFileSource(f"{url}/in/json", Row)
    hybrid = HybridSource(first).then(JsonFileSource(f"{url}/in/utf-16", Row, encoding="utf-16"))
    collected = CollectSink[Row]()
    with tempfile.TemporaryDirectory() as here:
        parts = SparkRunner(checkpoint=f"{here}/hybrid").run(Pipeline("hybrid", from_source(hybrid).sink_to(collected)))
        stream = streamed(url, folder, str(Path(here) / "checkpoint"))
        timed = by_time(url, folder, str(Path(here) / "checkpoint"))
    by_spark = sorted(row["value"] for row in spark.read.parquet(f"{url}/spark/parquet").collect())
    return {
        "read": both_read,
        "wrote": both_wrote,
        "hybrid": sorted(row.value for row in parts.collected(collected)),
        "stream": stream,
        "by time": timed,
        "read by spark": by_spark,
    }
