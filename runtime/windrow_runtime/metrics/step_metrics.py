"""Keeps the counters, gauges and histograms of a step, which users' functions change, and adds up those of workers."""

from __future__ import annotations

from collections import Counter as Totals
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from windrow.errors import InvalidArgumentError
from windrow.functions import Counter, Distribution, Gauge, Histogram
from windrow.functions.distribution import USUAL_BOUNDARIES, checked_boundaries, checked_number

_M = TypeVar("_M")


class GaugeValue(float):
    """The value of a gauge, which is told from the increment of a counter by its class."""


Metric: TypeAlias = "int | GaugeValue | Distribution"
"""The increment of a counter, the value of a gauge, or what a histogram has counted."""

MetricValues: TypeAlias = "tuple[Totals[str], dict[str, float], dict[str, Distribution]]"
"""The counters, gauges and histograms of a step, by name."""


class Metrics:
    """The counters, gauges and histograms of a step, by name, and the number of late elements, dropped or not."""

    def __init__(self) -> None:
        self.late = 0
        self.totals: Totals[str] = Totals()
        self.gauges: dict[str, float] = {}  # those that were set in this batch
        self._gauges_before: dict[str, float] = {}
        self.histograms: dict[str, Distribution] = {}

    @property
    def values(self) -> MetricValues:
        """The counters, gauges and histograms; others may take their place for calls that do not count."""
        return self.totals, self.gauges, self.histograms

    @values.setter
    def values(self, values: MetricValues) -> None:
        self.totals, self.gauges, self.histograms = values

    def count(self, name: str, n: int = 1) -> None:
        """Add ``n`` to a counter."""
        self.totals[name] += n

    def counter(self, name: str) -> Counter:
        """Returns the counter of that name, for users' functions."""
        return _Counter(self, name)

    def gauge(self, name: str) -> Gauge:
        """Returns the gauge of that name, for users' functions."""
        return _Gauge(self, name)

    def histogram(self, name: str, boundaries: Sequence[float] = USUAL_BOUNDARIES) -> Histogram:
        """Returns the histogram of that name, for users' functions."""
        numbers = checked_boundaries(boundaries, name)
        distribution = self.histograms.setdefault(name, Distribution(numbers))
        if distribution.boundaries != numbers:
            raise InvalidArgumentError(
                f"histogram {name!r} of the step has other boundaries",
                given=list(numbers),
                expected=f"{list(distribution.boundaries)}, as at its first use",
                hint="give the other one another name",
            )
        return _Histogram(self, name, numbers)

    def end_batch(self) -> None:
        """Makes the next value of each gauge take the place of its present one."""
        self._gauges_before.update(self.gauges)
        self.gauges.clear()

    @property
    def newest_gauges(self) -> dict[str, float]:
        """The values of gauges after the newest batch that set them."""
        return {**self._gauges_before, **self.gauges}

    def drain(self) -> list[tuple[str, Metric]]:
        """Returns what was counted, set and recorded since the last call, by name, and resets it."""
        metrics: list[tuple[str, Metric]] = [(name, n) for name, n in self.totals.items() if n]
        metrics += ((name, GaugeValue(value)) for name, value in self.gauges.items())
        recorded = {name: each for name, each in self.histograms.items() if each.count}
        metrics += recorded.items()
        self.totals.clear()
        self.gauges.clear()
        self.histograms.update({name: Distribution(each.boundaries) for name, each in recorded.items()})
        return metrics


@dataclass(frozen=True, slots=True)
class _Counter:
    metrics: Metrics
    name: str

    def inc(self, n: int = 1) -> None:
        self.metrics.totals[self.name] += n


@dataclass(frozen=True, slots=True)
class _Gauge:
    metrics: Metrics
    name: str

    def set(self, value: float) -> None:
        number = checked_number(value, f"gauge {self.name!r}")
        gauges = self.metrics.gauges
        gauges[self.name] = max(number, gauges.get(self.name, number))


@dataclass(frozen=True, slots=True)
class _Histogram:
    metrics: Metrics
    name: str
    boundaries: tuple[float, ...]

    def record(self, value: float) -> None:
        number = checked_number(value, f"histogram {self.name!r}")
        histograms = self.metrics.histograms
        if self.name not in histograms:  # calls that do not count have others
            histograms[self.name] = Distribution(self.boundaries)
        histograms[self.name].record(number)


@dataclass(slots=True)
class StepMetrics:
    """The metrics of all steps, by step id and name, over the workers of a batch or over the batches of a run."""

    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    gauges: dict[str, dict[str, float]] = field(default_factory=dict)
    histograms: dict[str, dict[str, Distribution]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.counters or self.gauges or self.histograms)

    @classmethod
    def of_run(cls, steps: Mapping[str, Metrics]) -> StepMetrics:
        """Returns the metrics of a run in one process, where nobody drains those of its steps."""
        metrics = cls()
        for step, each in steps.items():
            counters, gauges = dict(each.totals), each.newest_gauges
            histograms = {
                name: replace(recorded, counts=list(recorded.counts))
                for name, recorded in each.histograms.items()
                if recorded.count
            }
            metrics.counters.update({step: counters} if counters else {})
            metrics.gauges.update({step: gauges} if gauges else {})
            metrics.histograms.update({step: histograms} if histograms else {})
        return metrics

    @classmethod
    def of_workers(cls, metrics: Iterable[tuple[str, str, Metric]]) -> StepMetrics:
        """Returns the metrics of a batch from those of its workers: step id, name, metric."""
        merged = cls()
        for step, name, metric in metrics:
            if isinstance(metric, Distribution):
                of_step = merged.histograms.setdefault(step, {})
                of_step[name] = of_step[name].merged(metric) if name in of_step else metric
            elif isinstance(metric, GaugeValue):
                gauges = merged.gauges.setdefault(step, {})
                gauges[name] = max(float(metric), gauges.get(name, metric))
            else:
                counters = merged.counters.setdefault(step, {})
                counters[name] = counters.get(name, 0) + metric
        return merged

    def followed_by(self, batch: StepMetrics) -> StepMetrics:
        """Returns the metrics of a run after another batch, without a change of these."""
        counters = _copied(self.counters)
        for step, counts in batch.counters.items():
            of_step = counters.setdefault(step, {})
            for name, n in counts.items():
                of_step[name] = of_step.get(name, 0) + n
        gauges = _copied(self.gauges)
        for step, values in batch.gauges.items():
            gauges.setdefault(step, {}).update(values)
        histograms = _copied(self.histograms)
        for step, recorded in batch.histograms.items():
            known = histograms.setdefault(step, {})
            for name, each in recorded.items():
                known[name] = known[name].merged(each) if name in known else each
        return StepMetrics(counters, gauges, histograms)


def _copied(metrics: Mapping[str, Mapping[str, _M]]) -> dict[str, dict[str, _M]]:
    return {step: dict(each) for step, each in metrics.items()}


def is_loss(name: str) -> bool:
    """Returns whether a counter counts elements that a step dropped."""
    return name.endswith("_dropped")
