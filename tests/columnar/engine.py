"""Runs the operator of one keyed step on columns beside the general operator."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tests.budget import for_a_night
from tests.spark.page_groups import numbers_in_store
from tests.support.records import millis
from windrow import DataStream, KeyedStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.plan import Step, WindowNode
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.local.execution import Execution, StampedElements
from windrow_runtime.operators.errors import DeclinedError, errors_at
from windrow_runtime.operators.topology import Port, Topology, in_processing_time
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.forms.join_form import JoinForm
from windrow_spark.columnar.forms.route import ExchangeRows, Route
from windrow_spark.columnar.joins.interval import IntervalOperator
from windrow_spark.columnar.results import values_of
from windrow_spark.columnar.state import Chunks, concatenated, no_rows
from windrow_spark.columnar.step_operator import (
    BatchPart,
    ColumnsArrived,
    Increment,
    LateRows,
    PythonResults,
    StepBatch,
    Times,
)
from windrow_spark.columnar.windows.geometry import Slices
from windrow_spark.storage.group_record import GroupState
from windrow_spark.storage.tuning import MEASURED, StateTuning

__all__ = [
    "FEW",
    "LATE",
    "MANY",
    "Element",
    "Engine",
    "FormOf",
    "Keyed",
    "Ran",
    "Store",
    "Times",
    "at",
    "batches",
    "bound_in",
    "by_key",
    "millis",
    "run",
    "told",
]

# Any in this module: results of every type, and pyarrow has no types.

FINGERPRINT = bytes(16)
GROUPS = 2
Rows = tuple[bool, Any]
"""Rows of the exchange, and whether they are partial aggregates."""

Outputs = tuple[list[Any], list[Any], Mapping[str, int]]


class Store(dict[int, bytes]):
    """Pages or chunks of a group in memory."""

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        return list(map(self.get, numbers))

    def put(self, number: int, data: bytes) -> None:
        self[number] = data

    def remove(self, number: int) -> None:
        del self[number]  # what is not there is not removed


class Element(NamedTuple):
    key: str | None
    at: int
    number: int | None
    level: float | None
    text: str


LATE = OutputTag[Any]("late")
Keyed = KeyedStream[Element, "str | None"]
FormOf: TypeAlias = "Callable[[Topology, Step, Callable[[Step], None]], object]"
BoundOf: TypeAlias = Callable[[int, int, str], int | None]
"""Tells what a task, by its number, knows of the watermark that a step has when elements arrive."""

EngineOf: TypeAlias = Callable[[Topology, Any, type[Any], StateTuning, BoundOf], Any]


def bound_in(task: int, watermark: int, step: str) -> int | None:
    """What a task knows of the watermark: all, nothing, or that it is not above another one."""
    return (watermark, None, min(watermark + 40, MAX_TIMESTAMP))[task % 3]


class Engine:
    """Runs the operator of one step on columns, group by group, as workers do."""

    def __init__(
        self, topology: Topology, form: Any, record: type[Any], tuning: StateTuning, bound_of: BoundOf
    ) -> None:
        self.form = form
        self.record = record_type(record)
        self.bound_of = bound_of
        self.tuning = tuning
        (step,) = topology.keyed
        self.by_clock = isinstance(step.node, WindowNode) and in_processing_time(step.node)
        self.records: dict[int, bytes | None] = dict.fromkeys(range(GROUPS))
        self.stores = {group: Store() for group in range(GROUPS)}
        self.results: list[Any] = []
        self.late: list[Any] = []
        self.counted: Counter[str] = Counter()
        self.wanted_counts: Mapping[str, int] = {}  # those of the general operator
        self.folded = False

    def batch(self, elements: Sequence[Any], previous: Times, current: Times, pieces: int, *, crash: bool) -> None:
        arrived = self.scan(elements, pieces, current.watermark)
        for group in self.records:
            if not arrived[group] and not self.is_due(group, current):
                continue
            stored = self.records[group], Store(self.stores[group])
            outputs = self.run_group(group, previous, current, arrived[group])
            if crash:
                # Nothing of it was committed: it runs again, in another process.
                after = self.records[group], self.stores[group]
                self.records[group], self.stores[group] = stored
                again = self.run_group(group, previous, current, arrived[group])
                assert self.shown(again) == self.shown(outputs)
                assert (self.records[group], self.stores[group]) == after
            self.take(outputs)
            self.check(group)

    def is_due(self, group: int, times: Times) -> bool:
        """Returns whether a group has something to do without elements."""
        return any(record.is_due(*times) for record in self._loaded(group).steps.values())

    def shown(self, outputs: Sequence[Any]) -> Any:
        """Returns what two runs of one batch have to agree in."""
        return repr(outputs)

    def take(self, outputs: Sequence[Any]) -> None:
        """Collects results, late elements and counts."""
        for results, late, counts in outputs:
            self.results += results
            self.late += late
            self.counted += Counter(counts)

    def scan(self, elements: Any, pieces: int, watermark: int) -> dict[int, list[Any]]:
        """Prepares elements for the exchange as several tasks do, each with some Arrow batches."""
        arrived: dict[int, list[Any]] = {group: [] for group in range(GROUPS)}
        for task, (route, part) in enumerate(self.parts(elements, pieces)):
            batches = [self._columns_of(route, part[start : start + 40]) for start in range(0, len(part), 40)]
            if batches:
                self._exchange(concatenated(batches), self.bound_of(task, watermark, ""), arrived)
        return arrived

    def parts(self, elements: Any, pieces: int) -> Iterator[tuple[Route, Sequence[Any]]]:
        """Yields what each task reads, and how it gets to the step."""
        for task in range(pieces):
            yield self.form.routes[0], elements[task * len(elements) // pieces : (task + 1) * len(elements) // pieces]

    def record_of(self, route: Route) -> RecordType:
        """Returns the type of what a source has."""
        return self.record

    def _columns_of(self, route: Route, elements: Sequence[Any]) -> Any:
        form = self.form
        with errors_at(form.step.where):
            columns, stamps, _ = route.run(encode_batch(elements, self.record_of(route)), None)
            form.check(stamps)
            key = pa.nulls(len(stamps)) if route.keyed is None else route.keyed.evaluate(columns)
            named = dict(zip(columns.schema.names, columns.columns, strict=True))
            arrays = [key, form.stamps_of(route, stamps), *form.columns_of(route, named)]
        return pa.RecordBatch.from_arrays(arrays, schema=form.raw_schema)

    def _exchange(self, rows: Any, bound: int | None, arrived: dict[int, list[Any]]) -> None:
        if not rows.num_rows:
            return
        with errors_at(self.form.step.where):
            parts = list(self.form.exchange_rows(rows, bound))
        for contents, part in parts:
            is_partial = contents is ExchangeRows.AGGREGATED
            self.folded |= is_partial
            groups = self.form.hash_keys(part.column(0)) % np.uint64(GROUPS)
            for group in range(GROUPS):
                of_group = part.filter(pa.array(groups == group))
                if of_group.num_rows:
                    arrived[group].append((is_partial, of_group))

    def _loaded(self, group: int) -> GroupState:
        data = self.records[group]
        return GroupState() if data is None else GroupState.load(data, FINGERPRINT)

    def run_group(self, group: int, previous: Times, times: Times, arrived: Sequence[Any]) -> Sequence[Any]:
        """Runs one batch of a group; returns the results, the late elements and the counts of each output."""
        state = self._loaded(group)
        record = state.record_of("step")
        part = BatchPart(max(times.watermark, record.watermark), self._arrived(arrived), 0)
        batch: StepBatch[Any, Any] = StepBatch(
            self.form.operator, record, self.stores[group], [part], max(times.now, record.now), self.tuning
        )
        with errors_at(self.form.step.where):
            outputs = [self._taken(output) for _, emitted in batch.run() for output in emitted]
        self.records[group] = state.dump(FINGERPRINT) if record.stored_bytes else None
        return outputs

    def _arrived(self, arrived: Sequence[Rows]) -> ColumnsArrived:
        numbers = np.arange(sum(rows.num_rows for _, rows in arrived))
        are_partial = np.repeat([is_partial for is_partial, _ in arrived], [rows.num_rows for _, rows in arrived])
        partial_rows = [no_rows(self.form.partial_schema), *(rows for is_partial, rows in arrived if is_partial)]
        elements = [no_rows(self.form.exchange_schema), *(rows for is_partial, rows in arrived if not is_partial)]
        arrival = np.concatenate([numbers[are_partial > 0], numbers[are_partial == 0]])
        return ColumnsArrived(concatenated(partial_rows), concatenated(elements), arrival)

    def _taken(self, output: Any) -> Outputs:
        if isinstance(output, Increment):
            return [], [], {output.counter: output.by}
        if isinstance(output, PythonResults):
            return [result for result, _ in output.stamped], [], {}
        if not isinstance(output, LateRows):
            return self.values_of(output), [], {}
        if isinstance(self.form, JoinForm) or self.form.late_tag is None:
            return [], [], {"late_records_dropped": output.elements}
        return [], self.form.elements_of(self.form.late_elements(output.rows)), {}

    def values_of(self, results: Any) -> list[Any]:
        """Returns results as Python values."""
        return values_of(self.form, results)

    def check(self, group: int) -> None:
        """Nothing is stored that nobody refers to, and nothing is missing."""
        expected: list[int] = []
        for record in self._loaded(group).steps.values():
            if isinstance(self.form, ColumnarForm) and isinstance(self.form.windows, Slices):
                chunks = Chunks(record, self.form.operator.schema, Store(), lambda rows: (0, 0, 0), lambda rows: rows)
                expected += [chunk.number for chunk in chunks.entries]
            elif isinstance(self.form.operator, IntervalOperator):
                for each in self.form.operator.segments(record, Store(), MEASURED).segments:
                    expected += range(each.number, each.end)
            else:
                expected += numbers_in_store(record)
        assert sorted(self.stores[group]) == sorted(expected)


KEYS: list[str | None] = [*(f"key {n}" for n in range(25)), "", None]
RARE = [math.nan, math.inf, -math.inf, 0.0, 1e120]
"""Levels whose sums, means and deviations are the same in every order. The square of the largest is a float, too."""


FEW, MANY = for_a_night((24, 40), (14, 24))
"""The numbers of batches that most steps take, and that those take which fire seldom."""

MOST = for_a_night(200, 100)
"""The elements of the largest batches."""


def batches(chance: random.Random, count: int = for_a_night(24, 18)) -> Iterator[list[Element]]:
    """Batches of every size; time goes on by some 60 ms in each, with disorder; keys come and go."""
    for number in range(count):
        alive = KEYS if number % 10 < 6 else chance.sample(KEYS, 3)
        yield [
            Element(
                chance.choice(alive),
                (number - 3) * 60 + chance.randrange(-150, 60),
                chance.choice([None, chance.randrange(1000), chance.randrange(2**52)]),
                chance.choice([None, chance.random() * 100, -0.0] if chance.randrange(25) else RARE),
                chance.choice("abcdef") * chance.randrange(3),
            )
            for _ in range(chance.choice([0, 1, 7, 60, MOST]))
        ]


class Near(float):
    """A float, but for its last bits; a NaN is a NaN."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, float):
            return False
        if math.isnan(self) or math.isnan(other):
            return math.isnan(self) and math.isnan(other)
        return math.isclose(self, other, rel_tol=1e-12)

    __hash__ = None  # type: ignore[assignment]  # equal ones would need equal hashes


