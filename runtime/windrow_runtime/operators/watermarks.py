"""Tracks the watermark of each timestamp-assigning step, and derives those of the steps downstream."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from windrow.calls.attributes import attributes_of
from windrow.errors import Fault, PlanError, warn
from windrow.plan import Step, TimestampsNode
from windrow.plan.own_parts import lazy_faults
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, timestamp_millis
from windrow.watermarks import BoundedOutOfOrdernessWatermarks, WatermarkStrategy
from windrow_runtime.operators.class_facts import set_attributes
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import USER_ERRORS, errors_at, lifecycle_errors, raise_call_error, shortened
from windrow_runtime.operators.topology import Topology

_FIRST_SECOND: Final = 631_152_000
_LAST_SECOND: Final = 4_102_444_800
"""The year 2100 in epoch seconds; as milliseconds the seconds from 1990 to 2100 are in January and February of 1970."""

_FIRST_MICROSECOND: Final = _FIRST_SECOND * 1_000_000
"""The year 1990 in epoch microseconds; as milliseconds it is after the year 20,000."""


class TimestampObserver(Protocol):
    """Observes the elements of a timestamp-assigning step."""

    now: int  # the clock in milliseconds, which is the timestamp of elements in ingestion time

    # Any: elements of every type pass.
    def observe(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        """Observes elements."""


class TrackerMemory(NamedTuple):
    """The state of a tracker between two elements."""

    watermark: int
    idle: bool
    last_active: int | None  # the clock at the end of the last batch with elements; None: there was none
    attributes: dict[str, Any]  # the attributes of the generator
    active: bool = False  # whether elements came since then
    now: int = MIN_TIMESTAMP
    partitions: Mapping[str, TrackerMemory] = MappingProxyType({})
    released: int = MIN_TIMESTAMP  # the highest watermark of partitions that have ended
    arrived: int | None = None  # the clock at the last arrival, if the watermark follows the clock in silence


class PartitionsRead(NamedTuple):
    """What a batch tells of the partitions of a source."""

    open: Collection[str] = ()  # those that may have more elements
    more_to_come: bool = False  # whether there may be files that no batch has read yet


class Arrivals(NamedTuple):
    """What a batch tells of the elements that have arrived at the sources of a step."""

    asked: int  # the clock in milliseconds when the sources were asked, or an earlier one
    any: bool  # whether one of the sources had something new, be it read or left for a later batch
    partitions: Collection[str] = ()  # the partitions that had something new, if the source has some


@dataclass(slots=True)
class Silence:
    """Tells how long nothing has arrived from a source, or from a partition, and where its watermark is meanwhile.

    Before anything has arrived, silence begins with the first batch.

    Attributes:
        after: How long nothing arrives before the watermark follows the clock, in milliseconds.
        bound: How far it stays behind the clock, in milliseconds.
        arrived: The clock when the sources were asked the last time that they had something new; None: never.
    """

    after: int
    bound: int
    arrived: int | None = None

    @classmethod
    def of(cls, strategy: WatermarkStrategy[Any]) -> Silence | None:
        """Returns the silence that a strategy asks for; None: it asks for none."""
        if strategy.silence is None or strategy.out_of_orderness is None:
            return None
        return cls(strategy.silence, strategy.out_of_orderness)

    def end_batch(self, asked: int, *, has_arrived: bool) -> int | None:
        """Returns the watermark by the clock at the end of a batch; None: the source is not silent."""
        if has_arrived or self.arrived is None:
            self.arrived = asked
        self.arrived = min(self.arrived, asked)  # the clock may be set back
        if not has_arrived and asked - self.arrived >= self.after:
            # An element with the time of the clock would bring the watermark there.
            return max(asked - self.bound - 1, MIN_TIMESTAMP)
        return None

    def reaches(self, watermark: int) -> int | None:
        """Returns the clock at which the watermark comes to one, if nothing arrives; None: no batch has run yet."""
        return None if self.arrived is None else max(self.arrived + self.after, watermark + self.bound + 1)


class WatermarkTracker:
    """Tracks the highest watermark that the generator of one step has emitted.

    The step is idle when it has had no elements for longer than its strategy allows. The engine sets the clock ``now``,
    which is the timestamp of elements in ingestion time.

    If the step is ``partitioned``, each partition of its source has a generator. As in Flink the watermark is the least
    of the partitions that are not idle, one that has had no elements holds it, and it never falls. If all are idle, it
    stays where those held it that were active last. A partition that has ended holds it no longer: without any the
    highest counts. The engine sets ``partition``, the one of the elements that it passes next.

    If the strategy asks for it, the watermark of the step, or of each partition, follows the clock in silence.
    """

    def __init__(self, step: Step, node: TimestampsNode, *, partitioned: bool = False) -> None:
        self.step = step
        self.partition = ""
        self._partitions: dict[str, WatermarkTracker] = {}
        self._released = MIN_TIMESTAMP
        self._new_partition = partial(WatermarkTracker, step, node) if partitioned else None
        self.watermark = MIN_TIMESTAMP
        self.idle = False
        self.now = MIN_TIMESTAMP
        self._idleness = node.strategy.idleness
        self._silence = Silence.of(node.strategy)
        self._generator = node.strategy.create_generator()
        if faults := [Fault(message, step.where, hint) for message, hint in lazy_faults(type(self._generator))]:
            raise PlanError(faults)  # a lambda does not say before which class it makes
        self._last_active: int | None = None
        self._active = False

    # Any: elements of every type pass.
    def observe(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        """Pass elements to the generator."""
        self._active = True
        if self._new_partition is not None:
            self._partition(self.partition).observe(values, timestamps)
            return
        generator = self._generator
        if type(generator) is BoundedOutOfOrdernessWatermarks:
            generator.observe(max(timestamps))
            return
        value: Any = None
        try:
            for value, timestamp in zip(values, timestamps, strict=True):
                generator.on_event(own(value), timestamp, self)
        except USER_ERRORS as error:
            raise_call_error(self.step, error, f"element {shortened(value)}")

    def emit_watermark(self, watermark: int | datetime) -> None:
        """Take a watermark from the generator; it never falls."""
        self.watermark = max(timestamp_millis(watermark, "a watermark"), self.watermark)

    def take_partition(self, name: str, memory: TrackerMemory) -> None:
        """Take the state of a partition's tracker that has seen the partition's elements elsewhere."""
        self._active = True
        self._partition(name).remember(memory._replace(active=True))

    def partitions(self) -> dict[str, int]:
        """Returns the watermarks of the partitions of the source that may have more elements."""
        return {name: each.watermark for name, each in self._partitions.items()}

    def _partition(self, name: str) -> WatermarkTracker:
        if name not in self._partitions:
            assert self._new_partition is not None, "the step is partitioned"
            self._partitions[name] = self._new_partition()
        return self._partitions[name]

    def end_batch(self, now: int, read: PartitionsRead | None = None, arrivals: Arrivals | None = None) -> None:
        """Tell the generator to emit, and decide by the clock ``now`` whether the step is idle.

        ``read`` has what the batch tells of the source's partitions; None: nothing. ``arrivals`` says whether anything
        has arrived at the sources; None: nobody was asked.
        """
        if self._new_partition is not None:
            self._end_partitions(now, read, arrivals)
        else:
            with lifecycle_errors(self.step, "on_periodic_emit", self._generator):
                self._generator.on_periodic_emit(self)
        if self._silence is not None and arrivals is not None:
            by_clock = self._silence.end_batch(arrivals.asked, has_arrived=arrivals.any or self._active)
            if by_clock is not None and not self._partitions:
                self.emit_watermark(by_clock)
        if self._active or self._last_active is None:
            self._last_active = now
            self.idle = False
        elif self._idleness is not None and now - self._last_active >= self._idleness:
            self.idle = True
        self._active = False
        if self._partitions:
            self.idle = all(each.idle for each in self._partitions.values())

    def reaches(self, watermark: int) -> int | None:
        """Returns the clock at which the step does not hold a watermark back any more, if no element comes.

        None: only elements bring it there.
        """
        if self._partitions:
            every = self._partitions.values()
            holding = [each for each in every if not each.idle] or self._active_last()
            # If none has a watermark yet, the first to have one counts.
            return lowest_reaches(holding, watermark) if holding else highest_reaches(every, watermark)
        times = [None if self._silence is None else self._silence.reaches(watermark)]
        if self._idleness is not None and self._last_active is not None and not self.idle:
            times.append(self._last_active + self._idleness)
        return min((time for time in times if time is not None), default=None)

    def _end_partitions(self, now: int, read: PartitionsRead | None, arrivals: Arrivals | None) -> None:
        more_to_come = read is not None and read.more_to_come
        if read is not None:
            for name in read.open:
                self._partition(name)
        for name, each in self._partitions.items():
            each.end_batch(now, None, arrivals and Arrivals(arrivals.asked, name in arrivals.partitions))
        if read is not None and not more_to_come:
            self._release(self._partitions.keys() - set(read.open))
        holding = [each for each in self._partitions.values() if not each.idle] or self._active_last()
        if holding:
            self.emit_watermark(min(each.watermark for each in holding))
        elif not self._partitions and not more_to_come:
            self.emit_watermark(self._released)
        if more_to_come:  # files are read once
            self._release(set(self._partitions))

    def _active_last(self) -> list[WatermarkTracker]:
        """Returns the trackers of the partitions that were the last to become idle, if the clock had not stood still.

        Between two batches several become idle at once. One that has had no elements did so before those that had.
        """
        known = {
            each: each._last_active
            for each in self._partitions.values()
            if each.watermark > MIN_TIMESTAMP and each._last_active is not None
        }
        return [each for each, active in known.items() if active == max(known.values())]

    def _release(self, names: Collection[str]) -> None:
        self._released = max(self._released, *(self._partitions.pop(name).watermark for name in names), MIN_TIMESTAMP)

    def memory(self) -> TrackerMemory:
        """Returns the state of the tracker, which shares the values of attributes with the generator."""
        attributes = attributes_of(self._generator)
        partitions = {name: each.memory() for name, each in self._partitions.items()}
        return TrackerMemory(
            self.watermark,
            self.idle,
            self._last_active,
            attributes,
            self._active,
            self.now,
            partitions,
            self._released,
            None if self._silence is None else self._silence.arrived,
        )

    def remember(self, memory: TrackerMemory) -> None:
        """Restore the state that :meth:`memory` returned."""
        self.watermark, self.idle = memory.watermark, memory.idle
        self._last_active, self._active = memory.last_active, memory.active
        self.now, self._released = memory.now, memory.released
        if self._silence is not None:
            self._silence.arrived = memory.arrived
        set_attributes(self._generator, memory.attributes)
        for name, each in memory.partitions.items():
            self._partition(name).remember(each)


def lowest_reaches(trackers: Iterable[WatermarkTracker], watermark: int) -> int | None:
    """Returns the clock at which no tracker holds a watermark back any more, if no element comes; None: never."""
    clocks = [each.reaches(watermark) for each in trackers if each.watermark < watermark]
    return None if None in clocks else max((clock for clock in clocks if clock is not None), default=None)


def highest_reaches(trackers: Iterable[WatermarkTracker], watermark: int) -> int | None:
    """Returns the clock at which the first tracker comes to a watermark, if no element comes; None: none does."""
    clocks = [each.reaches(watermark) for each in trackers]
    return min((clock for clock in clocks if clock is not None), default=None)


def clock_millis(clock: Callable[[], int]) -> int:
    """Returns the time of a runner's clock, in milliseconds."""
    with errors_at("the clock that the runner was given"):
        return timestamp_millis(clock())


