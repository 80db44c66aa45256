"""Describes keyed steps for workers, and defines the runners that run one step in a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from windrow_runtime.codecs.records import UserClass
from windrow_runtime.metrics.step_metrics import Metrics
from windrow_runtime.operators.class_facts import CONSTANT_TYPES
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import field_errors
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.origins import Origin
from windrow_spark.clock import BatchTime, BatchTimes, ClockFiles, SeenTimestamps
from windrow_spark.exchange.facts import LATE, RECORDS_OUT, Count, facts_of
from windrow_spark.exchange.packer import Packer, Routed
from windrow_spark.exchange.rows import Arrived, PackedRow
from windrow_spark.key_groups import KeyGroups
from windrow_spark.storage.group_record import PageStore, StepRecord
from windrow_spark.storage.tuning import MEASURED, StateTuning

if TYPE_CHECKING:
    from windrow_runtime.codecs.value_type import RecordType
    from windrow_spark.columnar.forms.result_type import OnColumns
    from windrow_spark.columnar.forms.row_form import RowForm
    from windrow_spark.physical.plan import SinkEdge, StepEdge
    from windrow_spark.sinks.parts import WorkerSinks

# Any: elements, keys and states are of the user's types; pyarrow and numpy are not imported here.


class RunsFragment(Protocol):
    """Runs stateless steps, one after the other; :mod:`windrow_spark.exchange.fragment` has the real one."""

    precedes_watermark: bool  # whether timers emitted the elements, which come under the watermark of the batch before

    def run(self, values: Sequence[Any], timestamps: Sequence[int | None]) -> Iterable[Routed]: ...

    @property
    def is_idle(self) -> bool: ...

    def observe(self, step: str, highest: int) -> None: ...

    def take_counts(self) -> list[Count]: ...

    def take_timestamps(self) -> list[SeenTimestamps]: ...

    def close(self) -> None: ...


class SourceFragment(RunsFragment, Protocol):
    """A fragment that begins at a source and assigns timestamps."""

    def run(
        self, values: Sequence[Any], timestamps: Sequence[int | None], origin: Origin | None = None
    ) -> Iterable[Routed]: ...

    @property
    def watermark(self) -> int: ...

    def end_batch(self) -> None: ...

    def begin_partition(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class KeyedStep:
    """The description of one keyed step for the level that runs it."""

    number: int  # names the step in packed rows
    step_id: str  # names it in errors and counters
    state_id: str  # names it in stored state, also when steps come and go around it
    create: Callable[[], KeyedOperator]  # makes its operator, once in each task
    output: RunsFragment | None  # runs the steps downstream; None: there are none
    side_outputs: Mapping[str, RunsFragment] = field(default_factory=dict)  # the same for each side output that is used
    has_watermark: bool = True  # whether a timestamp-assigning step is upstream
    name: str | None = None
    where: str | None = None  # the step and its line in the user's program, in errors
    form: OnColumns | None = None  # how it runs on columns; None: it runs on Python objects
    arrival: RowForm | None = None  # how elements in columns become objects; None: they come as objects
    # The keyed steps that take its results as columns, and the type of these; None: they are for the fragment alone.
    targets: tuple[StepEdge, ...] = ()
    results: RecordType | None = None
    # The sinks that take its results as columns; none if something else that takes no columns reads it, too.
    direct_sinks: tuple[SinkEdge, ...] = ()
    # The same for each side output that sinks alone read.
    side_sinks: Mapping[str, tuple[SinkEdge, ...]] = field(default_factory=dict)

    def send(self, columns: Any, stamps: Any, packer: Packer) -> None:
        """Sends results as columns, with their timestamps, to the keyed steps that take them so."""
        assert self.output is not None, "somebody reads them"
        packer.add_columns(self.targets, columns, stamps, self.output.observe)

    def close(self) -> None:
        """Closes the user's functions downstream of the step."""
        for fragment in self._fragments():
            fragment.close()

    def take_timestamps(self) -> list[tuple[Any, ...]]:
        """Returns what timestamp-assigning steps downstream have seen since the last call."""
        return [tuple(seen) for fragment in self._fragments() for seen in fragment.take_timestamps()]

    def take_counts(self) -> list[Count]:
        """Returns the counts of functions downstream of the step since the last call."""
        return [count for fragment in self._fragments() for count in fragment.take_counts()]

    def _fragments(self) -> Iterator[RunsFragment]:
        if self.output is not None:
            yield self.output
        yield from self.side_outputs.values()


