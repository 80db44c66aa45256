"""Events of OpenLineage: what each run reads and writes, how it ends, and the names of all datasets."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.serde import Serde
from openlineage.client.transport import Config, Transport

import windrow_runtime.lineage
from tests.support.files import put
from windrow import Pipeline, from_collection, from_source
from windrow.addresses.datasets import Dataset
from windrow.connectors.hybrid import HybridSource
from windrow.errors import UnsupportedOperationError, UserFunctionError
from windrow.kafka import KafkaRecordSource, KafkaSink, KafkaSource
from windrow.plan import Pipeline as Plan
from windrow.sinks import (
    CollectSink,
    ConsoleSink,
    DatabaseSink,
    DeltaSink,
    IcebergSink,
    JsonFileSink,
    ParquetFileSink,
    Sink,
)
from windrow.sources import CollectionSource, JsonFileSource, ParquetFileSource, Source
from windrow_runtime.lineage import OpenLineage
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Place(NamedTuple):
    house: str
    floor: int | None


class Reading(NamedTuple):
    sensor: str
    place: Place
    at: datetime


@dataclass
class Total:
    sensor: str
    readings: int


class Kept(Transport):
    """Keeps the events."""

    kind: str | None = "kept"
    config_class = Config

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def emit(self, event: Any) -> None:
        self.events.append(json.loads(Serde.to_json(event)))


class Away(Transport):
    """A catalog that is away."""

    kind: str | None = "away"
    config_class = Config

    def emit(self, event: Any) -> None:
        raise ConnectionError("nobody answers")


def kept() -> tuple[OpenLineage, list[dict[str, Any]]]:
    transport = Kept()
    return OpenLineage(OpenLineageClient(transport=transport), namespace="weather"), transport.events


def folder_of(folder: Path) -> Path:
    place = {"house": "north", "floor": 2}
    put(folder, 1, [{"sensor": "roof", "place": place, "at": "2026-03-01T00:00:00Z"}])
    return folder


def pipeline(folder: Path, output: Path, total: Callable[[Reading], Total]) -> Plan:
    readings = from_source(JsonFileSource(folder, Reading))
    return Pipeline("totals", readings.map(total).sink_to(ParquetFileSink(output)), readings.sink_to(CollectSink()))


def runs(spark: SparkSession, lineage: OpenLineage, checkpoint: Path) -> dict[str, Callable[[Plan], object]]:
    def started(each: Plan) -> None:
        with SparkRunner(spark, checkpoint=checkpoint, lineage=lineage).start(each) as running:
            running.process_available()

    return {
        "local": lambda each: LocalRunner(lineage=lineage).run(each),
        "spark": lambda each: SparkRunner(spark, lineage=lineage).run(each),
        "batch": lambda each: SparkRunner(spark, lineage=lineage).run_batch(each),
        "start": started,
    }


def test_each_run_tells_what_it_reads_and_writes(spark: SparkSession, tmp_path: Path) -> None:
    lineage, events = kept()
    folder = folder_of(tmp_path / "in")
    for name, run in runs(spark, lineage, tmp_path / "checkpoint").items():
        events.clear()
        run(pipeline(folder, tmp_path / name, lambda reading: Total(reading.sensor, 1)))
        assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
        assert len({event["run"]["runId"] for event in events}) == 1
        for event in events:
            assert (event["job"]["namespace"], event["job"]["name"]) == ("weather", "totals")
            kind = event["job"]["facets"]["jobType"]["processingType"]
            assert kind == ("STREAMING" if name == "start" else "BATCH")
            (read,) = event["inputs"]
            assert (read["namespace"], read["name"]) == ("file", str(folder))
            assert [(each["name"], each["type"]) for each in read["facets"]["schema"]["fields"]] == [
                ("sensor", "str"),
                ("place", "Place"),
                ("at", "datetime"),
            ]
            place = read["facets"]["schema"]["fields"][1]["fields"]
            assert [(each["name"], each["type"]) for each in place] == [("house", "str"), ("floor", "int | None")]
            (written,) = event["outputs"]
            assert (written["namespace"], written["name"]) == ("file", str(tmp_path / name))
            assert [each["name"] for each in written["facets"]["schema"]["fields"]] == ["sensor", "readings"]


def failing(reading: Reading) -> Total:
    raise ValueError(f"no total of {reading.sensor}")


def test_a_run_that_fails_says_why(spark: SparkSession, tmp_path: Path) -> None:
    lineage, events = kept()
    folder = folder_of(tmp_path / "in")
    for name, run in runs(spark, lineage, tmp_path / "checkpoint").items():
        events.clear()
        with pytest.raises(UserFunctionError):
            run(pipeline(folder, tmp_path / name, failing))
        assert [event["eventType"] for event in events] == ["START", "FAIL"]
        message = events[1]["run"]["facets"]["errorMessage"]
        assert message["message"].startswith("UserFunctionError: ")
        assert "no total of roof" in message["message"]


def test_an_interrupted_run_was_aborted(tmp_path: Path) -> None:
    lineage, events = kept()

    def interrupted(reading: Reading) -> Total:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalRunner(lineage=lineage).run(pipeline(folder_of(tmp_path / "in"), tmp_path / "out", interrupted))
    assert [event["eventType"] for event in events] == ["START", "ABORT"]


def test_a_catalog_that_is_away_stops_no_run(caplog: pytest.LogCaptureFixture) -> None:
    sink = CollectSink[int]()
    lineage = OpenLineage(OpenLineageClient(transport=Away()))
    runner = LocalRunner(lineage=lineage)
    assert repr(runner) == "LocalRunner(lineage=OpenLineage(namespace='windrow'))"
    result = runner.run(Pipeline("numbers", from_collection([1, 2]).sink_to(sink)))
    assert result.collected(sink) == [1, 2]
    assert caplog.messages == ["no event of lineage was sent for pipeline numbers, which goes on"] * 2
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


class Slow(Kept):
    """A catalog that does not answer until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = Event()

    def emit(self, event: Any) -> None:
        assert self.answers.wait(60)
        super().emit(event)


