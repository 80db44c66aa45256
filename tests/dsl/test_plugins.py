"""Sources, sinks and runners that packages register."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.dsl.plans import plan, refusal
from windrow import from_source
from windrow.connectors import sink_class, source_class
from windrow.entry_points import has, load
from windrow.errors import UnsupportedOperationError
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


def test_classes_and_runners_by_their_names() -> None:
    assert (source_class("mine"), source_class("kafka")) == (CollectionSource, KafkaSource)
    assert (sink_class("mine"), sink_class("parquet")) == (CollectSink, ParquetFileSink)
    assert load("windrow.runners", "local") is LocalRunner


BOTH = r"several packages(.|\n)*sources:CollectionSource of first, windrow.sources:RateSource of second"
NONE = r"cannot be loaded(.|\n)*no_such_module:Source of first: ModuleNotFoundError"
OTHER = r"names something else(.|\n)*MalformedRecord(.|\n)*windrow's Source(.|\n)*derived from CustomSource"
REFUSED: dict[str, Callable[[], object]] = {
    r"no installed package brings a source(.|\n)*given: +kafak\n +expected: both, csv, (.*), mine, none, ": lambda: (
        source_class("kafak")
    ),
    BOTH: lambda: source_class("both"),
    NONE: lambda: source_class("none"),
    OTHER: lambda: source_class("other"),
    r"brings a sink(.|\n)*expected: console, (.*), mine, other, ": lambda: sink_class("none"),
    r"names something else(.|\n)*derived from CustomSink": lambda: sink_class("other"),
    r"brings a runner(.|\n)*expected: local, spark\n(.|\n)*dist-info": lambda: load("windrow.runners", "flink"),
}


@pytest.mark.parametrize("message", REFUSED, ids=map(str, range(len(REFUSED))))
def test_a_name_that_gives_no_class_is_refused(message: str) -> None:
    assert re.search(message, str(refusal(REFUSED[message])))


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
        runner.run(plan(doubled.sink_to(stranger.Log(str(path)))))
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

    with pytest.raises(UnsupportedOperationError, match=message):
        LocalRunner().run(plan(from_source(Foreign([1]))))


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
        "libraries = 'confluent_kafka deltalake numpy obstore pandas pyarrow pyiceberg pyspark sqlalchemy'\n"
        "for name in libraries.split():\n"
        "    sys.modules[name] = None\n"
        "from windrow.entry_points import load, names\n"
        "for group in ('windrow.readers', 'windrow.writers', 'windrow.sources', 'windrow.sinks'):\n"
        "    print(group, all([load(group, name) for name in names(group)]))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    groups = ("windrow.readers", "windrow.writers", "windrow.sources", "windrow.sinks")
    assert run.stdout.splitlines() == [f"{group} True" for group in groups], run.stderr
