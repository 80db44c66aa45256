"""Every fact about Spark that the lowering leans on. If one fails under a new release, the lowering needs a look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import functions as f

from tests.spark.probe import Run, groups_of, order, run, stateful, watermarked, write_batch
from windrow_spark.clock import END_OF_STREAM
from windrow_spark.key_groups import KeyGroups, murmur3_int, spark_partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.classic(reason="the probe notes what it sees in this process")

FAR = 4_600_000_000_000_000  # the year 147,738


@pytest.fixture(scope="module")
def two_levels(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run of two stateful steps, one behind the other; most facts are read from it."""
    folder = tmp_path_factory.mktemp("facts")
    batches = [
        [order(0, "a", watermark=1000, register=[1000, 1001, 2007]), order(1, "b", register=[500, 600])],
        [order(0, "late"), order(1, "c", delete=[600]), order(-1, "d"), order(2, "e", register=[10])],
        [order(1, "f", watermark=1500)],
        [order(1, "g", watermark=FAR)],
        [order(1, "h", register=[END_OF_STREAM], watermark=END_OF_STREAM - 1)],
        [order(1, "i", watermark=END_OF_STREAM)],
    ]
    for number, orders in enumerate(batches):
        write_batch(folder / "in", number, *orders)
    return run(stateful(stateful(watermarked(spark, folder / "in")), "second"), folder / "checkpoint")


def test_files_are_read_one_by_one_in_the_order_of_their_modification(two_levels: Run) -> None:
    notes = [" ".join(sorted(note or "" for _, note in rows)) for rows in two_levels.rows()]
    assert notes == ["a b", "c d e late", "f", "g", "h", "i", ""]


def test_a_batch_sees_the_watermark_of_the_batches_before(two_levels: Run) -> None:
    # 0 while there is none; a null does not move it; a new one is in force a batch later, far ones too.
    seen = [{0}, {1000}, {1000}, {1500}, {FAR}, {END_OF_STREAM - 1}, {END_OF_STREAM}]
    assert two_levels.watermarks() == seen


def test_steps_in_a_chain_see_the_same_watermark_in_the_same_batch(two_levels: Run) -> None:
    assert two_levels.watermarks("second") == two_levels.watermarks("first")


@pytest.mark.thorough(reason="test_deep_clock.py has the watermark that windrow keeps for that")
def test_in_processing_time_a_step_behind_another_sees_no_watermark(spark: SparkSession, tmp_path: Path) -> None:
    # This is why windrow keeps the watermark of a plan with several levels that waits for the clock.
    orders = [order(0, "a", watermark=1000)], [order(0, "b", watermark=2000)], [order(0, "c")]
    for number, each in enumerate(orders):
        write_batch(tmp_path / "in", number, *each)
    steps = stateful(watermarked(spark, tmp_path / "in"), mode="ProcessingTime")
    found = run(stateful(steps, "second", mode="ProcessingTime"), tmp_path / "checkpoint", batches=3)
    assert found.watermarks() == [{0}, {1000}, {2000}]
    seen = set[int]().union(*found.watermarks("second"))
    assert seen
    assert max(seen) <= 0


def test_rows_behind_the_watermark_arrive(two_levels: Run) -> None:
    # "late" has no timestamp that Spark knows of, because the watermark column is dropped before the stateful step.
    assert (0, "late") in two_levels.rows()[1]


TIMERS = {
    "a timer fires when the watermark reaches it": [(1, (0, 1000), True), (1, (0, 1001), False), (3, (0, 1001), True)],
    "not if its group deletes it in the same batch": [(1, (1, 500), True), (1, (1, 600), False), (2, (1, 600), False)],
    # This is why the processor never sets one there.
    "behind the watermark in the batch that sets it": [(1, (2, 10), True)],
    # The one set while 2007 fired is due already, and fires in this batch or the next.
    "it may delete itself and set another": [(4, (0, 2007), True)],
}


@pytest.mark.parametrize("fact", TIMERS)
def test_when_timers_fire(two_levels: Run, fact: str) -> None:
    fired = two_levels.timers()
    assert [timer in fired[batch] for batch, timer, _ in TIMERS[fact]] == [fires for _, _, fires in TIMERS[fact]]
    of_all = [timer for timers in fired for timer in timers]
    assert (of_all.count((0, 3000)), of_all.count((1, 600))) == (1, 0)


def test_a_batch_without_rows_runs_when_the_watermark_advances(two_levels: Run) -> None:
    assert two_levels.rows()[6] == []
    assert two_levels.timers()[6] == [(1, END_OF_STREAM)]


def test_groups_with_rows_come_first_by_label_then_timers_by_time(two_levels: Run) -> None:
    first = [seen for seen in two_levels.batches[1] if seen.probe == "first"]
    for partition in {seen.partition for seen in first}:
        calls = sorted((seen for seen in first if seen.partition == partition), key=lambda seen: seen.nth)
        inputs = [seen.group for seen in calls if seen.timer is None]
        assert inputs == sorted(inputs)
        timers = [seen.timer for seen in calls if seen.timer is not None]
        assert timers == sorted(timers)
        assert [seen.timer is None for seen in calls] == [True] * len(inputs) + [False] * len(timers)
    assert -1 in groups_of(first, "first")


