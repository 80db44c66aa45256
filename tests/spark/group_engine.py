"""Runs one keyed step as workers do, through the exchange but without Spark, beside the general operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tests.columnar import engine
from tests.columnar.engine import BoundOf, Times
from tests.spark.fake_steps import Forward, Store
from windrow.plan import WindowNode
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.columnar.forms.columnar_form import ColumnarForm
from windrow_runtime.columnar.forms.row_form import RowForm
from windrow_runtime.columnar.forms.step_form import OnColumns
from windrow_runtime.columnar.windows.geometry import Slices
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.topology import Topology, in_processing_time
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
from windrow_runtime.storage.tuning import StateTuning

__all__ = ["GroupEngine", "run"]

# Any in this module: results of every type, and pyarrow has no types.

FINGERPRINT = bytes(16)
RESULTS, LATE_SINK = range(2)
GROUPS = KeyGroups.balanced(1, 2)


class GroupEngine:
    """Scans records as columns, and calls the groups of one step as Spark does."""

    def __init__(
        self, topology: Topology, form: Any, record: type[Any], tuning: StateTuning, bound_of: BoundOf
    ) -> None:
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
        self.bound_of = bound_of
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

    def batch(self, elements: Sequence[Any], previous: Times, current: Times, pieces: int, *, crash: bool) -> None:
        times = BatchTimes(BatchTime(*previous), BatchTime(*current))
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
            bound_of = partial(self.bound_of, task, watermark)
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


run = partial(engine.run, engine_of=GroupEngine)
