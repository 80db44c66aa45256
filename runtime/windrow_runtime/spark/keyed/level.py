"""Descriptions of the keyed steps of a query, which Spark ships to the workers that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.spark.clock.keeper import ClockFiles, Report
from windrow_runtime.spark.exchange.packer import Routed
from windrow_runtime.spark.key_groups import KeyGroups
from windrow_runtime.spark.run.facts import Count
from windrow_runtime.storage.tuning import MEASURED, StateTuning

if TYPE_CHECKING:
    from windrow_runtime.codecs.value_type import RecordType
    from windrow_runtime.columnar.forms.columnar_form import ColumnarForm
    from windrow_runtime.columnar.forms.row_form import RowForm
    from windrow_runtime.spark.sinks.parts import WorkerSinks

# Any: elements, keys and states are of the user's types.


class Fragment(Protocol):
    """Runs stateless steps, one behind the other; :mod:`windrow_runtime.spark.exchange.fragment` has the real one."""

    def run(self, values: Sequence[Any], timestamps: Sequence[int | None]) -> Iterable[Routed]: ...

    def take_counts(self) -> list[Count]: ...

    def take_reports(self) -> list[Report]: ...

    def close(self) -> None: ...


class SourceFragment(Fragment, Protocol):
    """A fragment that begins at a source and assigns timestamps."""

    @property
    def watermark(self) -> int: ...

    @property
    def is_idle(self) -> bool: ...

    def observe(self, step: str, highest: int) -> None: ...

    def end_batch(self) -> None: ...


@dataclass(frozen=True, slots=True)
class KeyedStep:
    """The description of one keyed step for the level that runs it."""

    number: int  # names the step in packed rows
    step_id: str  # names it in errors and counters
    state_id: str  # names it in stored state, also when steps come and go around it
    create: Callable[[], KeyedOperator]  # makes its operator, once in each task
    output: Fragment | None  # runs the steps behind it; None: there are none
    side_outputs: Mapping[str, Fragment] = field(default_factory=dict)  # the same for each side output that is used
    has_watermark: bool = True  # whether a timestamp-assigning step is in front of it
    name: str | None = None
    where: str | None = None  # the step and its line in the user's program, in errors
    form: ColumnarForm | None = None  # how it runs on columns; None: it runs on Python objects
    arrival: RowForm | None = None  # how elements in columns become objects; None: they come as objects
    # The sinks that take its results as columns, with the types of their rows; none if something else reads it, too.
    direct_sinks: tuple[tuple[int, RecordType], ...] = ()
    direct_ids: tuple[str, ...] = ()  # the ids of these sinks

    def close(self) -> None:
        """Closes the user's functions behind the step."""
        for fragment in self._fragments():
            fragment.close()

    def take_reports(self) -> list[tuple[Any, ...]]:
        """Returns the reports of timestamp-assigning steps behind the step since the last call."""
        return [tuple(report) for fragment in self._fragments() for report in fragment.take_reports()]

    def take_counts(self) -> list[Count]:
        """Returns the counts behind the step since the last call."""
        return [count for fragment in self._fragments() for count in fragment.take_counts()]

    def _fragments(self) -> Iterator[Fragment]:
        yield from self.side_outputs.values() if self.output is None else (self.output, *self.side_outputs.values())


@dataclass(frozen=True, slots=True)
class Level:
    """All keyed steps that get their elements by one exchange (shuffle)."""

    number: int  # 0 for the first level behind the sources
    last: bool
    groups: KeyGroups
    fingerprint: bytes  # of the plan; stored with the state
    steps: tuple[KeyedStep, ...]
    by_clock: bool = False  # whether Spark runs batches for the clock, and its timers are in processing time
    classes: tuple[UserClass, ...] = ()  # the user's classes that may occur in elements
    allow_pickled: bool = False  # whether the state may hold values of classes that the plan does not name
    clock: ClockFiles | None = None  # has the time of each batch, if windrow keeps it; otherwise Spark does
    sinks: WorkerSinks | None = None  # the sinks that the level writes itself, if it is the last one
    tuning: StateTuning = MEASURED
