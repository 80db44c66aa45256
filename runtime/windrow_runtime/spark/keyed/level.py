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
    """The description of one keyed step for the level that runs it.

    Attributes:
        number: Names the step in packed rows.
        step_id: Names the step in errors and counters.
        state_id: Names it in stored state, where it keeps its name when steps come and go around it.
        create: Makes its operator, once in each task.
        output: Where its elements go; None: nowhere.
        side_outputs: The same for each side output that is used.
        by_clock: Whether timers in processing time are served.
        has_watermark: Whether a timestamp-assigning step is in front of it.
        name: What the user called the step, if anything.
        where: The step and its line in the user's program, in errors.
        form: How it runs on columns; None if it runs on Python objects.
        arrival: How elements in columns become objects; None: they come as objects.
        direct_sinks: The sinks that take its results as columns, with the types of their rows; none if something else
            reads it, too.
        direct_ids: The ids of these sinks.
    """

    number: int
    step_id: str
    state_id: str
    create: Callable[[], KeyedOperator]
    output: Fragment | None
    side_outputs: Mapping[str, Fragment] = field(default_factory=dict)
    by_clock: bool = False
    has_watermark: bool = True
    name: str | None = None
    where: str | None = None
    form: ColumnarForm | None = None
    arrival: RowForm | None = None
    direct_sinks: tuple[tuple[int, RecordType], ...] = ()
    direct_ids: tuple[str, ...] = ()

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
    """All keyed steps that get their elements by one exchange (shuffle).

    Attributes:
        number: 0 for the first level behind the sources.
        last: Whether no other level follows.
        groups: The key groups of the query.
        fingerprint: Of the plan; stored with the state.
        hash_key: Hashes keys alike in every process.
        steps: The keyed steps.
        by_clock: Whether Spark runs batches for the clock, and its timers are in processing time.
        classes: The user's classes that may occur in elements, see :mod:`windrow_runtime.spark.exchange.classes`.
        allow_pickled: Whether the state may hold values of classes that the plan does not name.
        clock: Where the time of each batch is kept, if windrow keeps it; otherwise Spark does.
        sinks: The sinks that the level writes itself, if it is the last one.
        tuning: How the state of its steps is laid out.
    """

    number: int
    last: bool
    groups: KeyGroups
    fingerprint: bytes
    hash_key: Callable[[Any], int]
    steps: tuple[KeyedStep, ...]
    by_clock: bool = False
    classes: tuple[UserClass, ...] = ()
    allow_pickled: bool = False
    clock: ClockFiles | None = None
    sinks: WorkerSinks | None = None
    tuning: StateTuning = MEASURED
