"""Times a million rows read from and written to S3, by workers and by Spark: ``python -m benchmarks.objects``.

The store is a server of S3's protocol on the same machine, which takes a part of the time. Each way has a session of
its own, in turn. The last column is the number of requests of all jobs of a session.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.services import s3
from windrow import Pipeline, from_source
from windrow.sinks import FileSink, JsonFileSink, ParquetFileSink
from windrow.sources import JsonFileSource
from windrow_runtime.connectors.files.objects import ObjectPath
from windrow_runtime.spark import SparkRunner

_FILES: Final = 8
_ROWS: Final = 1_000_000
_ROUNDS: Final = 2
# A setting that windrow does not know, with Hadoop's default: Spark opens the bucket.
_BY_SPARK: Final = {"spark.hadoop.fs.s3a.s3.client.factory.impl": "org.apache.hadoop.fs.s3a.DefaultS3ClientFactory"}


@dataclass(frozen=True)
class Reading:
    sensor: str
    number: int
    value: float


def _lines(first: int, count: int) -> bytes:
    readings = (Reading(f"sensor{each % 97}", each, each / 7) for each in range(first, first + count))
    return "".join(f"{json.dumps(vars(reading))}\n" for reading in readings).encode()


def _seconds(source: str, sink: FileSink[Reading]) -> float:
    begun = time.perf_counter()
    SparkRunner().run_batch(Pipeline("copy", from_source(JsonFileSource(source, Reading)).sink_to(sink)))
    return time.perf_counter() - begun


def _jobs(url: str, here: str, name: str) -> dict[str, float]:
    """The seconds of each job, after one that warms the session."""
    _seconds(f"{here}/in", ParquetFileSink(f"{url}/{name}/warm"))
    places = {"S3": url, "mount": here}
    jobs = {
        f"write {kind}, {place}": (f"{here}/in", sink(f"{folder}/{name}/{kind}"))
        for kind, sink in (("JSON", JsonFileSink[Reading]), ("Parquet", ParquetFileSink[Reading]))
        for place, folder in places.items()
    }
    jobs |= {
        f"read JSON, {place}": (f"{folder}/in", ParquetFileSink[Reading](f"{here}/{name}/from-{place}"))
        for place, folder in places.items()
    }
    return {job: _seconds(source, sink) for job, (source, sink) in jobs.items()}


def main() -> None:
    with s3.running() as server, tempfile.TemporaryDirectory() as here:
        os.environ.update(AWS_ENDPOINT_URL=f"http://{server.address}", AWS_REGION="us-east-1")
        os.environ.update(AWS_ACCESS_KEY_ID="anyone", AWS_SECRET_ACCESS_KEY="anything")
        url = f"s3a://{s3.BUCKET}/objects-{os.getpid()}"
        folder = ObjectPath.of(url)
        assert folder is not None, "the extra s3 is installed"
        Path(here, "in").mkdir()
        for file in range(_FILES):
            lines = _lines(file * _ROWS // _FILES, _ROWS // _FILES)
            Path(here, "in", f"{file}.json").write_bytes(lines)
            (folder / "in" / f"{file}.json").write(lines)
        jars = ",".join(map(str, s3.CONNECTOR.fetch()))
        logs = [*Path(server.folder).glob("*log*")]
        for turn in range(_ROUNDS):
            for way, more in (("workers", {}), ("Spark", _BY_SPARK)):
                settings = s3.settings(server.address) | more
                given = " ".join(f"--conf {name}={value}" for name, value in settings.items())
                asked = sum(log.read_text().count(" HTTP/1.1") for log in logs)
                done = subprocess.run(
                    [sys.executable, "-m", "benchmarks.objects", url, here, f"{way}-{turn}"],
                    env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"--jars {jars} {given} pyspark-shell"},
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                asked = sum(log.read_text().count(" HTTP/1.1") for log in logs) - asked
                seconds = json.loads(done.stdout.splitlines()[-1])
                shown = "; ".join(f"{job} {each:.2f} s" for job, each in seconds.items())
                print(f"{way}: {shown}; {asked} requests", flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(_jobs(*sys.argv[1:])))
    else:
        main()
