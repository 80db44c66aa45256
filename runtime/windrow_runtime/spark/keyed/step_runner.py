"""Collects the elements that a keyed step emits, and runs them through the fragments behind the step."""

from __future__ import annotations

from collections import Counter
from typing import Any

from windrow_runtime.operators.class_facts import CONSTANT_TYPES
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.operator import Metrics
from windrow_runtime.spark.exchange.packer import Packer
from windrow_runtime.spark.keyed.level import KeyedStep
from windrow_runtime.spark.run.facts import LATE, RECORDS_OUT, Count, facts_of

# Any in this module: elements are of the user's types.


class Collector:
    """Keeps copies of the elements that one step emits until they are run through the fragments behind the step."""

    def __init__(self, step: KeyedStep) -> None:
        self._step = step
        self._emitted = 0
        self._values: list[Any] = []
        self._timestamps: list[int | None] = []
        self._sides: dict[str, tuple[list[Any], list[int | None]]] = {tag: ([], []) for tag in step.side_outputs}

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
            self._emitted += len(self._values)
            if self._step.output is not None:
                for target, values, timestamps in self._step.output.run(self._values, self._timestamps):
                    packer.add(target, values, timestamps)
            # The lists are replaced, not cleared: a fragment without steps passes on the very lists that it was given.
            self._values, self._timestamps = [], []
        for tag, (side_values, side_timestamps) in self._sides.items():
            if side_values:
                for target, values, timestamps in self._step.side_outputs[tag].run(side_values, side_timestamps):
                    packer.add(target, values, timestamps)
                self._sides[tag] = ([], [])

    def take_emitted(self) -> int:
        """Returns how many elements went to the main output since the last call."""
        emitted, self._emitted = self._emitted, 0
        return emitted


def counts_of(step: KeyedStep, metrics: Metrics, collector: Collector, facts: Counter[int]) -> list[Count]:
    """Returns the counts of a step and of the functions behind it since the last call, with the step's facts."""
    facts[RECORDS_OUT] += collector.take_emitted()
    facts[LATE] += metrics.late
    metrics.late = 0
    counts: list[Count] = [(step.step_id, name, count) for name, count in metrics.drain().items() if count]
    return [*counts, *facts_of(step.step_id, facts), *step.take_counts()]
