"""Runs plans with several levels of keyed steps as workers do, without Spark, beside the general operator."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

from pyspark import cloudpickle

from tests.columnar.engine import bound_in
from tests.columnar.planning import plan_of
from tests.spark.fake_steps import Store
from windrow import Pipeline
from windrow.plan import Step
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.local.execution import Execution, StampedElements
from windrow_runtime.operators.topology import Port, Topology
from windrow_spark.clock import BatchTime, BatchTimes, encode_timer
from windrow_spark.columnar.state import load_rows
from windrow_spark.exchange.facts import RECORDS_IN
from windrow_spark.exchange.packer import Packer
from windrow_spark.exchange.rows import PackedRow, Phase, RowKind, load_values, phase_of
from windrow_spark.key_groups import KeyGroups
from windrow_spark.keyed.group_task import GroupTask, GroupUpdate
from windrow_spark.keyed.level import Level
from windrow_spark.lowering import WorkerSteps
from windrow_spark.shipping import known_classes, without_sources_and_sinks
from windrow_spark.sinks.spark_writer import takes_columns
from windrow_spark.storage.tuning import MEASURED, StateTuning

__all__ = ["Ran", "Workers", "run"]

# Any in this module: results of every type.

FINGERPRINT = bytes(16)
GROUPS = KeyGroups.balanced(1, 3)


class _LevelState:
    """What Spark keeps of one level: the records, the pages and the timers of its groups."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.records: dict[int, bytes | None] = dict.fromkeys(GROUPS.labels)
        self.stores = {label: Store() for label in GROUPS.labels}
        self.timers = dict.fromkeys(GROUPS.labels, 0)


