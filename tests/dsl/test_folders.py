"""Folders of a plan: which sinks and sources may not share one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.dsl.plans import fault_of, faults_of, plan, refusal
from windrow import from_collection, from_source
from windrow.sinks import DeltaSink, FileSink, JsonFileSink, ParquetFileSink
from windrow.sources import JsonFileSource

NUMBERS = from_collection([1, 2])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to("real")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("out", "out"),
        ("out", "out/"),
        ("out", "./out/../out"),
        ("out", "{here}/out"),
        ("out", "file:{here}/out"),
        ("file://{here}/out", "out"),
        ("real", "linked"),
        ("linked/new", "real/new"),
        ("out", "out/sub"),
        ("a/b/c", "a"),
        ("s3a://bucket/out", "S3A://bucket//a/../out/"),
    ],
)
def test_two_sinks_on_one_folder_are_refused(one: str, other: str) -> None:
    first, second = (path.format(here=os.getcwd()) for path in (one, other))
    text = str(
        fault_of(
            NUMBERS.sink_to(JsonFileSink(first), name="first"), NUMBERS.sink_to(ParquetFileSink(second), name="second")
        )
    )
    assert all(part in text for part in ("write into", "first", "second"))
    assert text.count("test_folders.py:") == 2


def test_one_sink_that_takes_two_streams_is_refused() -> None:
    sink = JsonFileSink[int]("out")
    assert "write into one folder" in str(fault_of(NUMBERS.sink_to(sink), from_collection([3]).sink_to(sink)))
    assert "write into one folder" in str(fault_of(NUMBERS.sink_to(sink), NUMBERS.sink_to(DeltaSink("out"))))


@pytest.mark.parametrize(
    ("one", "other"), [("out", "out2"), ("a/out", "b/out"), ("s3a://a/out", "s3a://b/out"), ("out", "s3a:///out")]
)
def test_folders_that_lie_apart(one: str, other: str) -> None:
    plan(NUMBERS.sink_to(JsonFileSink(one)), NUMBERS.sink_to(JsonFileSink(other)))


@pytest.mark.parametrize(
    ("source", "sink", "refused"),
    [
        ("real", "linked", True),
        (".", "out", True),
        ("real", "real/below/out", True),
        ("real", "real/_out", False),
        ("real/batch-0-part-0.json", "real", True),
        ("real/in", "real", False),
        ("real", "elsewhere", False),
        ("*", "out", True),
        ("re*", "out", False),
        ("real/*", "real", True),
        ("real/batch-*.json", "real", True),
        ("real/*.json", "real", True),
        ("real/batch-*/*.json", "real", False),
        ("real/late-*", "real", False),
        ("{real,other}", "other", True),
        ("s3a://bucket/in", "s3a://bucket/in/out", True),
        ("s3a://bucket/in/*/*.txt", "s3a://bucket/in", True),
        ("s3a://bucket/in", "s3a://bucket/out", False),
    ],
)
def test_a_source_that_reads_what_its_pipeline_writes(source: str, sink: str, refused: bool) -> None:
    read = from_source(JsonFileSource(source, int), name="in")
    faults = faults_of(read.sink_to(JsonFileSink(sink), name="out"))
    assert len(faults) == refused
    assert all(part in str(fault) for fault in faults for part in ("reads what the sink", "p.1.in, ", "p.2.out, "))


def test_only_mounted_file_systems_are_overwritten() -> None:
    assert JsonFileSink[int]("out", overwrite=True).overwrite
    assert not FileSink[int]("file:/out").overwrite
    text = str(refusal(lambda: ParquetFileSink("hdfs://ann:s3cret@bucket/out", overwrite=True)))
    assert "mounted file systems and on s3a:// only" in text
    assert "s3cret" not in text
