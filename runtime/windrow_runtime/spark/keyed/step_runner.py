"""Runs a keyed step in one task: what the runners on objects and on columns share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from windrow_runtime.operators.class_facts import CONSTANT_TYPES
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.operator import Metrics
from windrow_runtime.spark.clock.times import BatchTime, BatchTimes
from windrow_runtime.spark.exchange.packer import Packer
from windrow_runtime.spark.exchange.rows import PackedRow
from windrow_runtime.spark.keyed.level import Fragment, KeyedStep
from windrow_runtime.spark.run.facts import LATE, RECORDS_OUT, Count, facts_of

# Any in this module: elements are of the user's types.


class Collector:
    """Keeps copies of the elements that one step emits until they are run through the fragments behind the step."""

    def __init__(self, step: KeyedStep) -> None:
        self._step = step
        self._values: list[Any] = []
        self._timestamps: list[int | None] = []
        self._sides: dict[str, tuple[list[Any], list[int | None]]] = {tag: ([], []) for tag in step.side_outputs}
        self.emitted = 0

    def collect(self, value: Any, timestamp: int | None) -> None:
        self._values.append(value if type(value) in CONSTANT_TYPES else own(value))
        self._timestamps.append(timestamp)

    def side_output(self, tag: str, value: Any, timestamp: int | None) -> None:
        # A side output that nobody reads is dropped, as in Flink.
        side = self._sides.get(tag)
        if side is not None:
            side[0].append(own(value))
            side[1].append(timestamp)

    def drain(self, packer: Packer) -> None:
        """Runs the emitted elements through the fragments, and hands the results to ``packer``."""
        if self._values:
            self.emitted += len(self._values)
            if self._step.output is not None:
                _run(self._step.output, self._values, self._timestamps, packer)
            # The lists are replaced, not cleared: a fragment without steps passes on the very lists that it was given.
            self._values, self._timestamps = [], []
        for tag, (values, timestamps) in self._sides.items():
            if values:
                _run(self._step.side_outputs[tag], values, timestamps, packer)
                self._sides[tag] = ([], [])


def _run(fragment: Fragment, values: list[Any], timestamps: list[int | None], packer: Packer) -> None:
    for target, out_values, out_timestamps in fragment.run(values, timestamps):
        packer.add(target, out_values, out_timestamps)


class StepRunner:
    """Runs one step in one task, on one key group at a time."""

    def __init__(self, step: KeyedStep) -> None:
        self.step = step
        self.facts: Counter[int] = Counter()
        self._metrics = Metrics()
        self._collector = Collector(step)

    def close(self) -> None:
        """Closes the user's functions."""
        self.step.close()

    def times(self, times: BatchTimes) -> tuple[BatchTime, BatchTime]:
        """Returns the time of the previous batch and of this one, for the step."""
        return times.of(self.step.step_id, has_watermark=self.step.has_watermark)

    def take_counts(self) -> list[Count]:
        """Returns the counts of the step and of the functions behind it since the last call, with its facts."""
        metrics, facts = self._metrics, self.facts
        facts[RECORDS_OUT] += self._collector.emitted
        facts[LATE] += metrics.late
        self._collector.emitted = metrics.late = 0
        counts: list[Count] = [(self.step.step_id, name, count) for name, count in metrics.drain().items() if count]
        return [*counts, *facts_of(self.step.step_id, facts), *self.step.take_counts()]

    def _drain(self, packer: Packer) -> Iterator[PackedRow]:
        """Runs the emitted elements through the fragments behind the step; yields the rows that are full then."""
        self._collector.drain(packer)
        yield from packer.full()
