"""Topics by Spark's own connector: a DataFrame of it is a source, and its writer a sink.

``python -m tests.kafka.test_broker SERVERS SOURCE TARGET FOLDER JARS`` copies what there is: a session cannot get the
connector's jars later.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kafka.topics import Topics, in_json
from tests.services.errors import NoServiceError
from tests.services.kafka import CONNECTOR
from tests.spark.session import embedded_session
from windrow import Pipeline, from_dataframe
from windrow.sinks import WriterSink
from windrow_runtime.spark import SparkRunner

ROOT = Path(__file__).parents[2]


class Record(NamedTuple):
    value: str


def tenfold(record: Record) -> Record:
    return Record(f"{int(record.value) * 10}")


@pytest.mark.program
@pytest.mark.classic(reason="starts a session of its own")
def test_a_dataframe_of_sparks_connector_goes_through_windrow(client: None, topics: Topics, tmp_path: Path) -> None:
    try:
        jars = CONNECTOR.fetch()
    except NoServiceError as error:
        pytest.skip(str(error))
    source, target = topics.make("in"), topics.make("out")
    command = [sys.executable, "-m", "tests.kafka.test_broker", topics.servers, source, target]
    subprocess.run([*command, str(tmp_path), *map(str, jars)], cwd=ROOT, check=True)
    assert topics.values(target, 20) == [number * 10 for number in range(20)]


def copy(servers: str, source: str, target: str, folder: Path, *jars: str) -> None:
    with embedded_session(folder / "warehouse", jars=list(map(Path, jars))) as spark:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        frame = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
        numbers = from_dataframe(frame.selectExpr("CAST(value AS STRING) AS value"), Record)
        written = WriterSink[Record](
            lambda rows: (
                rows.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", target)
            )
        )
        pipeline = Pipeline("copy", numbers.map(tenfold).sink_to(written))
        for begin in (0, 10):
            Topics(servers, "").send(source, in_json(range(begin, begin + 10)))
            SparkRunner(spark, checkpoint=folder / "checkpoint").run(pipeline, drain=False)


if __name__ == "__main__":
    at, first, second, place, *given_jars = sys.argv[1:]
    copy(at, first, second, Path(place), *given_jars)
