"""Checkpoints that are damaged, and disks that are full: an error that says what, where and what to do."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.spark.streams import files_of, tumbling
from tests.support.files import put
from tests.support.thorough import thorough
from windrow import Pipeline, from_collection, from_source
from windrow.errors import CheckpointError, EngineError, SinkError
from windrow.sinks import CollectSink, JsonFileSink
from windrow.sources import JsonFileSource
from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.clock import ClockFiles
from windrow_spark.session import is_connect
from windrow_spark.storage.page_codec import PageCodec
from windrow_spark.storage.values import StateCodec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Reading(NamedTuple):
    key: str
    at: int
    text: str


def write(folder: Path, number: int, *readings: Reading) -> None:
    put(folder, number, readings, second=number)


def firsts(source: Path) -> tuple[Pipeline, CollectSink[Reading]]:
    sink = CollectSink[Reading]()
    windows = tumbling(files_of(source, Reading), 10)
    return Pipeline("damage", windows.reduce(lambda a, b: a).sink_to(sink)), sink


@pytest.fixture(scope="module")
def run_before(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A source with something new to read, and the checkpoint of the run before."""
    folder = tmp_path_factory.mktemp("damage")
    write(folder / "in", 1, Reading("a", 1, ""))
    write(folder / "in", 2, Reading("a", 12, ""))
    SparkRunner(spark, checkpoint=folder / "checkpoint", partitions=1).run(firsts(folder / "in")[0], drain=False)
    write(folder / "in", 3, Reading("a", 23, ""))
    return folder / "in", folder / "checkpoint"


def rewrite(pattern: str, content: str | None = "garbage") -> Callable[[Path], None]:
    """Puts something else into files of Spark's, which have no checksum then; None: takes them away."""

    def damage(checkpoint: Path) -> None:
        for file in sorted(checkpoint.glob(pattern)):
            if content is None:
                file.unlink()
            else:
                file.write_text(content)
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    return damage


# What windrow itself refuses is in test_spark_files.py and test_rewritten_checkpoint.py; here is one of each kind.
@pytest.mark.parametrize(
    ("damage", "given", "where"),
    [
        (rewrite("plan"), "the file was changed", "plan"),
        (rewrite("spark/sources/0/1", None), "batch 2 has read the source beyond", "spark/sources/0/1"),
        (lambda checkpoint: shutil.rmtree(checkpoint / "spark"), "it is gone, and batches have run", "spark/offsets/2"),
        (rewrite("spark/offsets/*"), "spark/offsets/2", "checkpoint"),
        (rewrite("spark/offsets/2", "v1\n{}"), "There are [0] sources", "checkpoint"),
        (rewrite("spark/offsets/2", "v1\n[["), "expected close marker for Array", "checkpoint"),
        (rewrite("spark/commits/2", "v1\n{"), "expected close marker for Object", "checkpoint"),
        thorough(
            *(rewrite("spark/state/0/*/SSTs/*", None), "CANNOT_LOAD_STATE_STORE", "checkpoint"),
            reason="other files of the state are missing in the next case",
        ),
        (rewrite("spark/state/0/*/*.changelog", None), ".changelog does not exist", "checkpoint"),
    ],
)
def test_a_damaged_checkpoint_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    run_before: tuple[Path, Path],
    damage: Callable[[Path], None],
    given: str,
    where: str,
) -> None:
    source, checkpoint = run_before[0], tmp_path / "checkpoint"
    shutil.copytree(run_before[1], checkpoint)
    damage(checkpoint)
    with pytest.raises(CheckpointError) as caught:
        SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(firsts(source)[0], drain=False)
    error = caught.value
    # Over Spark Connect not all of the server's causes come back.
    assert given in str(error.given) or is_connect(spark)
    assert str(error.where).endswith(where)
    assert error.hint == "restore the checkpoint folder as a whole from a copy, or begin a new one"
    assert len(str(error)) < 1500
    assert "\tat " not in str(error.__cause__)


LEFT = ("offsets/.0.5bb3.tmp", "offsets/.0.crc", "commits/.0.5bb3.tmp", "metadata", "state/0/_metadata/metadata")


def test_a_death_before_the_first_batch_leaves_nothing_in_the_way(
    spark: SparkSession, tmp_path: Path, run_before: tuple[Path, Path]
) -> None:
    source, checkpoint = run_before[0], tmp_path / "checkpoint"
    checkpoint.mkdir()
    # What Spark and windrow note before the first offsets are written.
    shutil.copy(run_before[1] / "plan", checkpoint)
    (checkpoint / "spark/sources/0").mkdir(parents=True)
    shutil.copy(run_before[1] / "spark/sources/0/0", checkpoint / "spark/sources/0")
    for name in LEFT:
        file = checkpoint / "spark" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    pipeline, sink = firsts(source)
    result = SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(pipeline)
    assert [reading.at for reading in result.collected(sink)] == [1, 12, 23]
    assert not (checkpoint / "spark/offsets/.0.5bb3.tmp").exists()


