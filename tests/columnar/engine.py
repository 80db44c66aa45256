"""Runs one keyed step as workers do, without Spark, beside the general operator."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from tests.spark.fake_steps import Forward, Store
from windrow import DataStream, KeyedStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.plan import Step, WindowNode
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource, Source
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.columnar.forms.columnar_form import ColumnarForm
from windrow_runtime.columnar.forms.row_form import RowForm
from windrow_runtime.columnar.forms.step_form import OnColumns
from windrow_runtime.columnar.windows.geometry import Slices
from windrow_runtime.local.execution import Elements, Execution
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.topology import Port, Topology, in_processing_time
from windrow_runtime.spark.clock import BatchTime, BatchTimes, encode_timer
from windrow_runtime.spark.exchange.column_sender import ColumnTarget
from windrow_runtime.spark.exchange.packer import ToSink
from windrow_runtime.spark.exchange.rows import PackedRow, RowKind, load_values
from windrow_runtime.spark.key_groups import KeyGroups
from windrow_runtime.spark.keyed.group_task import GroupTask, GroupUpdate
from windrow_runtime.spark.keyed.level import KeyedStep, Level
from windrow_runtime.spark.shipping import known_classes
from windrow_runtime.spark.sources.column_scan import ColumnScan
from windrow_runtime.storage.group_record import GroupState
from windrow_runtime.storage.tuning import MEASURED, StateTuning

__all__ = [
    "FEW",
    "LATE",
    "MANY",
    "Element",
    "Engine",
    "FormOf",
    "Keyed",
    "Ran",
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
RESULTS, LATE_SINK = range(2)
GROUPS = KeyGroups.balanced(1, 2)


class Element(NamedTuple):
    key: str | None
    at: int
    number: int | None
    level: float | None
    text: str


LATE = OutputTag[Any]("late")
Keyed = KeyedStream[Element, "str | None"]
FormOf: TypeAlias = "Callable[[Topology, Step, Callable[[Source[Any]], None]], object]"


def millis(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def bound_in(task: int, watermark: int, step: str) -> int | None:
    """What a task knows of the watermark: all, nothing, or that it is not above another one."""
    return (watermark, None, min(watermark + 40, MAX_TIMESTAMP))[task % 3]


class Engine:
    """Scans records as columns, and calls the groups of one step as Spark does."""

    def __init__(self, topology: Topology, form: OnColumns | RowForm, record: type[Any], tuning: StateTuning) -> None:
        (step,) = topology.keyed
        side = {"late": Forward((ToSink(LATE_SINK),))} if len(topology.sinks) > 1 else {}
        keyed = KeyedStep(
            0,
            step.id,
            step.id,
            partial(operator_for, step),
            Forward((ToSink(RESULTS),)),
            side,
            form=form if isinstance(form, OnColumns) else None,
            arrival=form if isinstance(form, RowForm) else None,
        )
        self.form = form
        self.record = record_type(record)
        classes = known_classes(topology.steps)
        self.by_clock = isinstance(step.node, WindowNode) and in_processing_time(step.node)
        self.level = Level(
            1, True, GROUPS, FINGERPRINT, (keyed,), by_clock=self.by_clock, classes=classes, tuning=tuning
        )
        self.records: dict[int, bytes | None] = dict.fromkeys(GROUPS.labels)
        self.stores = {label: Store() for label in GROUPS.labels}
        self.timers = dict.fromkeys(GROUPS.labels, 0)
        self.results: list[Any] = []
        self.late: list[Any] = []
        self.counted: Counter[str] = Counter()
        self.wanted_counts: Mapping[str, int] = {}  # those of the general operator
        self.folded = False

    def batch(self, elements: Sequence[Any], times: BatchTimes, pieces: int, *, crash: bool) -> None:
        rows = self._scan(elements, pieces, times.current.watermark)
        for label in GROUPS.labels:
            timer = self.timers[label]
            mine = rows[label]
            time = times.current.now if self.by_clock else encode_timer(times.current.watermark)
            # By the clock, groups are told that the stream ends, and ask for the batch behind.
            is_told = self.by_clock and times.current.watermark == MAX_TIMESTAMP and self.records[label] is not None
            if not mine and not is_told and not (timer and timer <= time):
                continue
            before = self.records[label], Store(self.stores[label])
            first = self._run(label, times, mine)
            if crash:
                # Nothing of it was committed: it runs again, in another process.
                after = self.records[label], self.stores[label]
                self.records[label], self.stores[label] = before
                again = self._run(label, times, mine)
                assert [(*row[:-1], repr(load_values(row.payload))) for row in again] == [
                    (*row[:-1], repr(load_values(row.payload))) for row in first
                ]
                assert (self.records[label], self.stores[label]) == after
            for row in first:
                values = load_values(row.payload)
                if row.kind == RowKind.COUNTERS:
                    for _, name, count in values:
                        if isinstance(name, str):
                            self.counted[name] += count
                else:
                    (self.results if row.target == RESULTS else self.late).extend(values)
            self._check(label)

    def _scan(self, elements: Sequence[Any], pieces: int, watermark: int) -> dict[int, list[PackedRow]]:
        """Several tasks, each with some Arrow batches."""
        found: dict[int, list[PackedRow]] = {label: [] for label in GROUPS.labels}
        for task in range(pieces):
            targets = [ColumnTarget(0, self.form, self.form.routes[0])]
            bound_of = partial(bound_in, task, watermark)
            scan = ColumnScan(self.record, targets, GROUPS, task, lambda step, highest: None, bound_of)
            rows: list[PackedRow] = []
            mine = elements[task * len(elements) // pieces : (task + 1) * len(elements) // pieces]
            for start in range(0, len(mine), 40):
                rows += scan.add(encode_batch(mine[start : start + 40], self.record))
            rows += scan.flush()
            for row in rows:
                found[row.group].append(row)
                self.folded |= row.kind in {RowKind.PARTIALS, RowKind.AGGREGATED}
        return found

    def _run(self, label: int, times: BatchTimes, arrived: list[PackedRow]) -> list[PackedRow]:
        task = GroupTask(self.level)
        data, store = self.records[label], self.stores[label]
        outputs = list(task.run_group(label, data, store, times, times.current.now, [], arrived))
        update = outputs.pop()
        assert isinstance(update, GroupUpdate)
        self.records[label] = update.data
        if update.old_timer or update.new_timer:
            self.timers[label] = update.new_timer
        rows = [row for row in outputs if not isinstance(row, GroupUpdate)]
        return sorted(rows, key=lambda row: row.number)

    def _check(self, label: int) -> None:
        """Nothing is stored that nobody refers to, and nothing is missing."""
        if isinstance(self.form, RowForm):
            return
        data = self.records[label]
        sizes = [] if data is None else next(iter(GroupState.load(data, FINGERPRINT).steps.values())).sizes
        # The first is the tail of chunks, or the one page of a small state; with more pages it is one of them.
        in_chunks = isinstance(self.form, ColumnarForm) and isinstance(self.form.windows, Slices)
        first = 0 if not in_chunks and len(sizes) > 1 else 1
        stored = [number for number, size in enumerate(sizes) if size and number >= first]
        assert sorted(self.stores[label]) == stored


KEYS: list[str | None] = [*(f"key {n}" for n in range(25)), "", None]
RARE = [math.nan, math.inf, -math.inf, 0.0, 1e120]
"""Levels whose sums, means and deviations are the same in every order. The square of the largest is a float, too."""


FEW, MANY = 24, 40
"""The numbers of batches that most steps take, and that those take which fire seldom."""


def batches(chance: random.Random, count: int = FEW) -> Iterator[list[Element]]:
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
            for _ in range(chance.choice([0, 1, 7, 60, 200]))
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
    assert isinstance(form, (ColumnarForm, RowForm)), form
    reference = Execution(topology, fast=False)
    reference.open()
    engine = Engine(topology, form, record, tuning)
    time, highest = BatchTime(MIN_TIMESTAMP, 0), MIN_TIMESTAMP
    for number, elements in enumerate([*inputs, None]):
        batch = elements or []
        watermark = MAX_TIMESTAMP if elements is None else max(MIN_TIMESTAMP, highest - 81)
        following = BatchTime(watermark, number * 10)
        chunk = Elements(list(batch), [None] * len(batch))
        if not alone:
            reference.round({Port(topology.sources[0].id): chunk}, watermark=watermark, processing_time=following.now)
        engine.batch(batch, BatchTimes(time, following), 1 + number % 3, crash=number % 5 == crash_at)
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
    return Counter(map(repr, values))


def at(moment: int, key: str = "k", number: int | None = 1) -> Element:
    return Element(key, moment, number, 0.5, "t")