class InputWatermark(Protocol):
    """The watermark of an input, and whether the input is idle."""

    @property
    def watermark(self) -> int:
        """The watermark, in milliseconds."""
        ...

    @property
    def idle(self) -> bool:
        """Whether the input is idle, so that it does not hold back the watermark."""
        ...


def watermarks_of(
    topology: Topology,
    inputs: Mapping[str, InputWatermark],
    before: Mapping[str, int],
    ended: Collection[str] = (),
    exhausted: Collection[str] = (),
) -> dict[str, int]:
    """Returns the watermark of each keyed step, process function, sink and union, by id.

    Args:
        topology: The steps.
        inputs: The watermarks of timestamp-assigning steps, or of sources, on which the others depend.
        before: The watermarks so far, by id; they never fall.
        ended: The ids of sources that have ended. As in Flink they are at the end of time, and hold no step back.
        exhausted: The ids of the sources that were read to their end and may have more in a later run. Their steps keep
            their watermarks, so that elements of a later run are not late if this one fails. Steps with other inputs do
            not wait for them, unless there are keyed steps in between, whose windows have yet to fire.

    When all sources are in one of the two, the stream is over: the run decides whether time ends then, and each source
    counts with its own watermark again.
    """
    watermarks: dict[str, _Watermark | None] = {}
    waited_for = _WaitedFor.of(topology, ended, exhausted)

    def reaching(step: Step) -> _Watermark | None:
        if step.id not in watermarks:
            own = inputs.get(step.id)
            if step.id in waited_for.over:
                watermarks[step.id] = _Watermark(MAX_TIMESTAMP, idle=False)
            elif own is not None:
                watermarks[step.id] = _Watermark(own.watermark, own.idle)
            else:
                inputs_of_step = map(topology.step, waited_for.inputs(step))
                upstream = [each for each in map(reaching, inputs_of_step) if each is not None]
                watermarks[step.id] = _derived(step, upstream, before.get(step.id, MIN_TIMESTAMP)) if upstream else None
        return watermarks[step.id]

    steps = [step for step in topology.steps if step.node.is_keyed or step.node.has_watermark]
    return {step.id: MIN_TIMESTAMP if (watermark := reaching(step)) is None else watermark.watermark for step in steps}


