"""The watermark of a step that reads a source with partitions: the least of them, as Flink makes it per split."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.custom_sources import MALFORMED, Entry, Logs
from tests.partitioned import MONOTONOUS, OWN, Count, Outputs, counted, hourly, logs, put, write_hours
from tests.support.runs import batches_of
from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.plan import TimestampsNode
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.watermarks import PartitionsRead, WatermarkTracker


def counts_now(plan: tuple[Pipeline, Outputs], step: int | None = None) -> list[Count]:
    """What a run gives that does not drain; the clock advances by so many milliseconds from batch to batch."""
    pipeline, outputs = plan
    runner = LocalRunner() if step is None else LocalRunner(clock=count(0, step).__next__)
    counts, late = outputs.of(runner.run(pipeline, drain=False))
    assert late == []
    return counts


def stamped(stream: DataStream[Entry], strategy: WatermarkStrategy[object] = MONOTONOUS) -> DataStream[Entry]:
    return stream.assign_timestamps_and_watermarks(strategy, timestamp=lambda entry: entry.second * 1000)


@pytest.mark.parametrize("strategy", [MONOTONOUS, OWN])
def test_nothing_of_a_partition_that_is_an_hour_behind_is_late(
    tmp_path: Path, strategy: WatermarkStrategy[object]
) -> None:
    put(tmp_path / "logs", a=[3600, 3601, 3612, 3613, 3625], b=[0, 1, 2, 13, 14])
    plan, outputs = counted(logs(tmp_path / "logs"), strategy)
    counts, late = outputs.of(LocalRunner().run(plan))
    assert late == []
    assert [each.number for each in counts] == [2, 2, 1, 3, 2]


def test_the_end_of_a_bounded_partition_releases_the_others(tmp_path: Path) -> None:
    # Each batch reads a line of each log. "b" ends at 12, and "a" goes on to 31 without it.
    put(tmp_path / "logs", a=[1, 11, 21, 31], b=[2, 12])
    ends = {"a": (10_000, 20_000, 30_000), "b": (10_000, 20_000)}
    assert counts_now(counted(logs(tmp_path / "logs", lines=1))) == [(log, end, 1) for log in ends for end in ends[log]]
    # A stream without an end may have more.
    unbounded = counted(logs(tmp_path / "logs", bounded=False, lines=1))
    assert counts_now(unbounded) == [("a", 10_000, 1), ("b", 10_000, 1)]


def test_a_partition_without_records_holds_the_watermark_until_it_is_idle(tmp_path: Path) -> None:
    put(tmp_path / "logs", a=[1, 11, 21, 31], b=[])

    def plan(strategy: WatermarkStrategy[object]) -> tuple[Pipeline, Outputs]:
        return counted(logs(tmp_path / "logs", bounded=False, lines=1), strategy)

    assert counts_now(plan(MONOTONOUS)) == []
    patient = MONOTONOUS.with_idleness(timedelta(milliseconds=250))
    assert counts_now(plan(patient), step=100) == [("a", 10_000, 1), ("a", 20_000, 1), ("a", 30_000, 1)]
    assert counts_now(plan(MONOTONOUS.with_idleness(timedelta(hours=1))), step=100) == []


def test_streams_that_were_united_before_have_one_watermark(tmp_path: Path) -> None:
    put(tmp_path / "one", a=[1, 11], b=[])
    put(tmp_path / "other", c=[2, 22])
    united = logs(tmp_path / "one", bounded=False).union(logs(tmp_path / "other", bounded=False))
    assert counts_now(counted(united)) == [("a", 10_000, 1), ("a", 20_000, 1), ("c", 10_000, 1)]


def test_malformed_records_belong_to_no_partition(tmp_path: Path) -> None:
    folder = put(tmp_path / "logs", a=[], b=[])
    (folder / "a.log").write_text("x\nx\nx\n")
    source = from_source(Logs(folder, bounded=False, malformed=MALFORMED, lines_per_batch=1), name="logs")
    bad = source.get_side_output(MALFORMED).assign_timestamps_and_watermarks(
        MONOTONOUS, timestamp=lambda record: int(record.origin.removeprefix("a:")) * 1000
    )
    sizes = CollectSink[int]()
    windows = bad.window_all(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    result = LocalRunner().run(Pipeline("bad", windows.count().sink_to(sizes)), drain=False)
    assert result.collected(sizes) == [1, 1]


def tracker_of(folder: Path, strategy: WatermarkStrategy[object]) -> WatermarkTracker:
    step = counted(logs(folder / "logs"), strategy)[0].steps[1]
    assert isinstance(step.node, TimestampsNode)
    return WatermarkTracker(step, step.node, partitioned=True)


def test_a_partition_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    tracker, again = (tracker_of(tmp_path, MONOTONOUS) for _ in range(2))

    def watermark(read: PartitionsRead | None, **times: int) -> int:
        for tracker.partition, time in times.items():
            tracker.observe([None], [time])
        tracker.end_batch(0, read)
        return tracker.watermark

    # "c" is found later, and holds the watermark where it is; "b" is deleted while it holds.
    assert watermark(PartitionsRead(["a", "b"]), a=10, b=5) == 4
    assert watermark(PartitionsRead(["a", "b", "c"]), a=20, b=15) == 4
    assert watermark(None, c=3) == 4
    assert watermark(None, c=30) == 14
    assert watermark(PartitionsRead(["a", "c"])) == 19
    # All are remembered, and the last one that ends leaves the highest.
    again.remember(tracker.memory())
    again.end_batch(0, PartitionsRead(["c"]))
    assert again.watermark == 29
    again.end_batch(0, PartitionsRead([]))
    assert again.watermark == 29


def test_partitions_that_become_idle_together_leave_the_watermark_of_those_that_were_active_last(
    tmp_path: Path,
) -> None:
    tracker = tracker_of(tmp_path, MONOTONOUS.with_idleness(timedelta(seconds=2)))

    def watermark(now: int, **times: int) -> int:
        for tracker.partition, time in times.items():
            tracker.observe([None], [time])
        tracker.end_batch(now, PartitionsRead(["a", "b", "empty"]))
        return tracker.watermark

    # All that is there is read in one batch, and nothing comes then.
    assert watermark(0, a=20, b=10) < 0
    assert watermark(1_999) < 0
    assert watermark(2_000) == 9
    assert tracker.idle
    # "b" was the last to be active, and comes behind what "a" had before.
    assert watermark(3_000, b=15) == 14
    assert watermark(9_000) == 14


@pytest.mark.parametrize("size", [3, 4, 7, 24])
def test_files_side_by_side_lose_nothing_whatever_their_times_are(tmp_path: Path, size: int) -> None:
    random = Random(size)
    files = write_hours(tmp_path / "files", writers=3, hours=8, random=random)
    plan, outputs = hourly(files, size)
    for _ in range(50):
        files.shuffle(random)
        assert outputs.of(LocalRunner().run(plan)) == (files.counts, [])


def test_files_of_one_writer_come_by_name_and_lose_nothing(tmp_path: Path) -> None:
    random = Random(5)
    files = write_hours(tmp_path / "files", writers=1, hours=12, random=random)
    for size in (1, 2, 5):
        plan, outputs = hourly(files, size, "name")
        files.shuffle(random)
        assert outputs.of(LocalRunner().run(plan)) == (files.counts, [])


@pytest.mark.parametrize(
    ("size", "fired"),
    [
        # Each file by itself, as ever.
        (1, {10_000: 2, 20_000: 3, 30_000: 4}),
        # The second batch has two files as well; only the empty one behind it shows that none is left.
        (2, {10_000: 2, 20_000: 2, 30_000: 3}),
        # The second batch has one file, so none is left.
        (3, {10_000: 2, 20_000: 2, 30_000: 2}),
        (4, {10_000: 2, 20_000: 2, 30_000: 2}),
    ],
)
def test_the_files_of_a_batch_hold_the_watermark_until_none_is_left(
    tmp_path: Path, size: int, fired: dict[int, int]
) -> None:
    folder = put(tmp_path / "files")
    for number in range(4):
        (folder / f"{number}.json").write_text(f'{{"log": "x", "second": {number * 10}}}\n')
    found: dict[int, int] = {}

    def take(batch: int, counts: Sequence[Count]) -> None:
        found.update({each.end: batch for each in counts})

    timed = stamped(from_source(JsonFileSource(folder, Entry, files_in_order="name", files_per_batch=size)))
    windows = timed.key_by(lambda entry: entry.log).window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    counts = windows.aggregate(agg.into(Count, agg.key(), agg.window_end(), agg.count()))
    LocalRunner().run(Pipeline("files", counts.sink_to(FunctionSink(take))), drain=False)
    assert found == fired


# Alignment


def named_batches(stream: DataStream[Entry], *, drain: bool = True) -> list[list[str]]:
    """The entries of each batch; the plan counts them, too, since one without keys aligns nothing."""
    windows = stream.key_by(lambda entry: entry.log).window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    batches = batches_of(stream, windows.aggregate(agg.count()).sink_to(CollectSink[int]()), drain=drain)
    return [[f"{entry.log}{entry.second}" for entry in entries] for entries in batches]


def test_partitions_that_are_ahead_wait_for_the_others(tmp_path: Path) -> None:
    # Lines     0    1    2    3    4
    # a         0   60  120  180  240
    # b         0   10   20   30   40
    folder = put(tmp_path / "logs", a=[0, 60, 120, 180, 240], b=[0, 10, 20, 30, 40])

    def batches(strategy: WatermarkStrategy[object]) -> list[list[str]]:
        return named_batches(stamped(logs(folder, lines=1), strategy))

    assert batches(MONOTONOUS)[:2] == [["a0", "b0"], ["a60", "b10"]]
    aligned = MONOTONOUS.with_watermark_alignment("logs", timedelta(seconds=35))
    # "a" goes on when "b" is at 30, and when it has ended.
    assert batches(aligned) == [["a0", "b0"], ["a60", "b10"], ["b20"], ["b30"], ["a120", "b40"], ["a180"], ["a240"]]


def test_groups_reach_over_sources_and_do_not_wait_for_those_that_have_nothing(tmp_path: Path) -> None:
    one, other = put(tmp_path / "one", a=[0, 100, 200]), put(tmp_path / "other", b=[0, 10, 20, 30, 60], c=[])
    aligned = MONOTONOUS.with_watermark_alignment("logs", timedelta(seconds=50))
    first, second = (stamped(logs(folder, bounded=False, lines=1), aligned) for folder in (one, other))
    assert named_batches(first.union(second), drain=False) == [
        ["a0", "b0"],
        ["a100", "b10"],
        ["b20"],
        ["b30"],
        ["b60"],
        ["a200"],
    ]


def test_what_cannot_be_aligned_is_refused(tmp_path: Path) -> None:
    aligned = MONOTONOUS.with_watermark_alignment("logs", timedelta(seconds=1))
    folder = put(tmp_path / "logs", a=[1])
    united = logs(folder).union(logs(folder))
    files = from_source(JsonFileSource(folder, Entry, files_per_batch=2))
    with pytest.raises(UnsupportedOperationError, match=r"keyed step(.|\n)*with_watermark_alignment\('logs'"):
        stamped(logs(folder), aligned).collect()
    for stream in (united, files, from_collection([Entry("a", 1)])):
        with pytest.raises(
            UnsupportedOperationError, match=r"with_watermark_alignment\('logs'(.|\n)*where: +counted\."
        ):
            LocalRunner().run(counted(stream, aligned)[0])
    for group, drift, message in (("", timedelta(seconds=1), "group"), ("logs", timedelta(0), "drift")):
        with pytest.raises(InvalidArgumentError, match=message):
            MONOTONOUS.with_watermark_alignment(group, drift)
