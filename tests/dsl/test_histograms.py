"""What histograms count, and what they and gauges refuse."""

from __future__ import annotations

import math
import random

import pytest

from windrow.errors import InvalidArgumentError
from windrow.functions import Distribution
from windrow.functions.distribution import USUAL_BOUNDARIES
from windrow_runtime.metrics.step_metrics import GaugeValue, Metrics, StepMetrics


def of(values: list[float], boundaries: tuple[float, ...] = (1.0, 2.0, 4.0)) -> Distribution:
    distribution = Distribution(boundaries)
    for value in values:
        distribution.record(value)
    return distribution


def test_a_value_lies_in_the_bucket_whose_boundary_it_does_not_exceed() -> None:
    distribution = of([0.5, 1.0, 1.5, 4.0, 9.0])
    assert (distribution.counts, distribution.total) == ([2, 1, 1, 1], 16.0)
    assert (distribution.count, distribution.mean) == (5, 3.2)
    assert (distribution.lowest, distribution.highest) == (0.5, 9.0)


def test_quantiles_are_as_close_as_the_buckets_are_narrow() -> None:
    numbers = random.Random(5)
    values = [numbers.uniform(3, 90) for _ in range(1000)]
    distribution, ordered = of(values, tuple(map(float, range(10, 100, 10)))), sorted(values)
    for part in (0.01, 0.25, 0.5, 0.9, 0.99):
        assert abs(distribution.quantile(part) - ordered[int(part * 1000)]) < 2.5
    assert (distribution.quantile(0), distribution.quantile(1)) == (ordered[0], ordered[-1])
    assert math.isnan(of([]).quantile(0.5))
    assert math.isnan(of([]).mean)
    assert of([-7.0], (1.0,)).quantile(0.5) == -7.0


def test_distributions_of_workers_are_those_of_one() -> None:
    numbers = random.Random(7)
    values = [numbers.uniform(-1, 6) for _ in range(100)]
    merged = of(values[:30]).merged(of(values[30:]))
    whole = of(values)
    assert merged.counts == whole.counts
    assert merged.total == pytest.approx(whole.total)
    assert (merged.lowest, merged.highest) == (whole.lowest, whole.highest)


@pytest.mark.parametrize("value", [math.nan, math.inf, "7", True, None])
def test_only_finite_numbers_are_taken(value: float) -> None:
    metrics = Metrics()
    with pytest.raises(InvalidArgumentError, match=r"^gauge 'size' takes finite numbers"):
        metrics.gauge("size").set(value)
    with pytest.raises(InvalidArgumentError, match=r"^histogram 'seconds' takes finite numbers"):
        metrics.histogram("seconds").record(value)
    assert metrics.drain() == []


@pytest.mark.parametrize("boundaries", [[], [1, 1], [2, 1], [math.nan]])
def test_boundaries_rise(boundaries: list[float]) -> None:
    with pytest.raises(InvalidArgumentError, match="boundaries of histogram 'seconds'"):
        Metrics().histogram("seconds", boundaries)


def test_a_name_has_one_list_of_boundaries() -> None:
    metrics = Metrics()
    metrics.histogram("seconds").record(3)
    with pytest.raises(InvalidArgumentError, match="has other boundaries"):
        metrics.histogram("seconds", [1, 2])
    metrics.histogram("seconds", USUAL_BOUNDARIES).record(4)
    assert metrics.histograms["seconds"].count == 2


def test_workers_hand_on_what_they_counted_once() -> None:
    metrics = Metrics()
    metrics.counter("seen").inc(2)
    metrics.gauge("size").set(3)
    metrics.gauge("size").set(1)
    metrics.histogram("seconds", [1]).record(0.5)
    assert metrics.drain() == [("seen", 2), ("size", GaugeValue(3.0)), ("seconds", of([0.5], (1.0,)))]
    assert metrics.drain() == []
    metrics.gauge("size").set(1)
    assert metrics.drain() == [("size", GaugeValue(1.0))]


def test_a_batch_has_the_highest_gauge_of_its_workers_and_a_run_the_newest() -> None:
    first = StepMetrics.of_workers([("a", "size", GaugeValue(2)), ("a", "size", GaugeValue(5)), ("a", "n", 1)])
    second = StepMetrics.of_workers([("a", "size", GaugeValue(4)), ("a", "n", 2), ("b", "n", 3)])
    run = first.followed_by(second)
    assert run.gauges == {"a": {"size": 4.0}}
    assert run.counters == {"a": {"n": 3}, "b": {"n": 3}}
    assert first.counters == {"a": {"n": 1}}


def test_other_boundaries_after_a_restart_begin_anew() -> None:
    assert of([1.0], (5.0,)).merged(of([2.0], (1.0,))) == of([2.0], (1.0,))
