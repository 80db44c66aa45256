"""Lists the metrics that windrow gives OpenTelemetry; ``docs/monitoring.md`` shows the same list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from windrow_runtime.metrics.reports import StepProgress


class Kind(Enum):
    """What a metric is in OpenTelemetry."""

    COUNTER = "counter"
    UP_DOWN_COUNTER = "up-down counter"
    GAUGE = "gauge"
    OBSERVED_GAUGE = "observed gauge"
    """A gauge that is asked for whenever an exporter collects, also between batches."""

    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Instrument:
    """A metric: its name, kind, unit by UCUM, what it says, and the attributes beside ``pipeline`` and ``engine``."""

    name: str
    kind: Kind
    unit: str
    description: str
    attributes: tuple[str, ...] = ()


def _of_step(name: str, kind: Kind, unit: str, description: str, *attributes: str) -> Instrument:
    return Instrument(f"windrow.step.{name}", kind, unit, description, ("step", *attributes))


RUN_ACTIVE: Final = Instrument(
    "windrow.run.active", Kind.OBSERVED_GAUGE, "{run}", "1 while the pipeline runs, 0 when it has ended or failed"
)
RUN_FAILURES: Final = Instrument(
    "windrow.run.failures", Kind.COUNTER, "{failure}", "Runs that failed, by the class of the error", ("error.type",)
)
BATCH_DURATION: Final = Instrument(
    "windrow.batch.duration", Kind.HISTOGRAM, "s", "How long batches took, from their elements to the sinks"
)
PART_DURATION: Final = Instrument(
    "windrow.batch.part.duration",
    Kind.HISTOGRAM,
    "s",
    "How long the parts of batches took: plan, compute, write, commit",
    ("part",),
)
BATCH_NUMBER: Final = Instrument("windrow.batch.number", Kind.GAUGE, "{batch}", "The number of the newest batch")
BATCH_ENDED: Final = Instrument(
    "windrow.batch.ended", Kind.GAUGE, "s", "When the newest batch ended, in seconds since 1970, by the machine's clock"
)
BACKLOG: Final = Instrument(
    "windrow.source.backlog",
    Kind.OBSERVED_GAUGE,
    "1",
    "What waits in a source behind the newest batch: offsets of topics and elements, or files",
    ("step", "unit"),
)
RECORDS_IN: Final = _of_step(
    "records.in", Kind.COUNTER, "{record}", "Records that the step took, of a source those that it read"
)
RECORDS_OUT: Final = _of_step("records.out", Kind.COUNTER, "{record}", "Elements that the step gave to its main output")
LATE: Final = _of_step("records.late", Kind.COUNTER, "{record}", "Elements that came too late for the step")
MALFORMED: Final = _of_step(
    "records.malformed", Kind.COUNTER, "{record}", "Records that did not fit the type of the source"
)
DROPPED: Final = _of_step(
    "records.dropped", Kind.COUNTER, "{record}", "Elements that the step dropped, by the counter", "reason"
)
USER_COUNTER: Final = _of_step("user.counter", Kind.COUNTER, "1", "Counters of users' functions", "name")
USER_GAUGE: Final = _of_step("user.gauge", Kind.GAUGE, "1", "Gauges of users' functions", "name")
USER_BUCKET: Final = _of_step(
    "user.histogram.bucket",
    Kind.COUNTER,
    "{value}",
    "Values of histograms of users' functions up to the boundary le, as Prometheus counts them",
    "name",
    "le",
)
USER_COUNT: Final = _of_step(
    "user.histogram.count", Kind.COUNTER, "{value}", "Values of histograms of users' functions", "name"
)
USER_SUM: Final = _of_step(
    "user.histogram.sum", Kind.UP_DOWN_COUNTER, "1", "Sums of the values of histograms of users' functions", "name"
)


@dataclass(frozen=True, slots=True)
class StepGauge:
    """A gauge whose value stands in the report on a step; None where it is not known."""

    instrument: Instrument
    value: Callable[[StepProgress], float | None]


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


STEP_GAUGES: Final = (
    StepGauge(
        _of_step("windows.open", Kind.GAUGE, "{window}", "Windows of all keys that have elements or state"),
        lambda step: step.open_windows,
    ),
    StepGauge(
        _of_step("timers", Kind.GAUGE, "{timer}", "Timers of all keys, in event time and in processing time"),
        lambda step: step.timers,
    ),
    StepGauge(
        _of_step("state.size", Kind.GAUGE, "By", "Bytes of the stored state, compressed"), lambda step: step.state_bytes
    ),
    StepGauge(
        _of_step("watermark", Kind.GAUGE, "s", "The watermark of the step, in seconds since 1970"),
        lambda step: _seconds(step.watermark),
    ),
    StepGauge(
        _of_step("watermark.lag", Kind.GAUGE, "s", "How far the watermark was behind at the end of the newest batch"),
        lambda step: _seconds(step.lag_ms),
    ),
    StepGauge(
        _of_step("busiest_group", Kind.GAUGE, "1", "The part of a batch's rows that one key group took"),
        lambda step: step.busiest_group,
    ),
)

ALL: Final = (
    *(RUN_ACTIVE, RUN_FAILURES, BATCH_NUMBER, BATCH_ENDED, BATCH_DURATION, PART_DURATION, BACKLOG),
    *(RECORDS_IN, RECORDS_OUT, LATE, MALFORMED, DROPPED),
    *(gauge.instrument for gauge in STEP_GAUGES),
    *(USER_COUNTER, USER_GAUGE, USER_BUCKET, USER_COUNT, USER_SUM),
)
"""All metrics, in the order of the page."""

BOUNDARIES: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The boundaries of the histograms of times, in seconds."""