def test_state_is_kept_by_group(two_levels: Run) -> None:
    states = {seen.note: seen.state for batch in two_levels.batches for seen in batch if seen.probe == "first"}
    assert states["late"] == "a "
    assert states["i"] == "b c f g h "


@pytest.mark.thorough(reason="test_progress.py restarts with state and watermark; a drain fills the control folder")
def test_a_restart_keeps_state_and_watermark_and_a_control_folder_may_fill_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    def go() -> Run:
        return run(stateful(watermarked(spark, tmp_path / "in", tmp_path / "control")), tmp_path / "checkpoint")

    (tmp_path / "control").mkdir()
    write_batch(tmp_path / "in", 0, order(0, "a", watermark=1000, register=[5000]))
    assert go().rows() == [[(0, "a")], []]

    assert go().batches == []  # nothing new: no batch at all

    write_batch(tmp_path / "control", 0, order(1, "end", watermark=END_OF_STREAM))
    end = go()
    assert end.rows() == [[(1, "end")], []]
    assert end.watermarks() == [{1000}, {END_OF_STREAM}]
    assert end.timers() == [[], [(0, 5000)]]
    (timer,) = end.batches[1]
    assert timer.state == "a "


@pytest.mark.thorough(reason="test_two_streams.py restarts over two streams, and loses no pair")
def test_the_watermark_of_several_streams_is_the_lowest_and_a_restart_forgets_their_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    def go() -> Run:
        streams = (watermarked(spark, tmp_path / name) for name in "ab")
        return run(stateful(next(streams).union(next(streams))), tmp_path / "checkpoint")

    (tmp_path / "b").mkdir()
    write_batch(tmp_path / "a", 0, order(0, watermark=5000))
    write_batch(tmp_path / "a", 1, order(0, watermark=6000))
    assert go().watermarks() == [{0}, {0}]  # nothing of b yet

    write_batch(tmp_path / "a", 2, order(0, watermark=7000, register=[3000]))
    write_batch(tmp_path / "b", 0, order(0, watermark=3000))
    together = go()
    assert together.watermarks() == [{0}, {3000}]
    assert together.timers() == [[], [(0, 3000)]]

    # Spark stores the watermark of the query, not those of the streams: a has to speak again.
    write_batch(tmp_path / "b", 1, order(0, watermark=9000))
    assert go().watermarks() == [{3000}]


def test_a_group_goes_to_the_partition_of_its_murmur_hash(spark: SparkSession) -> None:
    labels = [0, 1, 2, 41, -1, -2, 2**31 - 1, -(2**31)]
    rows = (
        spark.createDataFrame([(label,) for label in labels], "label int")
        .select("label", f.hash("label").alias("hash"))
        .repartition(5, "label")
        .select("label", "hash", f.spark_partition_id().alias("partition"))
        .collect()
    )
    assert {row["label"]: row["hash"] for row in rows} == {label: murmur3_int(label) for label in labels}
    assert {row["label"]: row["partition"] for row in rows} == {label: spark_partition(label, 5) for label in labels}


def test_groups_are_spread_evenly() -> None:
    for partitions in (1, 2, 3, 7, 16, 200):
        groups = KeyGroups.balanced(partitions, 4)
        shares = [0] * partitions
        for label in groups.labels:
            shares[spark_partition(label, partitions)] += 1
        assert shares == [4] * partitions
        assert len(set(groups.labels)) == groups.count == 4 * partitions
        assert [spark_partition(label, partitions) for label in groups.service_labels] == list(range(partitions))
        assert all(label < 0 for label in groups.service_labels)
        assert {groups.service_label_of(label) for label in groups.labels} == set(groups.service_labels)


def test_all_files_below_and_no_columns_of_folders(spark: SparkSession, tmp_path: Path) -> None:
    def values(name: str, value: str) -> list[object]:
        frame = spark.read.option(name, value).text(str(tmp_path))
        return sorted(row["value"] for row in frame.collect())

    (tmp_path / "value=7").mkdir()
    (tmp_path / "value=7" / "below").write_text("a line\n")
    # By itself Spark calls the text "value", whose place the folder's takes, and passes over a file beside the folder.
    (tmp_path / "beside").write_text("another\n")
    assert values("recursiveFileLookup", "false") == [7]
    assert values("recursiveFileLookup", "true") == ["a line", "another"]


def test_the_first_partition_is_run_even_if_it_is_empty(spark: SparkSession) -> None:
    """One task of the first stage sends the time to all partitions."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        count = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"partition": [context.partitionId()], "rows": [count]})

    counted = [
        frame.mapInArrow(rows, "partition long, rows long")
        for frame in (spark.createDataFrame([], "id long"), spark.range(0, 10, 1, 3).where("id > 8"))
    ]
    told = sorted((row["partition"], row["rows"]) for row in counted[0].union(counted[1]).collect())
    assert told[0] == (0, 0)
    assert told[-1] == (len(told) - 1, 1)
