"""``distinct`` and ``first`` on Spark, on columns: the interpreter, which knows no columns, says what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.spark.comparison import millis
from tests.spark.test_columns import Reading, readings, stamped, write
from windrow import Pipeline
from windrow import aggregates as agg
from windrow.errors import IncompatibleStateError, WindrowWarning
from windrow.failures import OnError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.time import TimeDomain
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.savepoint import read, take
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: results of every type.


HOUR = timedelta(hours=1)
CLOCK = TimeDomain.PROCESSING_TIME


class Plan:
    """Elements that pass, in files and in memory, and windows behind others."""

    def __init__(self, folder: Path, out: Path | None = None, on_error: OnError[Any] = "fail") -> None:
        keyed = stamped(readings(folder)).key_by(lambda r: r.sensor)
        passed = keyed.distinct(lambda r: r.celsius > 62.5, within=millis(9), name="counted")
        windows = passed.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(millis(70)))
        pairs = keyed.map(lambda r: (r.sensor, r.celsius > 62.5)).key_by(lambda pair: pair[0])
        streams: dict[str, Any] = {
            "numbers": keyed.distinct(lambda r: r.number, within=millis(90), on_error=on_error, name="numbers"),
            "sensors": keyed.first(within=millis(25), name="sensors"),
            "whole": pairs.distinct(within=millis(12), name="whole"),
            "changes": keyed.on_change(lambda r: r.celsius > 62.5, on_error=on_error, name="changes"),
            "once": keyed.distinct(lambda r: r.number, within=HOUR, by=CLOCK, on_error=on_error, name="once"),
            "counts": windows.aggregate(
                agg.combine(agg.key(), agg.window_start(), agg.count()), on_error=on_error, name="counts"
            ),
        }
        self.sinks: dict[str, Any] = {name: CollectSink[Any]() for name in streams}
        if out is not None:
            self.sinks["sensors"] = ParquetFileSink[Reading](str(out))
        self.pipeline = Pipeline("first", *(stream.sink_to(self.sinks[name]) for name, stream in streams.items()))

    def of(self, *results: Any, out: Path | None = None) -> dict[str, list[str]]:
        """What runs have given together."""
        elements = {
            name: [each for result in results for each in result.collected(sink)]
            for name, sink in self.sinks.items()
            if isinstance(sink, CollectSink)
        }
        if out is not None:
            elements["sensors"] = [Reading(**row) for row in pq.read_table(out).to_pylist()]
        return {name: sorted(map(repr, each)) for name, each in elements.items()}


def expected(folder: Path) -> dict[str, list[str]]:
    plan = Plan(folder)
    return plan.of(LocalRunner().run(plan.pipeline))


def test_they_go_on_from_a_checkpoint_and_into_files(spark: SparkSession, tmp_path: Path) -> None:
    folder, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    write(folder, range(2))
    plan, runner = Plan(folder, out), SparkRunner(spark, checkpoint=checkpoint, partitions=1)
    text = plan.pipeline.explain(runner)
    assert text.count("runs as columns\n") == 5
    assert text.count("runs as columns, in processing time\n") == 1
    before = runner.run(plan.pipeline, drain=False)
    with pytest.raises(IncompatibleStateError, match=r"lies in columns.*turned off"):
        SparkRunner(spark, checkpoint=checkpoint, partitions=1, columnar=False).run(plan.pipeline)
    write(folder, range(2, 4))
    found = plan.of(before, runner.run(plan.pipeline), out=out)
    assert found == expected(folder)
    assert all(20 < len(elements) < 300 for elements in found.values())


@pytest.mark.thorough(reason="test_stored_plan.py has it go on as it began; objects go on in test_runner_restart.py")
def test_state_that_began_on_objects_stays_there(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write(folder, range(2))
    plan = Plan(folder)
    on_objects = SparkRunner(spark, checkpoint=checkpoint, partitions=1, columnar=False)
    before = on_objects.run(plan.pipeline, drain=False)
    write(folder, range(2, 4))
    after = SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(plan.pipeline)
    assert plan.of(before, after) == expected(folder)


@pytest.mark.classic(reason="savepoints are refused over Spark Connect")
def test_a_savepoint_goes_on_in_columns_and_in_the_interpreter(spark: SparkSession, tmp_path: Path) -> None:
    folder, saved = tmp_path / "in", tmp_path / "saved"
    write(folder, range(2))
    plan = Plan(folder)
    before = SparkRunner(spark, checkpoint=tmp_path / "old", partitions=1).run(plan.pipeline, drain=False)
    take(tmp_path / "old", plan.pipeline, saved, spark=spark)
    assert read(saved, plan.pipeline)["numbers"].num_rows == 4
    write(folder, range(2, 4))
    whole = expected(folder)
    in_columns = SparkRunner(spark, checkpoint=tmp_path / "new", savepoint=saved, partitions=2).run(plan.pipeline)
    assert plan.of(before, in_columns) == whole
    # On objects, which test_changed_savepoints.py has on Spark.
    assert plan.of(before, LocalRunner(savepoint=saved).run(plan.pipeline)) == whole


@pytest.mark.classic(reason="savepoints are refused over Spark Connect")
def test_steps_on_columns_may_get_a_policy_by_a_savepoint(spark: SparkSession, tmp_path: Path) -> None:
    folder, old, saved = tmp_path / "in", tmp_path / "old", tmp_path / "saved"
    write(folder, range(2))
    plan, guarded = Plan(folder), Plan(folder, on_error="drop")
    before = plan.of(SparkRunner(spark, checkpoint=old, partitions=1).run(plan.pipeline, drain=False))
    with pytest.raises(IncompatibleStateError, match=r"its state lies in columns.*a call that fails"):
        SparkRunner(spark, checkpoint=old, partitions=1).run(guarded.pipeline)
    take(old, plan.pipeline, saved, spark=spark)
    write(folder, range(2, 4))
    with pytest.warns(WindrowWarning, match=r"numbers.*becomes Python objects, since a call that fails"):
        rest = SparkRunner(spark, checkpoint=tmp_path / "new", savepoint=saved).run(guarded.pipeline)
    for result in (rest, LocalRunner(savepoint=saved).run(guarded.pipeline)):
        after = guarded.of(result)
        assert {name: sorted(elements + after[name]) for name, elements in before.items()} == expected(folder)


class Stamp(KeyedProcessFunction[str | None, Reading, tuple[str | None, int | None]]):
    """Tells the timestamps of elements."""

    def process_element(
        self, value: Reading, context: KeyedProcessContext[str | None]
    ) -> Iterable[tuple[str | None, int | None]]:
        yield value.sensor, context.timestamp


@pytest.mark.parametrize("is_stamped", [True, False])
def test_what_passes_by_the_clock_has_timestamps_only_if_it_had_some(
    spark: SparkSession, tmp_path: Path, is_stamped: bool
) -> None:
    write(tmp_path / "in", range(2))
    stream = readings(tmp_path / "in")
    keyed = (stamped(stream) if is_stamped else stream).key_by(lambda r: r.sensor)
    passed = keyed.first(within=HOUR, by=CLOCK, name="once")
    files: Any = passed.sink_to(ParquetFileSink[Reading](str(tmp_path / "out")))
    sink = CollectSink[tuple[str | None, int | None]]()
    pipeline = Pipeline("stamps", passed.key_by(lambda r: r.sensor).process(Stamp()).sink_to(sink), files)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    assert pipeline.explain(runner).count("runs as columns, in processing time\n") == 1
    result = runner.run(pipeline).collected(sink)
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert sorted(row["sensor"] or "" for row in rows) == ["", "a", "b", "c"]
    assert sorted(map(repr, result)) == sorted(repr((row["sensor"], row["at"] if is_stamped else None)) for row in rows)


@pytest.mark.parametrize("is_stamped", [True, False])
def test_by_the_clock_they_go_on_behind_code_that_is_no_expression_any_more(
    spark: SparkSession, tmp_path: Path, is_stamped: bool
) -> None:
    def run(keeps: Callable[[Reading], bool]) -> list[tuple[str | None, int | None]]:
        stream = readings(tmp_path / "in")
        kept = (stamped(stream) if is_stamped else stream).filter(keeps)
        passed = kept.key_by(lambda r: r.sensor).distinct(lambda r: r.number, within=HOUR, by=CLOCK, name="once")
        sink = CollectSink[tuple[str | None, int | None]]()
        pipeline = Pipeline("code", passed.key_by(lambda r: r.sensor).process(Stamp(), name="stamps").sink_to(sink))
        runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)
        return list(runner.run(pipeline, drain=False).collected(sink))

    write(tmp_path / "in", [0])
    before = run(lambda r: r.at > -1_000)
    write(tmp_path / "in", [1])
    after = run(lambda r: bool(repr(r)))
    rows = [row for file in ("0", "1") for row in pq.read_table(tmp_path / "in" / f"{file}.parquet").to_pylist()]
    first = {(row["sensor"], row["number"]): row["at"] if is_stamped else None for row in reversed(rows)}
    assert sorted(map(repr, before + after)) == sorted(repr((sensor, at)) for (sensor, _), at in first.items())
    assert len(after) > 20
