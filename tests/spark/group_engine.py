"""Runs one keyed step as workers do, through the exchange but without Spark, beside the general operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.columnar import engine
from tests.columnar.engine import FINGERPRINT, BoundOf, Engine, Store, Times
from tests.spark.fake_steps import Forward
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.topology import Topology
from windrow_spark.clock import BatchTime, BatchTimes, encode_timer
from windrow_spark.columnar.forms.result_type import OnColumns
from windrow_spark.columnar.forms.row_form import RowForm
from windrow_spark.exchange.packer import Packer, ToSink
from windrow_spark.exchange.rows import PackedRow, Phase, RowKind, load_values
from windrow_spark.key_groups import KeyGroups
from windrow_spark.keyed.group_task import GroupTask, GroupUpdate
from windrow_spark.keyed.level import KeyedStep, Level
from windrow_spark.physical.plan import ColumnEdge
from windrow_spark.shipping import known_classes
from windrow_spark.storage.tuning import StateTuning

__all__ = ["GroupEngine", "run"]

# Any in this module: results of every type, and pyarrow has no types.

RESULTS, LATE_SINK = range(2)
GROUPS = KeyGroups.balanced(1, 2)


class GroupEngine(Engine):
    """Scans records as columns, and calls the groups of one step as Spark does."""

    def __init__(
        self, topology: Topology, form: Any, record: type[Any], tuning: StateTuning, bound_of: BoundOf
    ) -> None:
        super().__init__(topology, form, record, tuning, bound_of)
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
        classes = known_classes(topology.steps)
        self.level = Level(
            1, True, GROUPS, FINGERPRINT, (keyed,), by_clock=self.by_clock, classes=classes, tuning=tuning
        )
        self.records = dict.fromkeys(GROUPS.labels)
        self.stores = {label: Store() for label in GROUPS.labels}
        self.timers = dict.fromkeys(GROUPS.labels, 0)

    def is_due(self, group: int, times: Times) -> bool:
        if self.by_clock and times.watermark == MAX_TIMESTAMP and self.records[group] is not None:
            # By the clock, groups are told that the stream ends, and ask for the batch behind.
            return True
        timer = self.timers[group]
        return 0 < timer <= (times.now if self.by_clock else encode_timer(times.watermark))

    def scan(self, elements: Sequence[Any], pieces: int, watermark: int) -> dict[int, list[Any]]:
        arrived: dict[int, list[Any]] = {label: [] for label in GROUPS.labels}
        for task, (route, part) in enumerate(self.parts(elements, pieces)):
            targets = [ColumnEdge(0, self.form, route)]
            packer = Packer(GROUPS, Phase.AFTER_WATERMARK)
            packer.start(task, GROUPS.service_labels[0])
            packer.bound_of = partial(self.bound_of, task, watermark)
            rows: list[PackedRow] = []
            for start in range(0, len(part), 40):
                columns = encode_batch(part[start : start + 40], self.record)
                packer.add_columns(targets, columns, None, lambda step, highest: None)
                rows += packer.full()
            for row in [*rows, *packer.flush()]:
                arrived[row.group].append(row)
                self.folded |= row.kind in {RowKind.PARTIALS, RowKind.AGGREGATED}
        return arrived

    def run_group(self, group: int, previous: Times, times: Times, arrived: Sequence[Any]) -> Sequence[Any]:
        batch_times = BatchTimes(BatchTime(*previous), BatchTime(*times))
        data, store = self.records[group], self.stores[group]
        outputs = list(GroupTask(self.level).run_group(group, data, store, batch_times, times.now, [], arrived))
        update = outputs.pop()
        assert isinstance(update, GroupUpdate)
        self.records[group] = update.data
        if update.old_timer or update.new_timer:
            self.timers[group] = update.new_timer
        rows = [row for row in outputs if not isinstance(row, GroupUpdate)]
        return sorted(rows, key=lambda row: row.number)

    def shown(self, outputs: Sequence[Any]) -> Any:
        return [(*row[:-1], repr(load_values(row.payload))) for row in outputs]

    def take(self, outputs: Sequence[Any]) -> None:
        for row in outputs:
            values = load_values(row.payload)
            if row.kind == RowKind.COUNTERS:
                self.counted += Counter({name: count for _, name, count in values if isinstance(name, str)})
            else:
                (self.results if row.target == RESULTS else self.late).extend(values)

    def check(self, group: int) -> None:
        if not isinstance(self.form, RowForm):
            super().check(group)


run = partial(engine.run, engine_of=GroupEngine)
