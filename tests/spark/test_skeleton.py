"""The stages of a query put together by hand, with a step that is small enough to check the order of everything."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.fake_steps import ByKey, Forward, ListOfTens, TimestampedSource, by_key, constant
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.inputs.batches import SourceBatch
from windrow_spark.exchange.packer import ToSink
from windrow_spark.exchange.rows import EXCHANGE_SCHEMA, SOURCE_SCHEMA, PackedRow, RowKind, load_values
from windrow_spark.key_groups import KeyGroups
from windrow_spark.keyed.level import KeyedStep, Level
from windrow_spark.keyed.processor import KeyGroupProcessor
from windrow_spark.sources.stage import MalformedRule, SourceStage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INPUT, FIRST, SECOND, LATE = range(4)
COUNTERS = -1
FINGERPRINT = bytes(16)


def decode(batch: Any) -> SourceBatch:  # pyarrow has no types
    return SourceBatch([tuple(json.loads(line)) for line in batch.column(0).to_pylist()])


class Query:
    """Input by key -> lists of ten milliseconds -> lists of ten milliseconds of those, for all keys together."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.groups = KeyGroups.balanced(2, 2)
        self.input = folder / "in"
        self.input.mkdir()
        self.batches = 0

    def write(self, *elements: tuple[str, int]) -> None:
        path = self.input / f"{self.batches}.json"
        path.write_text("".join(json.dumps(element) + "\n" for element in elements))
        os.utime(path, (1_600_000_000 + self.batches,) * 2)
        self.batches += 1

    def frame(self) -> DataFrame:
        first = KeyedStep(
            number=0,
            step_id="first",
            state_id="first",
            create=partial(ListOfTens, "first"),
            output=Forward((ByKey(1, 2, constant), ToSink(FIRST))),
            side_outputs={"late": Forward((ToSink(LATE),))},
        )
        second = KeyedStep(
            number=1,
            step_id="second",
            state_id="second",
            create=partial(ListOfTens, "second"),
            output=Forward((ToSink(SECOND),)),
            side_outputs={"late": Forward((ToSink(LATE),))},
        )
        stage = SourceStage(
            decode=decode,
            create=partial(TimestampedSource, (ByKey(0, 1, by_key), ToSink(INPUT))),
            groups=self.groups,
            levels=2,
            malformed=MalformedRule("source", "source", fail=True),
        )
        frame = (
            self.spark.readStream.option("maxFilesPerTrigger", 1)
            .text(str(self.input))
            .mapInArrow(stage, SOURCE_SCHEMA)
            .withWatermark("watermark", "0 seconds")
            .select(*PackedRow._fields)
        )
        for number, steps in enumerate([(first,), (second,)], start=1):
            level = Level(number=number, last=number == 2, groups=self.groups, fingerprint=FINGERPRINT, steps=steps)
            frame = frame.groupBy("group").transformWithState(
                KeyGroupProcessor(level), EXCHANGE_SCHEMA, "Append", "EventTime"
            )
        return frame

    def run(self) -> list[dict[int, list[Any]]]:
        """Runs over what is there. For each batch, the elements of each sink in their order."""
        batches: list[dict[int, list[Any]]] = []

        def take(batch: DataFrame, number: int) -> None:
            sinks: dict[int, list[Any]] = {}
            for row in sorted(batch.collect(), key=lambda row: row["number"]):
                if row["kind"] in {RowKind.OUTPUT, RowKind.COUNTERS}:
                    values = load_values(row["payload"])
                    is_counted = row["kind"] == RowKind.COUNTERS
                    if is_counted:
                        values = [count for count in values if isinstance(count[1], str)]
                    if values:
                        sinks.setdefault(COUNTERS if is_counted else row["target"], []).extend(values)
            batches.append(sinks)

        query = (
            self.frame()
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return batches


@pytest.mark.classic(reason="what takes the batches shares a list with the test")
def test_two_levels_keep_the_order_of_watermark_and_elements(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)  # its keys are of different groups
    query.write(("a", 1), ("h", 2), ("a", 3))
    query.write(("a", 31))
    query.write(("a", 4), ("c", 32), ("h", -17))
    one, two, three, no_elements = query.run()

    # There is no watermark yet.
    assert one == {INPUT: [("a", 1), ("h", 2), ("a", 3)]}
    # The watermark is 2: nothing is due.
    assert two == {INPUT: [("a", 31)]}
    # The watermark is 30. The first step's lists reach the second one under the watermark before, which is 2: else
    # they would be late. The second step's list is due at the new watermark in the same batch.
    assert three.pop(INPUT) == [("a", 4), ("c", 32), ("h", -17)]
    none = MIN_TIMESTAMP
    lists = [("first", 30, [(none, ("a", 1)), (none, ("a", 3))]), ("first", 30, [(none, ("h", 2))])]
    assert sorted(three.pop(FIRST)) == lists
    (second,) = three.pop(SECOND)
    assert second[:2] == ("second", 30)
    assert sorted(second[2]) == [(2, list_of_first) for list_of_first in lists]
    assert sorted(three.pop(LATE)) == [(30, ("a", 4)), (30, ("h", -17))]
    assert sorted(three.pop(COUNTERS)) == [("first", "late", 1), ("first", "late", 1)]
    assert three == {}
    # The watermark advances to 31, and nothing is due.
    assert no_elements == {}

    # A restart keeps the state and the watermark.
    query.write(("c", 45))
    four, five = query.run()
    assert four == {INPUT: [("c", 45)]}
    # A batch without elements, because the watermark advanced to 44.
    lists = [("first", 44, [(2, ("a", 31))]), ("first", 44, [(30, ("c", 32))])]
    assert sorted(five.pop(FIRST)) == lists
    (again,) = five.pop(SECOND)
    assert sorted(again[2]) == [(31, list_of_first) for list_of_first in lists]
    assert five == {}
