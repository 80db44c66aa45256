"""Runs one join of two streams as workers do, without Spark, beside the operator on Python objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from tests.columnar.engine import GROUPS, Engine, bound_in, millis
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow.functions.marked import LEFT
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.columnar.forms.join_form import JoinForm
from windrow_runtime.columnar.forms.step_form import step_form
from windrow_runtime.local.execution import Elements, Execution
from windrow_runtime.operators.topology import Port, Topology
from windrow_runtime.spark.clock import BatchTime, BatchTimes
from windrow_runtime.spark.exchange.column_sender import ColumnTarget
from windrow_runtime.spark.exchange.rows import PackedRow
from windrow_runtime.spark.sources.column_scan import ColumnScan
from windrow_runtime.storage.tuning import MEASURED, StateTuning

__all__ = ["Ran", "TwoBatches", "run", "streams"]

# Any in this module: elements and results of every type.

TwoBatches = tuple[Sequence[Any], Sequence[Any]]
"""The elements of the left and of the right stream in one batch."""


class _JoinEngine(Engine):
    """Scans the records of both streams."""

    sides: tuple[type[Any], type[Any]]

    def _scan(self, elements: Sequence[Any], pieces: int, watermark: int) -> dict[int, list[PackedRow]]:
        found: dict[int, list[PackedRow]] = {label: [] for label in GROUPS.labels}
        for task in range(2 * pieces):
            # The tasks of both sources in turn.
            for route in self.form.routes:
                place = int(route.side != LEFT)
                if task % 2 != place:
                    continue
                kind = record_type(self.sides[place])
                scan = ColumnScan(
                    kind,
                    [ColumnTarget(0, self.form, route)],
                    GROUPS,
                    task,
                    lambda step, highest: None,
                    partial(bound_in, task, watermark),
                )
                some, number = elements[place], task // 2
                mine = some[number * len(some) // pieces : (number + 1) * len(some) // pieces]
                rows: list[PackedRow] = []
                for start in range(0, len(mine), 40):
                    rows += scan.add(encode_batch(mine[start : start + 40], kind))
                for row in [*rows, *scan.flush()]:
                    found[row.group].append(row)
        return found


class Ran(NamedTuple):
    """The engine when the streams have ended, what came out of the operator on objects, and how many were late."""

    engine: Engine
    expected: list[Any]
    dropped: int


def streams(left: type[Any], right: type[Any]) -> tuple[DataStream[Any], DataStream[Any]]:
    """Two streams of records that have an ``at``."""
    strategy = WatermarkStrategy[Any].for_bounded_out_of_orderness(millis(80))
    one, other = (
        from_source(ParquetFileSource("never read", kind)).assign_timestamps_and_watermarks(
            strategy, timestamp=lambda e: e.at
        )
        for kind in (left, right)
    )
    return one, other


def run(
    build: Callable[[DataStream[Any], DataStream[Any]], DataStream[Any]],
    sides: tuple[type[Any], type[Any]],
    inputs: Iterable[TwoBatches],
    *,
    crash_at: int = -1,
    tuning: StateTuning = MEASURED,
    late: int = 81,
) -> Ran:
    """Batches, then the end of the streams. Of five batches the one with the number ``crash_at`` runs twice.

    The watermark is so far behind the highest timestamp of the batches before.
    """
    topology = Topology(Pipeline("one join", build(*streams(*sides)).sink_to(CollectSink[Any]())).steps)
    (step,) = topology.keyed
    form = step_form(topology, step, lambda source: None)
    assert isinstance(form, JoinForm), form
    reference = Execution(topology, fast=False)
    reference.open()
    engine = _JoinEngine(topology, form, sides[0], tuning)
    engine.sides = sides
    time, highest = BatchTime(MIN_TIMESTAMP, 0), MIN_TIMESTAMP
    for number, elements in enumerate([*inputs, None]):
        batch = elements or ((), ())
        watermark = MAX_TIMESTAMP if elements is None else max(MIN_TIMESTAMP, highest - late)
        following = BatchTime(watermark, number * 10)
        chunks = {
            Port(source.id): Elements(list(some), [None] * len(some))
            for source, some in zip(topology.sources, batch, strict=True)
        }
        reference.round(chunks, watermark=watermark, processing_time=following.now)
        engine.batch(batch, BatchTimes(time, following), 1 + number % 3, crash=number % 5 == crash_at)
        time = following
        highest = max([highest, *(e.at for some in batch for e in some)])
    expected: dict[str, list[Any]] = defaultdict(list)
    for sink, chunk in reference.sinks.items():
        expected[sink] += chunk.values
    dropped = reference.metrics[step.id].totals["late_records_dropped"]
    return Ran(engine, expected[topology.sinks[0].id], dropped)