class Workers:
    """Runs a plan of one source batch by batch.

    Args:
        topology: The plan.
        record: The class of the source's elements.
        columnar: The steps that run on columns, by id; None: all that can.
        tuning: How state is stored.
    """

    def __init__(
        self, topology: Topology, record: type[Any], columnar: Collection[str] | None, tuning: StateTuning
    ) -> None:
        self.plan = plan_of(topology, takes_columns=takes_columns)
        on_columns = self.plan.on_columns if columnar is None else columnar
        self.steps = WorkerSteps(self.plan.shipped(without_sources_and_sinks(topology.steps), on_columns))
        depth = max(topology.levels.values())
        classes = known_classes(topology.steps)
        self.levels = [
            _LevelState(
                _shipped(
                    number,
                    number == depth,
                    GROUPS,
                    FINGERPRINT,
                    self.steps.level(number),
                    classes=classes,
                    tuning=tuning,
                )
            )
            for number in range(1, depth + 1)
        ]
        self._source: Step = topology.sources[0]
        self._record = record_type(record)
        self._sinks = dict(enumerate(topology.sinks))
        self.found: dict[str, list[Any]] = {step.id: [] for step in topology.sinks}
        self.counters: Counter[tuple[str, str]] = Counter()
        self.facts: Counter[tuple[str, int]] = Counter()
        self.kinds_out: defaultdict[str, set[int]] = defaultdict(set)
        self.kinds: Counter[tuple[int, int]] = Counter()

    def batch(self, elements: Sequence[Any], times: BatchTimes, pieces: int, *, crash: bool) -> None:
        rows = self._scan(elements, pieces, times.current.watermark)
        for state in self.levels:
            by_label: dict[int, list[PackedRow]] = defaultdict(list)
            passed: list[PackedRow] = []
            for row in rows:
                if row.kind in {RowKind.ELEMENTS, RowKind.COLUMNS, RowKind.AGGREGATED, RowKind.PARTIALS}:
                    by_label[row.group].append(row)
                    self.kinds[state.level.number, row.kind] += 1
                else:
                    passed.append(row)
            for label in GROUPS.labels:
                timer, mine = state.timers[label], by_label[label]
                if not mine and not (timer and timer <= encode_timer(times.current.watermark)):
                    continue
                before = state.records[label], Store(state.stores[label])
                first = self._run(state, label, times, mine)
                if crash:
                    after = state.records[label], state.stores[label]
                    state.records[label], state.stores[label] = before
                    assert _plain(self._run(state, label, times, mine)) == _plain(first)
                    assert (state.records[label], state.stores[label]) == after
                passed += first
            rows = passed
        for row in rows:
            self._take(row)

    def _scan(self, elements: Sequence[Any], pieces: int, watermark: int) -> list[PackedRow]:
        """Several tasks, each with some Arrow batches; elements go as objects where no columns go."""
        rows: list[PackedRow] = []
        for task in range(pieces):
            mine = elements[task * len(elements) // pieces : (task + 1) * len(elements) // pieces]
            targets, bound_of = self.steps.plan.edges(self._source.id), partial(bound_in, task, watermark)
            packer = Packer(GROUPS, Phase.AFTER_WATERMARK)
            packer.bound_of = bound_of
            packer.start(task, GROUPS.service_labels[0])
            with closing(self.steps.fragment(Port(self._source.id))()) as fragment:
                for start in range(0, len(mine), 40):
                    some = mine[start : start + 40]
                    packer.add_columns(targets, encode_batch(some, self._record), None, lambda step, highest: None)
                    rows += packer.full()
                    for target, values, timestamps in fragment.run(list(some), [None] * len(some)):
                        packer.add(target, values, timestamps)
            rows += packer.flush()
        return rows

    def _run(self, state: _LevelState, label: int, times: BatchTimes, rows: list[PackedRow]) -> list[PackedRow]:
        before: list[PackedRow] = []
        after: list[PackedRow] = []
        for row in sorted(rows, key=lambda row: row.number):
            (before if phase_of(row.number) == Phase.BEFORE_WATERMARK else after).append(row)
        with closing(GroupTask(state.level)) as task:
            outputs = list(
                task.run_group(
                    label, state.records[label], state.stores[label], times, times.current.now, before, after
                )
            )
        update = outputs.pop()
        assert isinstance(update, GroupUpdate)
        state.records[label] = update.data
        if update.old_timer or update.new_timer:
            state.timers[label] = update.new_timer
        found = [row for row in outputs if not isinstance(row, GroupUpdate)]
        return sorted(found, key=lambda row: row.number)

    def _take(self, row: PackedRow) -> None:
        if row.kind == RowKind.COUNTERS:
            for step, name, count in load_values(row.payload):
                if isinstance(name, str):
                    self.counters[step, name] += count
                else:
                    self.facts[step, name] += count
            return
        sink = self._sinks[row.target]
        self.kinds_out[sink.id].add(row.kind)
        if row.kind == RowKind.OUTPUT:
            self.found[sink.id] += load_values(row.payload)
            return
        assert row.kind == RowKind.OUTPUT_COLUMNS
        kind = record_type(sink.node.element_type)
        self.found[sink.id] += decode_batch(load_rows(row.payload, arrow_schema(kind)), kind)


def _shipped(*level: Any, **more: Any) -> Level:
    """A level as a worker gets it."""
    # Any: Spark's copy of cloudpickle has no types.
    packed: bytes = cloudpickle.dumps(Level(*level, **more))  # type: ignore[no-untyped-call]  # for the same reason
    found: Level = pickle.loads(packed)
    return found


def _plain(rows: Sequence[PackedRow]) -> list[tuple[Any, ...]]:
    """Rows with their values: a pickle may say the same in other bytes."""
    columns = {RowKind.COLUMNS, RowKind.AGGREGATED, RowKind.OUTPUT_COLUMNS, RowKind.PARTIALS, RowKind.ELEMENTS}
    return [
        (*row[:-1], row.payload if row.kind in columns else repr(load_values(row.payload)))
        for row in rows
        if row.kind != RowKind.COUNTERS
    ]


class Ran(NamedTuple):
    """The workers when the stream has ended, and what each sink should have, by step id."""

    workers: Workers
    expected: dict[str, list[Any]]
    dropped: dict[str, int]  # late elements, by step id

    def taken(self, step: str) -> int:
        """How many elements a step took."""
        return self.workers.facts[step, RECORDS_IN]


def run(
    pipeline: Pipeline,
    record: type[Any],
    inputs: Sequence[Sequence[Any]],
    *,
    columnar: Collection[str] | None = None,
    crash_at: int = -1,
    delay: int = 80,
    tuning: StateTuning = MEASURED,
) -> Ran:
    """Batches, then the end of the stream. Of five batches the one with the number ``crash_at`` runs twice.

    Elements have an ``at``; the watermark follows the highest with a delay.
    """
    topology = Topology(pipeline.steps)
    reference = Execution(topology, fast=False)
    reference.open()
    workers = Workers(topology, record, columnar, tuning)
    time, highest = BatchTime(MIN_TIMESTAMP, 0), MIN_TIMESTAMP
    expected: dict[str, list[Any]] = {step.id: [] for step in topology.sinks}
    for number, elements in enumerate([*inputs, None]):
        batch = elements or []
        watermark = MAX_TIMESTAMP if elements is None else max(MIN_TIMESTAMP, highest - delay - 1)
        following = BatchTime(watermark, number * 10)
        chunk = StampedElements(list(batch), [None] * len(batch))
        reference.round({Port(topology.sources[0].id): chunk}, watermark=watermark, processing_time=following.now)
        workers.batch(batch, BatchTimes(time, following), 1 + number % 3, crash=number % 5 == crash_at)
        time = following
        highest = max([highest, *(e.at for e in batch)])
    for sink, chunk in reference.sinks.items():
        expected[sink] += chunk.values
    dropped = {step.id: reference.metrics[step.id].totals["late_records_dropped"] for step in topology.keyed}
    return Ran(workers, expected, dropped)
