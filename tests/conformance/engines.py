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

__all__ = [
    "ENGINES",
    "STEP",
    "ClockStep",
    "Computed",
    "ElementStep",
    "Engine",
    "EngineUnavailableError",
    "Observed",
    "RestoreStep",
    "Script",
    "ScriptPipeline",
    "StateCounts",
    "StatusStep",
    "Step",
    "Told",
    "WatermarkStep",
]

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
    """What a pipeline makes of its inputs.

    Attributes:
        records: What it emits.
        late: The late elements, by input, where they have a side output.
        sides: The side outputs, by tag.
    """

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
    """What an engine is to run.

    Attributes:
        pipeline: The pipeline; it begins with neither watermarks nor processing time.
        steps: What happens, in order.
        may_fail: Whether a step is expected to fail. A hint: an engine that runs scripts together runs this one alone.
    """

    pipeline: ScriptPipeline
    steps: tuple[Step, ...]
    may_fail: bool = False


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
        late: Late elements by their input, with timestamps.
        dropped: How many elements were dropped as late; None where the engine cannot tell for each step.
        side: What went to side outputs by their tag, with timestamps.
        state: What is kept now; None where the engine cannot tell.
        calls: The calls of the trigger; None where the engine cannot tell.
        watermark: The last watermark that a step downstream saw.
        advanced: Whether that watermark came in this step.
        overtaken: How many records a step downstream got behind the watermark that they belong before.
        error: Why the step failed; None: it did not.
    """

    emits: list[tuple[Record, int | None]] = field(default_factory=list)
    late: list[tuple[int, Element, int | None]] = field(default_factory=list)
    dropped: int | None = None
    side: list[tuple[str, str, int | None]] = field(default_factory=list)
    state: StateCounts | None = None
    calls: Mapping[str, list[Json]] | None = None
    watermark: int | None = None
    advanced: bool = False
    overtaken: int = 0
    error: Exception | None = None


@dataclass
class Told:
    """What an engine tells of a script.

    Attributes:
        steps: What each step caused, up to the first one that failed.
        dropped: How many elements were dropped as late in all; None where each step tells its own.
        unbuilt: Why the pipeline could not be built; None: it could.
    """

    steps: list[Observed] = field(default_factory=list)
    dropped: int | None = None
    unbuilt: Exception | None = None


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
