"""Defines the report that an engine makes on each batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, NamedTuple

from windrow.drawing.html import table
from windrow.drawing.svg import text
from windrow.time import lag_text
from windrow.triggers.call_text import call_text


class Backlog(NamedTuple):
    """Says what waits in a source behind the newest batch.

    Attributes:
        waiting: How much it is.
        unit: In what it is counted: ``"offsets"``, which of a topic are records and the marks of transactions, or
            ``"files"``.
    """

    waiting: int
    unit: str


@dataclass(frozen=True, slots=True)
class StepProgress:
    """The work of one batch in one step, and the step's state after it. Times are in milliseconds since 1970, UTC.

    Attributes:
        records_in: How many records the step took in the batch: those that a source read, malformed ones included;
            the elements that reached a keyed step or a sink.
        records_out: How many elements the step gave to its main output in the batch; 0 for a sink.
        late: How many elements of the batch came too late for the step, dropped or sent to a side output.
        malformed: How many records of the batch did not fit the type of the source.
        dropped: How many elements the step dropped in the batch, by the name of the counter, such as
            ``late_records_dropped``. Of a step without keys, which has a report if it drops elements for which a
            function raised, nothing else is counted.
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
        busiest_group: The part of the rows of the batch that one key group took, the highest of all groups, from 0 to
            1. A high one, batch after batch, is the sign of a hot key. Elements that were aggregated before the
            exchange are one row a key and window. None if none came, for steps without keys, and in the interpreter.
    """

    records_in: int = 0
    records_out: int = 0
    late: int = 0
    malformed: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    open_windows: int | None = None
    timers: int | None = None
    state_bytes: int | None = None
    watermark: int | None = None
    lag_ms: int | None = None
    busiest_group: float | None = None

    def __repr__(self) -> str:
        # Most fields of most steps have nothing to tell.
        values = {each.name: (getattr(self, each.name), getattr(_NO_WORK, each.name)) for each in fields(self)}
        texts = {name: str(value) for name, (value, none) in values.items() if value != none}
        return call_text("StepProgress", **texts)


_NO_WORK: Final = StepProgress()


@dataclass(frozen=True, slots=True, repr=False)
class PipelineProgress:
    """A report on one batch of a pipeline.

    Attributes:
        batch: The number of the batch. A batch that is run again after a failure is reported again.
        duration_ms: How long the engine computed the batch and the sinks wrote it, in milliseconds. What Spark does
            before and after that, such as asking the sources and committing the batch, is not in it.
        ended_at: Processing time at the end of the batch, in milliseconds since 1970, UTC: the runner's clock.
        ended: Whether the stream is at its end. Every window and timer in event time fires then, and no watermark is
            reported any more.
        steps: What the batch did in each source, keyed step and sink, by step id, in the order of the plan. Steps
            without state run within these, and have no report of their own.
        parts_ms: How long the parts of the batch took, in milliseconds: ``compute``, in which workers also write their
            files, and ``write``, in which the driver publishes these and writes the other sinks; in the interpreter
            ``plan`` as well, which reads the sources.
    """

    batch: int
    duration_ms: int
    ended_at: int
    ended: bool
    steps: Mapping[str, StepProgress]
    parts_ms: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        count = len(self.steps)
        words = [f"batch {self.batch}", f"{count} {'step' if count == 1 else 'steps'}", *self.watermark_words()]
        words += [f"in {lag_text(self.duration_ms)}", *(["ended"] if self.ended else [])]
        return f"PipelineProgress({', '.join(words)})"

    def _repr_html_(self) -> str:
        """A table of the steps, for notebooks."""
        return f"<p>{text(repr(self))}</p>\n{table(_HEADS, [_cells(*step) for step in self.steps.items()])}"

    def watermark_words(self) -> list[str]:
        """How far the watermarks are behind, at most; nothing where there are none."""
        lags = [step.lag_ms for step in self.steps.values() if step.lag_ms is not None]
        return [f"watermark {lag_text(max(lags))} behind"] if lags else []


_HEADS: Final = (
    *("step", "records in", "records out", "late", "malformed", "dropped"),
    *("windows", "timers", "state", "watermark"),
)


def _cells(name: str, step: StepProgress) -> list[str]:
    """A row of the table of a report; a cell is empty where there is nothing to tell."""
    losses = step.late, step.malformed, sum(step.dropped.values())
    numbers = [step.records_in, step.records_out, *losses, step.open_windows, step.timers]
    size = "" if step.state_bytes is None else f"{step.state_bytes:,} bytes"
    behind = "" if step.lag_ms is None else f"{lag_text(step.lag_ms)} behind"
    return [name, *["" if each is None else f"{each:,}" for each in numbers], size, behind]
