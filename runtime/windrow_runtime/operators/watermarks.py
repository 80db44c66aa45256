"""Tracks the watermark of each timestamp-assigning step while a pipeline runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from windrow.errors import warn
from windrow.plan import ProcessNode, SinkNode, Step, TimestampsNode, UnionNode
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, timestamp_millis
from windrow.watermarks import BoundedOutOfOrdernessWatermarks
from windrow_runtime.operators.class_facts import attributes_of, set_attributes
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import USER_ERRORS, errors_at, lifecycle_errors, raise_call_error, shortened
from windrow_runtime.operators.topology import Topology, is_keyed

_FIRST_SECOND: Final = 631_152_000
_LAST_SECOND: Final = 4_102_444_800
"""The years from 1990 to 2100 in epoch seconds; as milliseconds these are days in January and February of 1970."""

_FIRST_MICROSECOND: Final = _FIRST_SECOND * 1_000_000
"""The year 1990 in epoch microseconds; as milliseconds it is beyond the year 20,000."""


class TimestampObserver(Protocol):
    """Observes the elements of a timestamp-assigning step."""

    now: int  # the clock in milliseconds: the timestamp of elements in ingestion time

    # Any: elements of every type pass.
    def observe(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        """Observes elements."""


class TrackerMemory(NamedTuple):
    """The state of a tracker between two elements."""

    current: int
    idle: bool
    last_active: int | None  # the clock at the end of the last batch with elements; None: there was none
    attributes: dict[str, Any]  # those of the generator
    active: bool = False  # whether elements came since then
    now: int = MIN_TIMESTAMP


class WatermarkTracker:
    """The generator of one step, and the highest watermark that it gave.

    The step is idle when it has been silent for longer than its strategy allows. The engine sets the clock ``now``: the
    timestamp of elements in ingestion time.
    """

    def __init__(self, step: Step, node: TimestampsNode) -> None:
        self.step = step
        self.current = MIN_TIMESTAMP
        self.idle = False
        self.now = MIN_TIMESTAMP
        self._idleness = node.strategy.idleness
        self._generator = node.strategy.create_generator()
        self._last_active: int | None = None
        self._active = False

    # Any: elements of every type pass.
    def observe(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        """Show elements to the generator."""
        self._active = True
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

    def emit_watermark(self, watermark: int) -> None:
        """Take a watermark from the generator; it never falls."""
        if type(watermark) is not int:
            watermark = timestamp_millis(watermark)
        if watermark > self.current:
            self.current = min(watermark, MAX_TIMESTAMP)

    def end_batch(self, now: int) -> None:
        """Let the generator emit, and see by the clock ``now`` whether the step has fallen silent."""
        with lifecycle_errors(self.step, "on_periodic_emit", self._generator):
            self._generator.on_periodic_emit(self)
        if self._active or self._last_active is None:
            self._last_active = now
            self.idle = False
        elif self._idleness is not None and now - self._last_active >= self._idleness:
            self.idle = True
        self._active = False

    def memory(self) -> TrackerMemory:
        """The state of the tracker. The attributes are those of the generator itself."""
        attributes = attributes_of(self._generator)
        return TrackerMemory(self.current, self.idle, self._last_active, attributes, self._active, self.now)

    def remember(self, memory: TrackerMemory) -> None:
        """Go on from what :meth:`memory` gave."""
        self.current, self.idle, self._last_active, attributes, self._active, self.now = memory
        set_attributes(self._generator, attributes)


def clock_millis(clock: Callable[[], int]) -> int:
    """The time of a runner's clock, in milliseconds."""
    with errors_at("the clock that the runner was given"):
        return timestamp_millis(clock())


class InputWatermark(Protocol):
    """Tells the watermark of an input, and whether it is idle."""

    @property
    def current(self) -> int:
        """The watermark, in milliseconds."""
        ...

    @property
    def idle(self) -> bool:
        """Whether it holds back none."""
        ...


_KNOWING: Final = (ProcessNode, SinkNode, UnionNode)
"""Steps without keys whose watermark is asked for."""


