"""Sources, sinks and runners that packages register."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from windrow import Pipeline, from_source
from windrow.connectors import sink_class, source_class
from windrow.entry_points import has, load
from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.kafka import KafkaSource
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import CollectionSource
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two installed packages."""
    install(
        tmp_path,
        "first",
        "[windrow.sources]\n"
        "mine = windrow.sources:CollectionSource\n"
        "both = windrow.sources:CollectionSource\n"
        "none = no_such_module:Source\n"
        "other = windrow.sources:MalformedRecord\n"
        "[windrow.sinks]\n"
        "mine = windrow.sinks:CollectSink\n"
        "other = windrow.sources:MalformedRecord\n",
    )
    install(
        tmp_path,
        "second",
        "[windrow.sources]\nmine = windrow.sources:CollectionSource\nboth = windrow.sources:RateSource\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path))


def install(folder: Path, name: str, entries: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)


def test_classes_by_their_names() -> None:
    assert source_class("mine") is CollectionSource
    assert sink_class("mine") is CollectSink


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "kafak",
            r"no installed package brings a source(.|\n)*given: +kafak\n +expected: both, csv, (.*), mine, none, ",
        ),
        ("both", r"several packages(.|\n)*sources:CollectionSource of first, windrow.sources:RateSource of second"),
        ("none", r"cannot be loaded(.|\n)*no_such_module:Source of first: ModuleNotFoundError"),
        ("other", r"names something else(.|\n)*MalformedRecord(.|\n)*windrow's Source(.|\n)*derived from CustomSource"),
    ],
)
def test_a_name_that_gives_no_source_is_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        source_class(name)


def test_a_name_that_gives_no_sink_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"brings a sink(.|\n)*expected: console, (.*), mine, other, "):
        sink_class("none")
    with pytest.raises(InvalidArgumentError, match=r"names something else(.|\n)*derived from CustomSink"):
        sink_class("other")


def test_runners_by_their_names() -> None:
    assert load("windrow.runners", "local") is LocalRunner
    with pytest.raises(InvalidArgumentError, match=r"brings a runner(.|\n)*expected: local, spark\n(.|\n)*dist-info"):
        load("windrow.runners", "flink")


def test_windrows_own_by_their_names() -> None:
    assert source_class("kafka") is KafkaSource
    assert sink_class("parquet") is ParquetFileSink


STRANGER = """
from dataclasses import dataclass

from windrow.sinks import Sink
from windrow.sources import Source
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.inputs.offsets import RowReads
from windrow_runtime.inputs.reader import SourceReader
from windrow_runtime.outputs.output import Output
from windrow_runtime.outputs.writer import SinkWriter


@dataclass(frozen=True)
class Numbers(Source[int]):
    count: int
    connector_name = "numbers"

    @property
    def element_type(self):
        return int

    def describe(self):
        return "numbers"


class NumbersReader(SourceReader[Numbers]):
    def reads(self, columns=None):
        return RowReads(self.step.where, None, 2, self.source.count, rows)


def rows(start, end):
    yield SourceBatch(list(range(start, end)))


@dataclass(frozen=True)
class Log(Sink[object]):
    path: str
    connector_name = "log"

    def describe(self):
        return "log"


class LogWriter(SinkWriter[Log]):
    def output(self, identity):
        return LogOutput(self.sink.path)


class LogOutput(Output):
    def __init__(self, path):
        self.path = path

    def write(self, batch, values):
        with open(self.path, "a") as file:
            file.write("".join(f"{value}\\n" for value in values))
"""


@pytest.mark.classic(reason="a server of Spark Connect gets the modules of packages in another way")
def test_a_package_brings_a_source_and_a_sink_that_both_engines_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    (tmp_path / "windrow_stranger.py").write_text(STRANGER)
    install(
        tmp_path,
        "stranger",
        "[windrow.readers]\nnumbers = windrow_stranger:NumbersReader\n"
        "[windrow.writers]\nlog = windrow_stranger:LogWriter\n",
    )
    stranger = importlib.import_module("windrow_stranger")
    spark.sparkContext.addPyFile(str(tmp_path / "windrow_stranger.py"))
    for engine, runner in (("local", LocalRunner()), ("spark", SparkRunner(spark))):
        path = tmp_path / engine
        doubled = from_source(stranger.Numbers(5)).map(lambda number: 2 * number)
        runner.run(Pipeline("p", doubled.sink_to(stranger.Log(str(path)))))
        assert sorted(map(int, path.read_text().split())) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("connector", "message"),
    [
        ("gone", r"no installed package brings a reader(.|\n)*gone, for collection(.|\n)*kafka(.|\n)*where: +p\.1"),
        ("broken", r"cannot be loaded(.|\n)*no_such_module:Reader of third: ModuleNotFoundError(.|\n)*where: +p\.1"),
        ("twice", r"several packages(.|\n)*of third, other:Reader of fourth(.|\n)*where: +p\.1"),
    ],
)
def test_a_source_whose_reader_cannot_be_had_is_told(tmp_path: Path, connector: str, message: str) -> None:
    install(tmp_path, "third", "[windrow.readers]\nbroken = no_such_module:Reader\ntwice = one:Reader\n")
    install(tmp_path, "fourth", "[windrow.readers]\ntwice = other:Reader\n")

    class Foreign(CollectionSource[int]):
        connector_name = connector

    pipeline = Pipeline("p", from_source(Foreign([1])).sink_to(CollectSink[int]()))
    with pytest.raises(UnsupportedOperationError, match=message):
        LocalRunner().run(pipeline)


def test_packages_are_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch asks who writes its sinks, and most packages register nothing that Spark alone asks."""
    assert not has("windrow.spark_writers", "function")

    def entry_points(**group: str) -> None:
        raise AssertionError(group)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert not has("windrow.spark_writers", "function")
    assert has("windrow.spark_writers", "kafka")


def test_readers_and_writers_need_no_library_until_they_are_used() -> None:
    program = (
        "import sys\n"
        "for name in ('confluent_kafka', 'deltalake', 'numpy', 'pandas', 'pyarrow', 'pyspark', 'sqlalchemy'):\n"
        "    sys.modules[name] = None\n"
        "from windrow.entry_points import load, names\n"
        "for group in ('windrow.readers', 'windrow.writers', 'windrow.sources', 'windrow.sinks'):\n"
        "    print(group, all([load(group, name) for name in names(group)]))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    groups = ("windrow.readers", "windrow.writers", "windrow.sources", "windrow.sinks")
    assert run.stdout.splitlines() == [f"{group} True" for group in groups], run.stderr
