"""Spark reads files in the order that their source says, cuts batches by it, and repeats batches exactly."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.batches import give_next
from tests.local.test_files_in_order import backfill, copy_times, day_of, fill, write_events
from tests.spark.memory_files import MemoryFiles, folder_in
from tests.support.thorough import thorough
from windrow import Pipeline, from_dataframe, from_source
from windrow.errors import (
    CheckpointError,
    IncompatibleStateError,
    InvalidArgumentError,
    UnsupportedOperationError,
    UserFunctionError,
)
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import FilesInOrder, TextFileSource
from windrow_runtime.connectors.files.listing import FileOrder
from windrow_runtime.connectors.files.systems import MOUNTED
from windrow_runtime.local import LocalRunner, PipelineResult
from windrow_runtime.replay import replay
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.file_log import FileLog, MergedFileLog
from windrow_spark.connectors.files.plans import FilePlans, TaskShares
from windrow_spark.sources.ranges import _StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: sources and elements of every type.


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text(f"{name}\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def memory_log() -> tuple[MemoryFiles, Callable[[], FileLog]]:
    """Files in memory, and what makes the log among them."""
    memory = MemoryFiles()
    return memory, lambda: MergedFileLog(folder_in(memory) / "log")


@pytest.fixture(params=["mounted", "elsewhere"])
def log_of(request: pytest.FixtureRequest, folder: Path) -> Callable[[], FileLog]:
    """Makes the log of the folder, as each new process reads it."""
    return (lambda: FileLog(folder.parent / "log")) if request.param == "mounted" else memory_log()[1]


def plans(
    folder: Path, size: int | None, log_of: Callable[[], FileLog] | None = None, *, begin: bool = False
) -> FilePlans:
    """The plans as a new process has them."""
    step = Pipeline("p", from_source(TextFileSource(folder)).sink_to(CollectSink())).steps[0]
    log = FileLog(folder.parent / "log") if log_of is None else log_of()
    if begin:
        log.begin([])
    order = FileOrder.of(TextFileSource(folder, files_in_order="name"), step)
    return FilePlans(order, size, log, TaskShares(1, 1, 1 << 30, MOUNTED))


def files(planner: FilePlans, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    return [Path(file).name for chunk in planner.ranges(start, end) for file, _, _ in chunk]


def test_batches_are_cut_by_the_order_of_what_is_there(folder: Path, log_of: Callable[[], FileLog]) -> None:
    put(folder, "1", "2", "10", "11", "12")
    planner = plans(folder, 2, log_of, begin=True)
    first = planner.advance({}, planner.latest())
    put(folder, "0", "3")  # "0" is late, and "3" is not
    second = planner.advance(first, planner.latest())
    third = planner.advance(second, planner.latest())
    fourth = planner.advance(third, planner.latest())
    assert planner.advance(fourth, planner.latest()) == fourth
    offsets = [{}, first, second, third, fourth]
    wanted = [["1", "2"], ["0", "3"], ["10", "11"], ["12"]]
    for other in (planner, plans(folder, 5, log_of)):
        assert [files(other, start, end) for start, end in pairwise(offsets)] == wanted


def test_nothing_to_read_is_no_batch(folder: Path, log_of: Callable[[], FileLog]) -> None:
    for size in (1, None):
        planner = plans(folder, size, log_of, begin=True)
        assert planner.advance({}, planner.latest()) == {}


@pytest.mark.parametrize("size", [2, None])
def test_a_batch_that_was_logged_and_not_planned_comes_next(
    folder: Path, log_of: Callable[[], FileLog], size: int | None
) -> None:
    put(folder, "1", "2", "3")
    dead = plans(folder, 2, log_of, begin=True)
    dead.advance({}, dead.latest())  # the process dies before Spark has noted the offset
    put(folder, "0")
    planner = plans(folder, size, log_of)
    end = planner.advance({}, planner.latest())
    # Who reads all that there is reads it in one batch, as a run that drains counts on; what was logged comes first.
    assert files(planner, {}, end) == (["1", "2"] if size else ["1", "2", "0", "3"])
    last = planner.advance(end, planner.latest())
    assert files(planner, end, last) == (["0", "3"] if size else [])


#  planner      1    2    3   ...   60   61
#  entry        0    1    2         59       its batch has entries 0 to 59
#  dies         x    x    x         x
def test_a_batch_has_the_files_of_all_planners_that_died_in_a_row(folder: Path, log_of: Callable[[], FileLog]) -> None:
    """Another source may fail all night: Spark plans no batch then, and windrow logs the files each time."""
    wanted = [f"{number}.txt" for number in range(60)]
    log_of().begin([])
    for name in wanted:
        put(folder, name)
        dead = plans(folder, None, log_of)
        dead.advance({}, dead.latest())
    planner = plans(folder, None, log_of)
    end = planner.advance({}, planner.latest())
    for each in (planner, plans(folder, None, log_of)):
        assert files(each, {}, end) == wanted
        assert each.advance(end, each.latest()) == end


def test_two_planners_agree_on_the_files_of_a_batch(folder: Path, log_of: Callable[[], FileLog]) -> None:
    put(folder, "1", "2", "3")
    old, new = plans(folder, 1, log_of, begin=True), plans(folder, 2, log_of)
    old.log.update(0)
    offset = new.advance({}, new.latest())
    old.log.append([str(folder / "3")])  # it had looked at the log before
    assert files(old, {}, offset) == files(new, {}, offset) == files(plans(folder, 9, log_of), {}, offset) == ["1", "2"]
    end = new.advance(offset, new.latest())
    assert files(old, offset, end) == files(new, offset, end) == ["3"]


def test_pieces_of_a_log_are_put_together(folder: Path) -> None:
    memory, log_of = memory_log()
    put(folder, *map(str, range(40)))
    planner, offset = plans(folder, 1, log_of, begin=True), dict[str, Any]()
    for number in range(40):
        offset = planner.advance(offset, planner.latest())
        assert len(memory.content) - 1 == (number + 1).bit_count()
        # Another process finds all of them.
        assert log_of().read() == planner.log.entries
    assert files(plans(folder, 1, log_of), {}, offset) == list(map(str, range(40)))
    assert plans(folder, 1, log_of).advance(offset, planner.latest()) == offset


def test_a_planner_of_a_dead_query_changes_no_entry_of_a_log_in_pieces(folder: Path) -> None:
    memory, log_of = memory_log()
    put(folder, "1", "2", "3")
    new, old = plans(folder, 1, log_of, begin=True), plans(folder, 1, log_of)
    old.log.update(0)
    offset = new.advance(new.advance({}, new.latest()), new.latest())
    assert sorted(memory.content) == ["mem://checkpoint/log", "mem://checkpoint/log.1"]
    old.log.append([str(folder / "3")])  # the piece of entry 0 is gone, so that it may write one
    assert files(plans(folder, 1, log_of), {}, offset) == ["1", "2"]
    # A piece that goes away while another one takes its place is looked for once more.
    last = new.advance(offset, new.latest())
    gone = "mem://checkpoint/log.1"
    content = memory.content[gone]

    def replaced(url: str) -> None:
        if memory.content.pop(gone, None) is not None:
            memory.content["mem://checkpoint/log.3"] = content + memory.content["mem://checkpoint/log.2"]

    memory.before_read = replaced
    assert files(plans(folder, 1, log_of), {}, last) == ["1", "2", "3"]
    memory.before_read = lambda url: memory.content.clear()
    with pytest.raises(CheckpointError, match="cannot be read"):
        log_of().update(0)


def test_an_unfinished_line_of_a_process_that_died_is_passed_over(folder: Path) -> None:
    put(folder, "1", "2")
    planner = plans(folder, 1, begin=True)
    first = planner.advance({}, planner.latest())
    log, whole = Path(planner.log.path), planner.log.path.read_bytes()
    planner.advance(first, planner.latest())
    for size in range(len(whole) + 1, log.stat().st_size):
        log.write_bytes(log.read_bytes()[:size])
        after = plans(folder, 1)
        assert files(after, first, after.advance(first, after.latest())) == ["2"]
    for damaged in (whole[:-2], whole.replace(b"/1", b"/3")):
        log.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="the files of its entry 0 are gone") as caught:
            plans(folder, 1).advance(first, set())
        assert str(log) in str(caught.value)


def test_the_planner_of_a_query_that_ended_is_silent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    reader = _StreamReader(plans(folder, 1))
    for error in (EOFError, BrokenPipeError, ValueError):
        try:
            raise error
        except error:
            reader.stop()
    assert ended == [0, 0]


@pytest.mark.parametrize("size", [10, thorough(None, reason="a batch of all files instead of ten")])
def test_nothing_is_late_where_files_arrive_until_the_stream_is_drained(
    spark: SparkSession, tmp_path: Path, folder: Path, size: int | None
) -> None:
    write_events(folder, 1)
    copy_times(folder, 1)
    wanted = backfill(folder, LocalRunner().run, "name")
    later = tmp_path / "later"
    later.mkdir()
    for number in range(12, 30):
        (folder / f"events-{number}.json").rename(later / f"events-{number}.json")

    def run(pipeline: Pipeline) -> PipelineResult:
        running = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(pipeline)
        running.process_available()
        later.rename(folder / "later")
        return running.drain()

    assert backfill(folder, run, "name", size=size) == wanted


class Batches:
    """Takes the lines of each batch, and fails at one of them."""

    def __init__(self, fails_at: int = -1) -> None:
        self.found: dict[int, list[str]] = {}
        self.fails_at = fails_at

    def pipeline(self, folder: Path, files_in_order: FilesInOrder, size: int | None = 2) -> Pipeline:
        source = TextFileSource(folder, files_in_order=files_in_order, files_per_batch=size)
        return Pipeline("names", from_source(source, name="names").sink_to(FunctionSink(self.take)))

    def take(self, batch: int, names: Sequence[str]) -> None:
        if batch == self.fails_at:
            raise OSError("the service is away")
        self.found.setdefault(batch, []).extend(names)


@pytest.mark.parametrize(
    ("order", "files", "later_order", "later_files", "batches"),
    [
        thorough(
            day_of,
            "day=3/a day=1/x day=10/a day=2/a day=1/b",
            day_of,
            "day=2/0 day=0/late",
            ["day=1/b day=1/x", "day=2/a day=3/a", "day=0/late day=2/0", "day=10/a"],
            reason="tests/crash/test_hybrid.py kills a run that reads files by their names",
        ),
        # Spark had given batch 1 these files by their times; batch 2 is the first one by name.
        ("time", "b a d c f e", "name", "", ["b a", "d c", "e f"]),
    ],
    ids=["by day", "by time and then by name"],
)
def test_a_run_that_failed_goes_on_with_the_same_files(
    spark: SparkSession,
    tmp_path: Path,
    folder: Path,
    order: FilesInOrder,
    files: str,
    later_order: FilesInOrder,
    later_files: str,
    batches: list[str],
) -> None:
    fill(folder, *files.split())
    taken, runner = Batches(fails_at=1), SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    with pytest.raises(UserFunctionError):
        runner.run(taken.pipeline(folder, order), drain=False)
    fill(folder, *later_files.split())
    taken.fails_at = -1
    runner.run(taken.pipeline(folder, later_order), drain=False)
    assert taken.found == {number: batch.split() for number, batch in enumerate(batches)}


def test_relative_paths_and_patterns(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # Spark's processes are elsewhere
    fill(tmp_path / "in", "b/day=1/10", "a/day=1/9", "c/other", "a/day=2/1")
    wanted, taken = [["a/day=2/1", "b/day=1/10"], ["a/day=1/9"]], Batches()
    runner = SparkRunner(spark, checkpoint="checkpoint")
    for _ in range(2):
        runner.run(taken.pipeline(Path("in/*/day=*"), lambda path: path.rpartition("/")[2]), drain=False)
    assert list(taken.found.values()) == wanted


ENTRIES_IN_A_FILE = "spark.sql.streaming.fileSource.log.compactInterval"


def test_the_order_may_change_between_runs_and_no_file_is_read_twice(
    spark: SparkSession, tmp_path: Path, folder: Path, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: spark.conf.unset(ENTRIES_IN_A_FILE))
    spark.conf.set(ENTRIES_IN_A_FILE, "3")
    fill(folder, "a b", "a%20b", "é", "x+y", "x&y=1;z", "a#b")  # names that Spark's log has as URLs
    runner, taken = SparkRunner(spark, checkpoint=tmp_path / "checkpoint"), Batches()

    def read(order: FilesInOrder, *new: str, size: int = 3) -> list[str]:
        fill(folder, *new)
        taken.found.clear()
        runner.run(taken.pipeline(folder, order, size=size), drain=False)
        return [name for _, names in sorted(taken.found.items()) for name in names]

    read("time", *(f"first-{number}" for number in range(4)), size=1)
    assert list((tmp_path / "checkpoint" / "spark" / "sources").rglob("*.compact"))
    assert read("name", "2", "10", "1", "9") == ["1", "2", "9", "10"]
    assert read(lambda path: -int(path) if path.isdigit() else 0, "30", "200") == ["200", "30"]
    assert read("time", "c", "b", "a") == ["c", "b", "a"]
    assert read("name") == []


def test_a_kill_before_a_plan_keeps_the_order_of_files(spark: SparkSession, tmp_path: Path, folder: Path) -> None:
    def read() -> list[str]:
        sink = CollectSink[str]()
        lines = from_source(TextFileSource(folder, files_per_batch=1)).key_by(lambda line: 0)
        pipeline = Pipeline("p", lines.reduce(lambda before, line: before + line).sink_to(sink))
        runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)
        return runner.run(pipeline, drain=False).collected(sink)

    put(folder, "0")
    assert read() == ["0"]
    put(folder, "1")
    (folder / "2").write_text("2\n" * 5_000)  # Spark begins with large files
    assert give_next(tmp_path / "checkpoint" / "spark", 0, folder) is not None
    assert read() == ["01" + "2" * count for count in range(5_001)]
    # The next run has no such batch.
    put(folder, "3")
    assert read()[0][-1] == "3"


def test_the_interpreter_replays_the_batches(spark: SparkSession, tmp_path: Path, folder: Path) -> None:
    write_events(folder, 1)
    runner, lines = SparkRunner(spark, checkpoint=tmp_path / "checkpoint"), CollectSink[tuple[int, str]]()

    def pipeline(order: FilesInOrder) -> Pipeline:
        source = TextFileSource(folder, files_in_order=order, files_per_batch=12)
        last = from_source(source).key_by(len).reduce(max, name="last")
        return Pipeline("lines", last.map(lambda line: (len(line), line)).sink_to(lines))

    orders: list[FilesInOrder] = ["time", "name"]
    found = []
    for number, order in enumerate(orders):
        found.append(runner.run(pipeline(order), drain=False))
        put(folder, f"events-{9 - number}", f"events-{10 - number}")
    found.append(runner.run(pipeline(lambda path: path[::-1])))
    again = replay(tmp_path / "checkpoint", pipeline("name"))
    assert again.batches >= 5
    assert again.differences == []
    assert again.compare(found, [lines]) == []


def test_two_sources_change_their_orders_alone(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("one", "two"):
        fill(tmp_path / name, f"{name}-1", f"{name}-2")
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")

    def read(*orders: FilesInOrder) -> list[str]:
        taken = Batches()
        first, second = (
            from_source(TextFileSource(tmp_path / name, files_in_order=order))
            for name, order in zip(("one", "two"), orders, strict=True)
        )
        runner.run(Pipeline("both", first.union(second).sink_to(FunctionSink(taken.take))), drain=False)
        return sorted(name for names in taken.found.values() for name in names)

    assert read("time", "time") == ["one-1", "one-2", "two-1", "two-2"]
    fill(tmp_path / "two", "two-3")
    assert read("time", "name") == ["two-3"]
    fill(tmp_path / "one", "one-3")
    assert read("name", "name") == ["one-3"]


def test_beside_a_streaming_dataframe_the_order_stays(spark: SparkSession, tmp_path: Path, folder: Path) -> None:
    fill(folder, "1")
    fill(tmp_path / "frame", "x")
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")

    def pipeline(order: FilesInOrder) -> Pipeline:
        frame = spark.readStream.schema("value string").text(str(tmp_path / "frame"))
        lines = from_source(TextFileSource(folder, files_in_order=order))
        return Pipeline("both", from_dataframe(frame, str).union(lines).sink_to(FunctionSink(Batches().take)))

    runner.run(pipeline("time"), drain=False)
    with pytest.raises(IncompatibleStateError, match="nobody knows which files"):
        runner.run(pipeline("name"), drain=False)


def test_errors_of_the_order_are_those_of_the_interpreter(spark: SparkSession, folder: Path) -> None:
    fill(folder, "day=1", "other")
    for run in (LocalRunner().run, SparkRunner(spark).run, SparkRunner(spark).run_batch):
        with pytest.raises(UserFunctionError, match="files_in_order raised AssertionError") as caught:
            run(Batches().pipeline(folder, day_of))
        assert str(caught.value.where).startswith("names.1.names, ")
        assert f", {folder / 'other'}" in str(caught.value.where)
        with pytest.raises(InvalidArgumentError, match="do not compare"):
            run(Batches().pipeline(folder, lambda path: len(path) if "=" in path else path))


def test_a_function_that_cannot_be_sent_is_refused(spark: SparkSession, folder: Path) -> None:
    names = (name for name in ("a", "b"))
    with pytest.raises(UnsupportedOperationError, match=r"files_in_order cannot be sent(.|\n)*`names`, a generator"):
        SparkRunner(spark).run(Batches().pipeline(folder, lambda path: next(names)))


def test_other_file_systems_are_refused(spark: SparkSession) -> None:
    source = TextFileSource("hdfs://nowhere/in", files_in_order="name")
    with pytest.raises(UnsupportedOperationError, match="in the order of their times only"):
        SparkRunner(spark).run_batch(Pipeline("p", from_source(source).sink_to(CollectSink())))