def watermarks_of(
    topology: Topology,
    inputs: Mapping[str, InputWatermark],
    before: Mapping[str, int],
    ended: Collection[str] = (),
    exhausted: Collection[str] = (),
) -> dict[str, int]:
    """The watermark of each keyed step, process function, sink and union, by id.

    Args:
        topology: The steps.
        inputs: The watermarks from which those of the others follow: of timestamp-assigning steps, or of sources.
        before: The watermarks so far, by id; they never fall.
        ended: The ids of the sources that have come to their end. As in Flink they are at the end of time, and hold
            back none.
        exhausted: The ids of the sources that were read to their end and may have more in a later run. Their steps keep
            their watermarks, so that a run that fails does not make late what comes then. Steps with other inputs do
            not wait for them, unless there are keyed steps in between, whose windows have yet to fire.

    When all sources are in one of the two, the stream is over: whether time ends then is for the run to say, and each
    source counts with its own watermark again.
    """
    found: dict[str, _Watermark | None] = {}
    goes_on = len({*ended, *exhausted}) < len(topology.sources)
    over = _steps_behind(topology, ended) if goes_on else set()
    silent = _steps_behind(topology, {*ended, *exhausted}, through_keyed=False) if goes_on else set()

    def reaching(step: Step) -> _Watermark | None:
        if step.id not in found:
            own = inputs.get(step.id)
            if step.id in over:
                found[step.id] = _Watermark(MAX_TIMESTAMP, idle=False)
            elif own is not None:
                found[step.id] = _Watermark(own.current, own.idle)
            else:
                waiting = [source for source in step.inputs if source not in over]
                going_on = [source for source in waiting if source not in silent] or waiting
                upstream = [each for each in map(reaching, map(topology.step, going_on)) if each is not None]
                found[step.id] = _behind(step, upstream, before.get(step.id, MIN_TIMESTAMP)) if upstream else None
        return found[step.id]

    steps = [step for step in topology.steps if is_keyed(step.node) or isinstance(step.node, _KNOWING)]
    return {step.id: MIN_TIMESTAMP if (known := reaching(step)) is None else known.current for step in steps}


def _steps_behind(topology: Topology, sources: Collection[str], *, through_keyed: bool = True) -> set[str]:
    """The ids of sources and of the steps that read from them alone, without ``through_keyed`` up to keyed steps."""
    behind = {step.id for step in topology.sources if step.id in sources}
    for step in topology.steps:
        if step.inputs and behind.issuperset(step.inputs) and (through_keyed or not is_keyed(step.node)):
            behind.add(step.id)
    return behind


class _Watermark(NamedTuple):
    current: int
    idle: bool


def _behind(step: Step, upstream: Sequence[_Watermark], last: int) -> _Watermark:
    """The watermark behind a step, from those of its inputs and its own so far."""
    waits = isinstance(step.node, UnionNode) and not step.node.counts_at_once
    watermark = combined_watermark(upstream, last if waits else MIN_TIMESTAMP)
    return _Watermark(max(watermark, last), all(each.idle for each in upstream))


def combined_watermark(inputs: Iterable[InputWatermark], last: int = MIN_TIMESTAMP) -> int:
    """The watermark of a step: the lowest of those that reach it, those that are idle left out.

    When all are idle the highest of them counts, as in Flink: no step holds the others back. Nor does one that was
    idle and comes back behind ``last``, the watermark so far: it counts from the time on at which it has caught up.
    """
    known = list(inputs)
    active = [each.current for each in known if not each.idle]
    if not active:
        return max((each.current for each in known), default=MIN_TIMESTAMP)
    return min((watermark for watermark in active if watermark >= last), default=last)


_IN_SECONDS: Final = ("seconds", "in early 1970", "* 1000")
_IN_MICROSECONDS: Final = ("microseconds or nanoseconds", "far in the future", "// 1000")


class TimestampScale:
    """Looks at the watermarks of a run, and warns once of each step whose timestamps are in another unit."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._warned: set[str] = set()

    def check(self, watermarks: Mapping[str, int | None]) -> None:
        """Warn of the timestamp-assigning steps in front of keyed steps whose watermark is no time of milliseconds.

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
            for identifier in self._topology.timestamp_steps(keyed):
                if identifier in self._warned:
                    continue
                self._warned.add(identifier)
                step = self._topology.step(identifier)
                unit, when, cure = _IN_SECONDS if are_seconds else _IN_MICROSECONDS
                warn(
                    f"timestamps look like {unit} since 1970, and are taken for milliseconds",
                    given=f"a watermark of {watermark}, which is {when}",
                    where=step.where,
                    hint=f"timestamp=lambda element: element.at {cure}, or a datetime",
                    location=step.node.location,
                )
