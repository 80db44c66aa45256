"""What the runner asks of an engine, and which engines there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from tests.conformance.cases import Json
from tests.conformance.elements import Element, Record
from tests.conformance.triggers import Calls
from windrow import DataStream

STEP = "step under test"


@dataclass(frozen=True)
class ElementStep:
    """An element comes on an input."""

    element: Element
    timestamp: int | None
    side: int = 1


@dataclass(frozen=True)
class WatermarkStep:
    """The watermark of an input advances."""

    timestamp: int
    side: int = 1


@dataclass(frozen=True)
class StatusStep:
    """An input becomes idle or active."""

    side: int
    is_idle: bool


@dataclass(frozen=True)
class ClockStep:
    """The clock is set."""

    timestamp: int


@dataclass(frozen=True)
class RestoreStep:
    """The pipeline goes on from a snapshot, in a fresh instance."""


Step: TypeAlias = ElementStep | WatermarkStep | StatusStep | ClockStep | RestoreStep


@dataclass(frozen=True)
class Computed:
    """What a pipeline makes of its inputs: records, late elements by input, and side outputs by tag."""

    records: DataStream[Record]
    late: Mapping[int, DataStream[Element]] = field(default_factory=dict)
    sides: Mapping[str, DataStream[str]] = field(default_factory=dict)


class ScriptPipeline(Protocol):
    """The pipeline of a case, before its elements are put in front of it."""

    @property
    def inputs(self) -> int:
        """How many inputs it has: one or two."""
        ...

    @property
    def calls(self) -> Calls | None:
        """The calls of its trigger, where they are noted."""
        ...

    def compute(self, inputs: Sequence[DataStream[Element]], name: str = STEP) -> Computed:
        """What the pipeline makes of its inputs. ``name`` names the step under test."""
        ...


@dataclass(frozen=True)
class Script:
    """A pipeline, which begins with neither watermarks nor processing time, and what happens to it, in order.

    A step is expected to fail where it ``may_fail``: an engine that runs scripts together runs this one alone.
    """

    pipeline: ScriptPipeline
    steps: tuple[Step, ...]
    may_fail: bool = False


@dataclass(frozen=True)
class StateCounts:
    """What a step keeps: pairs of key and window that hold elements, and timers."""

    contents: int
    event_timers: int
    processing_timers: int


@dataclass
class Observed:
    """What a step of a case caused; emitted records, late elements and side outputs have their timestamps."""

    emits: list[tuple[Record, int | None]] = field(default_factory=list)
    late: list[tuple[int, Element, int | None]] = field(default_factory=list)  # by input
    dropped: int | None = None  # how many elements were late; None where the engine cannot tell for each step
    side: list[tuple[str, str, int | None]] = field(default_factory=list)  # by tag
    state: StateCounts | None = None  # None where the engine cannot tell
    calls: Mapping[str, list[Json]] | None = None  # of the trigger; None where the engine cannot tell
    watermark: int | None = None  # the last one that a step downstream saw
    advanced: bool = False  # whether that came in this step
    overtaken: int = 0  # how many records a step downstream got behind the watermark that they belong before
    error: Exception | None = None  # why the step failed


@dataclass
class Told:
    """What an engine tells of a script: what each step caused, up to the first one that failed."""

    steps: list[Observed] = field(default_factory=list)
    dropped: int | None = None  # how many elements were late in all; None where each step tells its own
    unbuilt: Exception | None = None  # why the pipeline could not be built


class Engine(Protocol):
    """Runs scripts."""

    @property
    def tells_calls(self) -> bool:
        """Whether it can tell the calls of triggers."""
        ...

    def run(self, scripts: Sequence[Script]) -> Sequence[Told]:
        """Run scripts, each as if it were alone."""
        ...


class EngineUnavailableError(Exception):
    """The runner cannot use that engine."""


@contextmanager
def _local() -> Iterator[Engine]:
    from tests.conformance.local_engine import LocalEngine

    yield LocalEngine()


@contextmanager
def _spark() -> Iterator[Engine]:
    try:
        from tests.conformance.spark_engine import started_engine
    except ImportError as error:
        raise EngineUnavailableError(f"the Spark engine needs PySpark: {error}") from error
    with started_engine() as engine:
        yield engine


ENGINES: Mapping[str, Callable[[], AbstractContextManager[Engine]]] = {"local": _local, "spark": _spark}