@dataclass(frozen=True, slots=True)
class Level:
    """All keyed steps that get their elements by one exchange (shuffle)."""

    number: int  # 1 for the level next to the sources
    last: bool
    groups: KeyGroups
    fingerprint: bytes  # of the plan; stored with the state
    steps: tuple[KeyedStep, ...]
    by_clock: bool = False  # whether Spark runs batches for the clock, and its timers are in processing time
    classes: tuple[UserClass, ...] = ()  # the user's classes that may occur in elements
    allow_pickled: bool = False  # whether the state may hold values of classes that the plan does not name
    clock: ClockFiles | None = None  # has the time of each batch, if windrow keeps it; otherwise Spark does
    sinks: WorkerSinks | None = None  # the sinks that the level writes itself
    tells_timers: bool = False  # whether the driver needs to know when the next event timers are due
    tuning: StateTuning = MEASURED


# Any in this module: elements are of the user's types.


class Collector:
    """Keeps copies of the elements that one step emits until they are run through the fragments downstream."""

    def __init__(self, step: KeyedStep) -> None:
        self._step = step
        self._values: list[Any] = []
        self._timestamps: list[int | None] = []
        self._sides: dict[str, tuple[list[Any], list[int | None]]] = {tag: ([], []) for tag in step.side_outputs}
        self.emitted = 0

    def collect(self, value: Any, timestamp: int | None) -> None:
        self._values.append(value if type(value) in CONSTANT_TYPES else own(value))
        self._timestamps.append(timestamp)

    def side_output(self, tag: str, value: Any, timestamp: int | None) -> None:
        # A side output that nobody reads is dropped, as in Flink.
        side = self._sides.get(tag)
        if side is not None:
            side[0].append(own(value))
            side[1].append(timestamp)

    def drain(self, packer: Packer, *, have_columns: bool = False) -> None:
        """Runs the emitted elements through the fragments, and hands the results to ``packer``.

        Steps that take columns get these, unless they had them already.
        """
        if self._values:
            self.emitted += len(self._values)
            if self._step.targets and not have_columns:
                self._send_columns(packer)
            if self._step.output is not None:
                _run(self._step.output, self._values, self._timestamps, packer)
            # The lists are replaced, not cleared: a fragment without steps passes on the very lists that it was given.
            self._values, self._timestamps = [], []
        for tag, (values, timestamps) in self._sides.items():
            if values:
                _run(self._step.side_outputs[tag], values, timestamps, packer)
                self._sides[tag] = ([], [])

    def _send_columns(self, packer: Packer) -> None:
        """Sends the emitted elements to steps that take columns. The fragments, which may change them, come later."""
        # A plan without columns does not import Arrow.
        import numpy as np

        from windrow_runtime.codecs.arrow.encoding import encode_batch

        assert self._step.results is not None, "columns have a type"
        stamps = np.array(self._timestamps, np.int64)
        with field_errors(self._step.where):
            columns = encode_batch(self._values, self._step.results)
        self._step.send(columns, stamps, packer)


def _run(fragment: RunsFragment, values: list[Any], timestamps: list[int | None], packer: Packer) -> None:
    fragment.precedes_watermark = packer.precedes_watermark
    for target, out_values, out_timestamps in fragment.run(values, timestamps):
        packer.add(target, out_values, out_timestamps)


class GroupBatch(NamedTuple):
    """The rows and times that one step gets for one key group in one batch."""

    record: StepRecord
    key_group: int
    store: PageStore
    times: tuple[BatchTime, BatchTime]  # of the batch before and of this one
    arrived: tuple[Sequence[Arrived], Sequence[Arrived]]  # before and after the watermark
    packers: tuple[Packer, Packer]  # the same for what it emits


class StepRunner:
    """Runs one step in one task, on one key group at a time."""

    def __init__(self, step: KeyedStep) -> None:
        self.step = step
        self.facts: Counter[int] = Counter()
        self._metrics = Metrics()
        self._collector = Collector(step)

    def close(self) -> None:
        """Closes the user's functions."""
        self.step.close()

    def times(self, times: BatchTimes) -> tuple[BatchTime, BatchTime]:
        """Returns the time of the previous batch and of this one, for the step."""
        return times.of(self.step.step_id, has_watermark=self.step.has_watermark)

    def take_counts(self) -> list[Count]:
        """Returns the counts of the step and of the functions downstream since the last call, with its facts."""
        metrics, facts = self._metrics, self.facts
        facts[RECORDS_OUT] += self._collector.emitted
        facts[LATE] += metrics.late
        self._collector.emitted = metrics.late = 0
        counts: list[Count] = [(self.step.step_id, name, count) for name, count in metrics.drain()]
        return [*counts, *facts_of(self.step.step_id, facts), *self.step.take_counts()]

    def _drain(self, packer: Packer) -> Iterator[PackedRow]:
        """Runs the emitted elements through the fragments downstream; yields the rows that are full then."""
        self._collector.drain(packer)
        yield from packer.full()
