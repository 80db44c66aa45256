"""What the runner asks of an engine, and which engines there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tests.conformance.cases import Json
from tests.conformance.elements import Element, Record
from tests.conformance.pipeline import Pipeline

__all__ = ["ENGINES", "Engine", "EngineUnavailableError", "Observed", "Run", "StateCounts"]


@dataclass(frozen=True)
class StateCounts:
    """What a step keeps.

    Attributes:
        contents: The number of pairs of key and window that hold elements.
        event_timers: The number of timers in event time.
        processing_timers: The number of timers in processing time.
    """

    contents: int
    event_timers: int
    processing_timers: int


@dataclass
class Observed:
    """What a step of a case caused.

    Attributes:
        emits: What the function emitted, with timestamps.
        late: Late elements, with timestamps.
        dropped: How many elements were dropped as late.
        side: What went to the side output of the function, with timestamps.
        state: What is kept now; None where the engine cannot tell.
        calls: The calls of the trigger; None where the engine cannot tell.
        watermark: The last watermark that a step downstream saw; None where the engine cannot tell.
        overtaken: How many records a step downstream got behind the watermark that they belong before.
    """

    emits: list[tuple[Record, int | None]] = field(default_factory=list)
    late: list[tuple[Element, int | None]] = field(default_factory=list)
    dropped: int = 0
    side: list[tuple[str, int | None]] = field(default_factory=list)
    state: StateCounts | None = None
    calls: Mapping[str, list[Json]] | None = None
    watermark: int | None = None
    overtaken: int = 0


class Run(Protocol):
    """A pipeline that an engine runs, step by step."""

    def element(self, element: Element, timestamp: int | None) -> None:
        """Take one element."""
        ...

    def watermark(self, timestamp: int) -> None:
        """Advance the watermark."""
        ...

    def processing_time(self, timestamp: int) -> None:
        """Set the clock."""
        ...

    def snapshot_restore(self) -> None:
        """Go on from a snapshot, in a fresh instance."""
        ...

    def observe(self) -> Observed:
        """What the steps since the last call caused."""
        ...

    def close(self) -> None:
        """End the run."""
        ...


class Engine(Protocol):
    """Runs the pipelines of cases."""

    def open(self, pipeline: Pipeline) -> Run:
        """Begin to run ``pipeline``, with neither watermark nor processing time."""
        ...


class EngineUnavailableError(Exception):
    """The runner cannot use that engine."""


def _local() -> Engine:
    from tests.conformance.local_engine import LocalEngine

    return LocalEngine()


def _spark() -> Engine:
    raise EngineUnavailableError(
        "the Spark engine is not built into the conformance runner; use --engine local"
    )


ENGINES: Mapping[str, Callable[[], Engine]] = {"local": _local, "spark": _spark}
