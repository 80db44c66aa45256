"""The report of a batch, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepProgress:
    """The work of one batch in one step, and what the step holds after it. Times are in milliseconds since 1970, UTC.

    Attributes:
        records_in: How many records the step took in the batch: those that a source read, malformed ones included;
            the elements that reached a keyed step or a sink.
        records_out: How many elements the step gave to its main output in the batch; 0 for a sink.
        late: How many elements of the batch came too late for the step, dropped or sent to a side output.
        malformed: How many records of the batch did not fit the type of the source.
        open_windows: How many windows of all keys have elements or state stored after the batch. None for a step
            without windows, for tumbling and sliding windows that run on Arrow columns, which do not store each window
            by itself, and after a restart that does not find the sums of the previous run.
        timers: How many timers of all keys are set after the batch, in event time and in processing time. None for a
            step without keys or on Arrow columns, and after such a restart.
        state_bytes: How many bytes the state takes as it is stored, compressed. Long lists keep their older elements
            apart; these are not in it. None for a step without keys, and after such a restart.
        watermark: The watermark that the keyed step has reached, under which the next batch runs. None while there is
            none, at the end of the stream, for other steps, and after such a restart.
        lag_ms: How far the watermark is behind processing time, in milliseconds. None where there is no watermark.
    """

    records_in: int = 0
    records_out: int = 0
    late: int = 0
    malformed: int = 0
    open_windows: int | None = None
    timers: int | None = None
    state_bytes: int | None = None
    watermark: int | None = None
    lag_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PipelineProgress:
    """A report on one batch of a pipeline on Spark.

    Attributes:
        batch: The number of the batch. A batch that is run again after a failure is reported again.
        duration_ms: How long Spark computed the batch and the sinks wrote it, in milliseconds. What Spark does before
            and behind that, such as asking the sources and noting the batch as done, is not in it.
        ended_at: Processing time at the end of the batch, in milliseconds since 1970, UTC: the runner's clock.
        ended: Whether the stream is at its end. Every window and timer in event time fires then, and no watermark is
            reported any more.
        steps: What the batch did in each source, keyed step and sink, by step id. Steps without state run within
            these, and have no report of their own.
    """

    batch: int
    duration_ms: int
    ended_at: int
    ended: bool
    steps: Mapping[str, StepProgress]