class _WaitedFor(NamedTuple):
    """Tells for which inputs a step waits, once sources have ended; see :func:`watermarks_of`."""

    over: set[str]  # the steps that are at the end of time
    exhausted: set[str]  # those for which steps with other inputs do not wait

    @classmethod
    def of(cls, topology: Topology, ended: Collection[str], exhausted: Collection[str]) -> _WaitedFor:
        if len({*ended, *exhausted}) == len(topology.sources):
            return cls(set(), set())
        return cls(topology.fed_only_by(ended), topology.fed_only_by({*ended, *exhausted}, through_keyed=False))

    def inputs(self, step: Step) -> list[str]:
        waiting = [source for source in step.inputs if source not in self.over]
        return [source for source in waiting if source not in self.exhausted] or waiting


def trackers_before(
    topology: Topology, ended: Collection[str] = (), exhausted: Collection[str] = ()
) -> dict[str, list[str]]:
    """Returns the timestamp-assigning steps on which the watermark of each step depends, by id.

    The arguments are those of :func:`watermarks_of`: a step depends on no input for which it does not wait.
    """
    waited_for = _WaitedFor.of(topology, ended, exhausted)
    before: dict[str, list[str]] = {}
    for step in topology.steps:
        if step.id in waited_for.over:
            before[step.id] = []
        elif step.node.makes_watermarks is not None:
            before[step.id] = [step.id]
        else:
            ways = [before[source] for source in waited_for.inputs(step)]
            before[step.id] = [*dict.fromkeys(chain.from_iterable(ways))]
    return before