def test_a_catalog_that_does_not_answer_holds_up_no_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(windrow_runtime.lineage, "_PATIENCE_SECONDS", 0.01)
    sink, transport = CollectSink[int](), Slow()
    runner = LocalRunner(lineage=OpenLineage(OpenLineageClient(transport=transport)))
    result = runner.run(Pipeline("numbers", from_collection([1, 2]).sink_to(sink)))
    assert result.collected(sink) == [1, 2]
    assert transport.events == []
    assert caplog.messages == ["events of lineage of pipeline numbers may be lost: no answer so far"]
    transport.answers.set()
    for thread in threading.enumerate():
        if thread.name == "windrow lineage":
            thread.join(60)
    assert [event["eventType"] for event in transport.events] == ["START", "COMPLETE"]


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    with pytest.raises(UnsupportedOperationError, match=r"openlineage-python is not installed(.|\n)*lineage"):
        OpenLineage()


URL = "postgresql://ann:hunter22@db.example:6432/weather?sslpassword=swordfish"
KAFKA = {"sasl.password": "hunter22"}
ENDS: list[tuple[Source[Any] | Sink[Any], list[Dataset]]] = [
    (JsonFileSource("/data/in/*.json", int), [Dataset("file", "/data/in/*.json")]),
    (ParquetFileSource("s3a://bucket/in/", Reading), [Dataset("s3://bucket", "in")]),
    (ParquetFileSource("hdfs://name:8020/in", Reading), [Dataset("hdfs://name:8020", "in")]),
    (JsonFileSink("file:/data/out"), [Dataset("file", "/data/out")]),
    (JsonFileSink("s3a://bucket"), [Dataset("s3://bucket", "/")]),
    (KafkaSource("a:9092,b:9092", ["t", "u"], int, options=KAFKA), [Dataset("kafka://a:9092", each) for each in "tu"]),
    (KafkaRecordSource("a:9092", "t", int), [Dataset("kafka://a:9092", "t")]),
    (KafkaSink[int]("a:9092", "t", options=KAFKA), [Dataset("kafka://a:9092", "t")]),
    (DatabaseSink[Total](URL, "totals"), [Dataset("postgres://db.example:6432", "weather.public.totals")]),
    (
        DatabaseSink[Total]("postgresql://db.example/weather", "totals", schema="house"),
        [Dataset("postgres://db.example:5432", "weather.house.totals")],
    ),
    (DatabaseSink[Total]("sqlite:////data/totals.db", "totals"), [Dataset("file", "/data/totals.db/totals")]),
    (DeltaSink[Total]("s3a://bucket/totals"), [Dataset("s3://bucket", "totals")]),
    (IcebergSink[Total]("weather.totals", catalog="prod"), [Dataset("iceberg:prod", "weather.totals")]),
    (CollectionSource([1]), []),
    (CollectSink[int](), []),
    (ConsoleSink(), []),
    (
        HybridSource(JsonFileSource("/data/in", int)).then(
            KafkaSource("a:9092", "t", int, starting_offsets="earliest")
        ),
        [Dataset("file", "/data/in"), Dataset("kafka://a:9092", "t")],
    ),
]


@pytest.mark.parametrize(("end", "datasets"), ENDS, ids=[repr(end)[:40] for end, _ in ENDS])
def test_datasets_have_the_names_of_the_convention(end: Source[Any] | Sink[Any], datasets: list[Dataset]) -> None:
    assert list(end.datasets) == datasets
    assert not [secret for secret in end.secrets if secret in str(end.datasets)]
