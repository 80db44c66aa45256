"""Runs the operator of one join of two streams on columns beside the operator on Python objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.columnar.engine import Engine, Times, bound_in, millis
from tests.columnar.planning import column_form
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow.functions.marked import LEFT
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.local.execution import Execution, StampedElements
from windrow_runtime.operators.topology import Port, Topology
from windrow_spark.columnar.forms.join_form import JoinForm
from windrow_spark.columnar.forms.route import Route
from windrow_spark.columnar.joins.pair_results import values_of_pairs
from windrow_spark.storage.tuning import MEASURED, StateTuning

__all__ = ["Ran", "TwoBatches", "engine_of", "run", "streams"]

# Any in this module: elements and results of every type.

TwoBatches = tuple[Sequence[Any], Sequence[Any]]
"""The elements of the left and of the right stream in one batch."""


class _JoinEngine(Engine):
    """Takes the records of both streams."""

    sides: tuple[type[Any], type[Any]]

    def parts(self, elements: TwoBatches, pieces: int) -> Iterator[tuple[Route, Sequence[Any]]]:
        for number in range(pieces):
            # The tasks of both sources in turn.
            for place, of_side in enumerate(elements):
                part = of_side[number * len(of_side) // pieces : (number + 1) * len(of_side) // pieces]
                yield from ((route, part) for route in self.form.routes if (route.side != LEFT) == place)

    def record_of(self, route: Route) -> RecordType:
        return record_type(self.sides[route.side != LEFT])

    def values_of(self, results: Any) -> list[Any]:
        return values_of_pairs(self.form, results)


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


def engine_of(
    build: Callable[[DataStream[Any], DataStream[Any]], DataStream[Any]],
    sides: tuple[type[Any], type[Any]],
    tuning: StateTuning = MEASURED,
) -> tuple[Topology, Engine]:
    """The plan of one join, and an engine that has seen nothing."""
    topology = Topology(Pipeline("one join", build(*streams(*sides)).sink_to(CollectSink[Any]())).steps)
    (step,) = topology.keyed
    form = column_form(topology, step)
    assert isinstance(form, JoinForm), form
    engine = _JoinEngine(topology, form, sides[0], tuning, bound_in)
    engine.sides = sides
    return topology, engine


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
    topology, engine = engine_of(build, sides, tuning)
    (step,) = topology.keyed
    reference = Execution(topology, fast=False)
    reference.open()
    time, highest = Times(MIN_TIMESTAMP, 0), MIN_TIMESTAMP
    for number, elements in enumerate([*inputs, None]):
        batch = elements or ((), ())
        watermark = MAX_TIMESTAMP if elements is None else max(MIN_TIMESTAMP, highest - late)
        following = Times(watermark, number * 10)
        chunks = {
            Port(source.id): StampedElements(list(some), [None] * len(some))
            for source, some in zip(topology.sources, batch, strict=True)
        }
        reference.round(chunks, watermark=watermark, processing_time=following.now)
        engine.batch(batch, time, following, 1 + number % 3, crash=number % 5 == crash_at)
        time = following
        highest = max([highest, *(e.at for some in batch for e in some)])
    expected: dict[str, list[Any]] = defaultdict(list)
    for sink, chunk in reference.sinks.items():
        expected[sink] += chunk.values
    dropped = reference.metrics[step.id].totals["late_records_dropped"]
    return Ran(engine, expected[topology.sinks[0].id], dropped)