@pytest.mark.parametrize("content", [b"", b"first\n", b"\xff"])
def test_a_note_of_ours_that_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "closed-sources-batch").write_bytes(content)
    with pytest.raises(CheckpointError, match="the checkpoint is damaged") as caught:
        Checkpoint.at(tmp_path).closed_sources.batch()
    assert caught.value.where == str(tmp_path / "closed-sources-batch")
    assert "as a whole from a copy" in str(caught.value.hint)


def test_a_time_that_is_gone_is_missed(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="it is missing") as caught:
        ClockFiles(tmp_path).read(3)
    assert caught.value.where == str(tmp_path / "3")


def test_a_page_that_is_damaged() -> None:
    pages = PageCodec(StateCodec())
    state = OperatorState()
    state.table_size = 10
    state.tables[0] = {"key": 1}
    data = pages.dump(state, lambda segment: 0)
    for damaged in (b"", data[:-3], data.replace(b"page", b"pace"), data[:4] + b"junk" + data[8:]):
        with pytest.raises(CheckpointError, match=r"stored state is (damaged|cut off)") as caught:
            pages.load(damaged, NoSegments())
        assert "as a whole from a copy" in str(caught.value.hint)


class NoSegments:
    def read_segment(self, number: int) -> list[object]:
        raise AssertionError(number)


def test_a_checkpoint_where_a_file_is(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "in").mkdir()
    with pytest.raises(CheckpointError, match="cannot be read or written") as caught:
        SparkRunner(spark, checkpoint=tmp_path / "file" / "checkpoint").run(firsts(tmp_path / "in")[0])
    assert "Not a directory" in str(caught.value.given)


@contextmanager
def files_of_at_most(size: int, process: int) -> Iterator[None]:
    """Lets no file of a process grow beyond ``size`` bytes, as a disk that is full does."""
    before = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        # A worker may have ended meanwhile.
        with suppress(ProcessLookupError):
            resource.prlimit(process, resource.RLIMIT_FSIZE, before)


def java_process(spark: SparkSession) -> int:
    process: int = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # None only in a submitted program
    return process


def worker_processes(spark: SparkSession) -> list[int]:
    """The processes that Java has started: the daemon of Python workers, which passes its limits on, and workers."""
    spark.range(2).mapInArrow(lambda batches: batches, "id long").collect()
    found: list[int] = []
    parents = [java_process(spark)]
    while parents:
        parent = parents.pop()
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            parents += map(int, children.read_text().split())
        found.append(parent)
    return found[1:]


@pytest.mark.classic(reason="the process of the server is not known")
def test_a_disk_that_is_full_fails_the_sink_and_nothing_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    write(source, 1, Reading("a", 1, os.urandom(60_000).hex()))

    def run() -> None:
        readings = from_source(JsonFileSource(source, Reading))
        pipeline = Pipeline("full", readings.sink_to(JsonFileSink(output)))
        SparkRunner(spark, checkpoint=tmp_path / "checkpoint").run(pipeline)

    with ExitStack() as limits:
        for process in worker_processes(spark):
            limits.enter_context(files_of_at_most(50_000, process))
        with pytest.raises(SinkError) as caught:
            run()
    assert caught.value.given == f"{output}: [Errno 27] File too large"
    assert f"{Path(__file__).name}:" in str(caught.value.where)
    assert not list(output.glob("batch-*"))
    run()
    assert list(output.glob("batch-0-part-*.json"))


def test_a_disk_that_is_full_before_the_run_begins(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = Pipeline("full", from_collection([os.urandom(60_000)]).sink_to(CollectSink[bytes]()))
    with (
        files_of_at_most(50_000, os.getpid()),
        pytest.raises(CheckpointError, match="cannot be read or written") as caught,
    ):
        SparkRunner(spark, checkpoint=tmp_path).run(pipeline)
    assert "File too large" in str(caught.value.given)


@pytest.mark.classic(reason="the process of the server is not known")
def test_a_disk_that_is_full_of_state(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", 1, Reading("a", 1, os.urandom(60_000).hex()))
    pipeline, sink = firsts(tmp_path / "in")
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)
    with files_of_at_most(50_000, java_process(spark)), pytest.raises(EngineError, match="a disk is full"):
        runner.run(pipeline)
    assert [reading.at for reading in runner.run(pipeline).collected(sink)] == [1]