def near(value: Any) -> Any:
    """A result whose floats are equal but for their last bits."""
    if isinstance(value, float):
        return Near(value)
    return tuple(map(near, value)) if isinstance(value, (tuple, list)) else value


class Ran(NamedTuple):
    """The engine when the stream has ended, what each sink should have, and how many late elements were dropped."""

    engine: Engine
    expected: list[list[Any]]
    dropped: int


def by_their_key(records: DataStream[Any]) -> Any:
    """How records become what most steps take."""
    return records.key_by(lambda e: e.key)


def run(
    build: Callable[[Any], DataStream[Any]],
    inputs: Sequence[Sequence[Any]],
    form_of: FormOf,
    *,
    crash_at: int = -1,
    late: bool = False,
    record: type[Any] = Element,
    way: Callable[[DataStream[Any]], Any] = by_their_key,
    alone: bool = False,
    stamped: bool = True,
    tuning: StateTuning = MEASURED,
    bound_of: BoundOf = bound_in,
    engine_of: EngineOf = Engine,
) -> Ran:
    """Batches, then the end of the stream. Of five batches the one with the number ``crash_at`` runs twice.

    Elements that are not ``stamped`` have no timestamps.

    Another record has an ``at`` and a ``text`` as well, and a ``key`` unless there is another way to the step. What is
    to fail runs alone, without the general operator, which would fail first.
    """
    source = from_source(ParquetFileSource("never read", record))
    if stamped:
        source = source.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(millis(80)), timestamp=lambda e: e.at
        )
    stream = build(way(source.filter(lambda e: e.text != "ff")))
    sinks = [stream.sink_to(CollectSink[Any]())]
    if late:
        sinks.append(stream.get_side_output(LATE).sink_to(CollectSink[Element]()))
    topology = Topology(Pipeline("one step", *sinks).steps)
    (step,) = topology.keyed
    form = form_of(topology, step, lambda source: None)
    assert not isinstance(form, DeclinedError), form
    reference = Execution(topology, fast=False)
    reference.open()
    engine = engine_of(topology, form, record, tuning, bound_of)
    time, highest = Times(MIN_TIMESTAMP, 0), MIN_TIMESTAMP
    for number, elements in enumerate([*inputs, None]):
        batch = elements or []
        watermark = MAX_TIMESTAMP if elements is None else max(MIN_TIMESTAMP, highest - 81)
        following = Times(watermark, number * 10)
        chunk = StampedElements(list(batch), [None] * len(batch))
        if not alone:
            reference.round({Port(topology.sources[0].id): chunk}, watermark=watermark, processing_time=following.now)
        engine.batch(batch, time, following, 1 + number % 3, crash=number % 5 == crash_at)
        time = following
        highest = max([highest, *(e.at for e in batch if e.text != "ff")])
    expected: dict[str, list[Any]] = defaultdict(list)
    for sink, chunk in reference.sinks.items():
        expected[sink] += chunk.values
    engine.wanted_counts = reference.metrics[step.id].totals
    dropped = engine.wanted_counts["late_records_dropped"]
    return Ran(engine, [expected[step.id] for step in topology.sinks], dropped)


def by_key(results: Iterable[Any]) -> dict[Any, list[Any]]:
    found: defaultdict[Any, list[Any]] = defaultdict(list)
    for result in results:
        found[result[0]].append(near(result))
    return found


def told(values: list[Any]) -> Counter[str]:
    """Values in any order, with their types, all digits, the signs of zeros, and a NaN as any other."""
    return Counter([repr(_in_order(value)) for value in values])


# Any: as in told.
def _in_order(value: Any) -> Any:
    """A value whose sets are shown in one order, also those within tuples."""
    if isinstance(value, tuple):
        return (type(value).__name__, *map(_in_order, value))
    return ("frozenset", *sorted(map(repr, value))) if type(value) is frozenset else value


def at(moment: int, key: str = "k", number: int | None = 1) -> Element:
    return Element(key, moment, number, 0.5, "t")
