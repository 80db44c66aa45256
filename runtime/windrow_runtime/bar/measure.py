"""Defines the measure of how far a bounded run is, and its line of text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from windrow.drawing.svg import shortened

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CELLS: Final = 24
_NAME: Final = 30


@dataclass(frozen=True, slots=True)
class Measure:
    """How far a bounded run is.

    Attributes:
        rows: How many rows the sources have read, malformed ones included, in the batches that are done.
        rows_total: How many they have; None: that is not known.
        batches: How many batches are done.
        batches_total: In how many batches the rows are read; None: that is not known.
        tasks: How many tasks of the batch at hand are done.
        tasks_total: How many tasks it has, as far as the engine has planned it; 0: that is not known.
        watermark: The lowest watermark of the keyed steps, in milliseconds since 1970, UTC; None: there is none.
    """

    rows: int = 0
    rows_total: int | None = None
    batches: int = 0
    batches_total: int | None = None
    tasks: int = 0
    tasks_total: int = 0
    watermark: int | None = None

    @property
    def part(self) -> float | None:
        """Which part of the run is done, from 0 to 1; None: that is not known."""
        of_batch = self.tasks / self.tasks_total if self.tasks_total else 0.0
        if self.batches_total:
            by_batches = (self.batches + of_batch) / self.batches_total
        elif self.rows_total is None:
            return None
        else:
            by_batches = 0.0
        by_rows = self.rows / self.rows_total if self.rows_total else 0.0
        return min(max(by_batches, by_rows), 1.0)

    def texts(self, seconds: float) -> list[str]:
        """Returns texts about a run that has taken some seconds so far, the most important text first."""
        texts = []
        part = self.part
        if part is not None:
            texts.append(f"{int(part * 100)} %")
        if self.rows:
            of = "" if self.rows_total is None else f" of {self.rows_total:,}"
            texts += [f"{self.rows:,}{of} rows", f"{round(self.rows / max(seconds, 0.001)):,} rows/s"]
        if self.batches or self.batches_total or self.tasks_total:
            most = self.batches_total or 0
            of = f" of {most:,}" if self.batches < most else ""
            texts.append(f"batch {self.batches + 1:,}{of}")
        if self.tasks_total:
            texts.append(f"task {min(self.tasks + 1, self.tasks_total):,} of {self.tasks_total:,}")
        if self.watermark is not None:
            texts.append(f"watermark {time_text(self.watermark)}")
        return texts


def time_text(millis: int) -> str:
    """A time in UTC to the second, or in milliseconds where Python's calendar has none."""
    try:
        return f"{_EPOCH + timedelta(milliseconds=millis):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return f"{millis} ms"


def harmless(text: str) -> str:
    """A text without what a terminal would take for a command; its lines stay."""
    return "".join(each if each.isprintable() or each == "\n" else "�" for each in text)


def texts_of(measure: Measure | None, seconds: float) -> list[str]:
    """Returns the texts of the progress bar of a run that has lasted ``seconds``; None: its engine starts."""
    if measure is None:
        return [f"starting for {seconds:.0f} s"]
    return measure.texts(seconds) or [f"running for {seconds:.0f} s"]


def line_of(name: str, measure: Measure | None, seconds: float, width: int) -> str:
    """The line of a bar: the name of the pipeline, a bar if there is a part, and as many texts as the width has."""
    part = None if measure is None else measure.part
    done = 0 if part is None else int(part * _CELLS)
    bar = [] if part is None else ["█" * done + "░" * (_CELLS - done)]
    line = harmless(shortened(name, _NAME))
    for text in bar + texts_of(measure, seconds):
        if len(line) + 2 + len(text) > width:
            break
        line += f"  {text}"
    return shortened(line, width) if len(line) > width else line
