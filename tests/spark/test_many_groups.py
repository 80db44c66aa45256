"""A task's work follows from the rows that it has, however many partitions and key groups the query has."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tests.columnar.engine import Element, at, millis
from tests.columnar.planning import column_form
from tests.spark.fake_steps import ByKey, TimestampedSource
from tests.spark.fake_steps import by_key as key_of
from tests.spark.timed import timed
from windrow import DataStream, Pipeline, from_source
from windrow import aggregates as agg
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.operators.topology import Topology
from windrow_spark.columnar.rows.groups import hash_keys
from windrow_spark.columnar.state import load_rows
from windrow_spark.exchange.packer import Packer
from windrow_spark.exchange.rows import Phase, RowKind
from windrow_spark.key_groups import KeyGroups
from windrow_spark.physical.plan import ColumnEdge
from windrow_spark.sources.stage import MalformedRule, SourceStage

# Any in this module: results of every type, and pyarrow has no types.


def summed(*, late: bool) -> DataStream[Any]:
    stream = timed(from_source(ParquetFileSource("/never/read", Element)))
    windowed = stream.key_by(lambda e: e.key).window(TumblingEventTimeWindows.of(millis(100)))
    return (windowed.allowed_lateness(millis(50)) if late else windowed).aggregate(agg.count())


def rows_by_label(groups: KeyGroups, elements: list[Element], *, late: bool) -> dict[int, list[str]]:
    """The keys that a task sends to each key group, by its label; elements that may be late are sent one by one."""
    topology = Topology(Pipeline("many groups", summed(late=late).sink_to(CollectSink[Any]())).steps)
    (step,) = topology.keyed
    form = column_form(topology, step)
    packer = Packer(groups, Phase.AFTER_WATERMARK)
    columns = encode_batch(elements, record_type(Element))
    packer.add_columns([ColumnEdge(0, form, form.routes[0])], columns, None, lambda step, highest: None)
    rows = list(packer.flush())
    assert len({row.group for row in rows}) == len(rows), "one row for a group"
    assert {row.kind for row in rows} == {RowKind.COLUMNS if late else RowKind.AGGREGATED}
    schema = form.exchange_schema if late else form.partial_schema
    return {row.group: load_rows(row.payload, schema).column(0).to_pylist() for row in rows}


def test_each_key_goes_to_its_group_also_among_more_groups_than_16_bits_number() -> None:
    groups = KeyGroups.balanced(1, 70_000)
    elements = [at(7, key=f"key {number % 300}") for number in range(1_000)]
    for late in (False, True):
        found = rows_by_label(groups, elements, late=late)
        keys = [f"key {number}" for number in range(300)]
        numbers = (hash_keys(pa.array(keys)) % np.uint64(groups.count)).tolist()
        assert max(numbers) > 1 << 16
        expected = {key: groups.labels[number] for key, number in zip(keys, numbers, strict=True)}
        assert {key: label for label, keys in found.items() for key in keys} == expected
        assert sum(map(len, found.values())) == (1_000 if late else 300)


class Rows(list[tuple[str, int]]):
    """Stands for a batch of Spark's rows."""

    @property
    def num_rows(self) -> int:
        return len(self)


def test_a_task_sends_the_time_to_every_partition() -> None:
    # A partition that has had no rows has no timer, and a deeper level there may get its first elements in this batch.
    groups = KeyGroups.balanced(50, 2)
    stage = SourceStage(
        decode=SourceBatch,
        create=partial(TimestampedSource, (ByKey(0, 0, key_of),)),
        groups=groups,
        levels=2,
        malformed=MalformedRule("source", "source", fail=True),
    )
    clocks: list[int] = []
    for batch in stage(iter([Rows([("a", 1), ("b", 2), ("a", 3)])])):
        pairs = zip(batch.column("group").to_pylist(), batch.column("kind").to_pylist(), strict=True)
        clocks += [group for group, kind in pairs if kind == RowKind.CLOCK]
    assert sorted(clocks) == sorted(groups.service_labels)
