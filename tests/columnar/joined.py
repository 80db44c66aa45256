"""Runs the operator of one join of two streams on columns beside the operator on Python objects."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from tests.budget import for_a_night
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

# Any in this module: elements and results of every type.

Build: TypeAlias = Callable[[DataStream[Any], DataStream[Any]], DataStream[Any]]
TwoBatches: TypeAlias = tuple[Sequence[Any], Sequence[Any]]
"""The elements of the left and of the right stream in one batch."""


Sides: TypeAlias = tuple[type[Any], type[Any]]


class Left(NamedTuple):
    key: str | None
    at: int
    number: int
    text: str | None


class Right(NamedTuple):
    code: str | None
    at: int
    level: float
    amount: int


class NumberedLeft(NamedTuple):
    key: int
    at: int
    number: int
    text: str | None


class NumberedRight(NamedTuple):
    code: int
    at: int
    level: float
    amount: int


TEXTS: list[Any] = [*(f"key {n}" for n in range(12)), "", None]
NUMBERS: list[Any] = [*range(-3, 12), 2**62]


def batches(chance: random.Random, keys: list[Any], sides: Sides) -> Iterator[TwoBatches]:
    """Batches of every size; time goes on by some 60 ms in each, with disorder; keys come and go."""
    for number in range(for_a_night(24, 14)):
        alive = keys if number % 10 < 6 else chance.sample(keys, 3)

        def element(of: type[Any], *values: Any, alive: list[Any] = alive, number: int = number) -> Any:
            return of(chance.choice(alive), (number - 3) * 60 + chance.randrange(-150, 60), *values)

        yield (
            [
                element(sides[0], chance.randrange(2**40), chance.choice([None, "", "a", "abc"]))
                for _ in range(chance.choice([0, 1, 7, 60]))
            ],
            [element(sides[1], chance.random(), chance.randrange(9)) for _ in range(chance.choice([0, 1, 7, 60]))],
        )


class _JoinEngine(Engine):
    """Takes the records of both streams."""

    sides: Sides

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


def _topology(build: Build, sides: Sides) -> Topology:
    strategy = WatermarkStrategy[Any].for_bounded_out_of_orderness(millis(80))
    one, other = (
        from_source(ParquetFileSource("never read", kind)).assign_timestamps_and_watermarks(
            strategy, timestamp=lambda e: e.at
        )
        for kind in sides
    )
    return Topology(Pipeline("one join", build(one, other).sink_to(CollectSink[Any]())).steps)


def join_form(build: Build, sides: Sides = (Left, Right)) -> JoinForm:
    """The form of a join on columns; raises ``DeclinedError`` if it has none."""
    topology = _topology(build, sides)
    form = column_form(topology, topology.keyed[0])
    assert isinstance(form, JoinForm), form
    return form


def engine_of(build: Build, sides: Sides, tuning: StateTuning = MEASURED) -> tuple[Topology, Engine]:
    """The plan of one join, and an engine that has seen nothing."""
    topology = _topology(build, sides)
    engine = _JoinEngine(topology, column_form(topology, topology.keyed[0]), sides[0], tuning, bound_in)
    engine.sides = sides
    return topology, engine


def run(
    build: Build,
    sides: Sides,
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