class _Watermark(NamedTuple):
    watermark: int
    idle: bool


def _derived(step: Step, upstream: Sequence[_Watermark], last: int) -> _Watermark:
    """Returns the watermark of a step from those of its inputs and its own so far."""
    watermark = combined_watermark(upstream, last if step.node.waits_for_returning else MIN_TIMESTAMP)
    return _Watermark(max(watermark, last), all(each.idle for each in upstream))


def combined_watermark(inputs: Iterable[InputWatermark], last: int = MIN_TIMESTAMP) -> int:
    """Returns the watermark of a step: the lowest of its inputs that are not idle.

    When all are idle the highest of them counts, as in Flink: none holds the others back. An input that was idle and
    returns behind ``last``, the watermark so far, does not count until it has caught up.
    """
    watermarks = list(inputs)
    active = [each.watermark for each in watermarks if not each.idle]
    if not active:
        return max((each.watermark for each in watermarks), default=MIN_TIMESTAMP)
    return min((watermark for watermark in active if watermark >= last), default=last)


_IN_SECONDS: Final = ("seconds", "in early 1970", "* 1000")
_IN_MICROSECONDS: Final = ("microseconds", "far in the future", "// 1000")
_IN_NANOSECONDS: Final = ("nanoseconds", "far in the future", "// 1_000_000")


class TimestampScale:
    """Warns once of each step whose timestamps, by the watermarks of a run, are not in milliseconds."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._warned: set[str] = set()

    def check(self, watermarks: Mapping[str, int | None]) -> None:
        """Warn of the timestamp-assigning steps upstream of keyed steps whose watermarks are in another unit.

        Args:
            watermarks: The watermark of each keyed step by its id, in milliseconds; None: it has none.
        """
        for keyed in self._topology.keyed:
            watermark = watermarks.get(keyed.id)
            if watermark is None:
                continue
            are_seconds = _FIRST_SECOND <= watermark <= _LAST_SECOND
            if not are_seconds and not _FIRST_MICROSECOND <= watermark < MAX_TIMESTAMP:
                continue
            for identifier in self._topology.timestamp_steps[keyed.id]:
                if identifier in self._warned:
                    continue
                self._warned.add(identifier)
                step = self._topology.step(identifier)
                are_nanos = watermark >= _FIRST_MICROSECOND * 1_000
                unit, when, cure = _IN_SECONDS if are_seconds else _IN_NANOSECONDS if are_nanos else _IN_MICROSECONDS
                warn(
                    f"timestamps look like {unit} since 1970, and are taken for milliseconds",
                    given=f"a watermark of {watermark}, which is {when}",
                    where=step.where,
                    hint=f"timestamp=lambda element: element.at {cure}, or a datetime",
                    location=step.node.location,
                )
