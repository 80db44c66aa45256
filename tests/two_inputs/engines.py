"""What the runner asks of an engine, and which engines there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from tests.conformance.cases import Case
from tests.conformance.elements import Element, Record
from tests.conformance.engines import ClockStep, EngineUnavailableError, RestoreStep
from tests.two_inputs.pipelines import TwoInputs

__all__ = ["ENGINES", "ElementOf", "Engine", "Observed", "Script", "StatusOf", "Step", "Told", "WatermarkOf"]


@dataclass(frozen=True)
class ElementOf:
    """An element of an input comes."""

    side: int
    element: Element
    timestamp: int | None


@dataclass(frozen=True)
class WatermarkOf:
    """The watermark of an input advances."""

    side: int
    timestamp: int


@dataclass(frozen=True)
class StatusOf:
    """An input becomes idle or active."""

    side: int
    is_idle: bool


Step: TypeAlias = ElementOf | WatermarkOf | StatusOf | ClockStep | RestoreStep


@dataclass(frozen=True)
class Script:
    """What an engine is to run.

    Attributes:
        pipeline: The pipeline; it begins with neither watermarks nor processing time.
        steps: What happens, in order.
        may_fail: Whether a step is expected to fail. A hint: an engine that runs scripts together runs this one alone.
    """

    pipeline: TwoInputs
    steps: tuple[Step, ...]
    may_fail: bool = False


@dataclass
class Observed:
    """What a step of a case caused.

    Attributes:
        emits: What the function emitted, with timestamps.
        late: Late elements by their input, with timestamps.
        side: What went to side outputs by their tag, with timestamps.
        dropped: How many elements were dropped as late; None where the engine cannot tell for each step.
        watermark: The watermark that a step downstream saw during the step; None: it saw none.
        overtaken: How many records a step downstream got behind the watermark that they belong before.
        error: Why the step failed; None: it did not.
    """

    emits: list[tuple[Record, int | None]] = field(default_factory=list)
    late: list[tuple[int, Element, int | None]] = field(default_factory=list)
    side: list[tuple[str, str, int | None]] = field(default_factory=list)
    dropped: int | None = None
    watermark: int | None = None
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

    def why_skipped(self, case: Case) -> str | None:
        """Why a case is not run; None: it is."""
        ...

    def run(self, scripts: Sequence[Script]) -> Sequence[Told]:
        """Run scripts, each as if it were alone."""
        ...


@contextmanager
def _local() -> Iterator[Engine]:
    from tests.two_inputs.local_engine import LocalEngine

    yield LocalEngine()


@contextmanager
def _spark() -> Iterator[Engine]:
    try:
        from tests.two_inputs.spark_engine import started_engine
    except ImportError as error:
        raise EngineUnavailableError(f"the Spark engine needs PySpark: {error}") from error
    with started_engine() as engine:
        yield engine


ENGINES: Mapping[str, Callable[[], AbstractContextManager[Engine]]] = {"local": _local, "spark": _spark}
