"""The harness that drives a stream step by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, overload

from typing_extensions import TypeForm, TypeVar

from windrow.builder.stream import DataStream
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, no_attribute, similar_name
from windrow.evictors import TimestampedValue
from windrow.plan import ProcessNode, Step
from windrow.plan.pipeline import PartialPipeline
from windrow.plan.walk import upstream_of
from windrow.sinks import CollectSink
from windrow.sources import Source
from windrow.tags import OutputTag
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.local.execution import Execution, StampedElements
from windrow_runtime.local.journal import Journal, recorders_of, recording_of
from windrow_runtime.local.key_order import KeyOrder
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import line_of_caller, misuse
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.outcome import check_counter
from windrow_runtime.operators.recording import Recording, recorded
from windrow_runtime.operators.state.model import NOTHING
from windrow_runtime.operators.state.time_to_live import TtlTimer
from windrow_runtime.operators.topology import Port, Topology
from windrow_runtime.operators.watermarks import watermarks_of
from windrow_tools.testing.explanations import ElementExplanation, Explainer, WindowExplanation, equal, never_came
from windrow_tools.testing.moments import moment, timestamp_or_none

T = TypeVar("T")
S = TypeVar("S")
# Any in this module: windows of every type; without a source at hand the type checker cannot know what is pushed.
In = TypeVar("In", default=Any)
Out = TypeVar("Out", default=Any)

_ANY_KEY: Final[Any] = NOTHING
"""Stands for any key, since None is one."""


class PushSource(Source[T]):
    """A source whose elements a test pushes, with timestamps or without.

    Args:
        element_type: The type of the elements, where a step needs to know it.
    """

    reading_hint: ClassVar[str] = "StreamHarness(stream, source) pushes into it; from_collection(...) is for runners"
    has_timestamps = True

    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, element_type: TypeForm[T]) -> None: ...
    def __init__(self, element_type: object | None = None) -> None:
        self._element_type = element_type

    @property
    def element_type(self) -> object | None:
        return self._element_type

    def describe(self) -> str:
        return "pushed by a test"


@dataclass(frozen=True)
class OpenWindow:
    """A window that holds elements.

    Attributes:
        step: The id of the step.
        key: The key; None without keys.
        window: The window.
    """

    step: str
    key: Hashable
    window: Any


@dataclass(frozen=True)
class PendingTimer:
    """A timer that is set.

    Attributes:
        step: The id of the step.
        key: The key; None without keys.
        window: The window that the timer belongs to; None for timers of process functions.
        time: When it is due, in milliseconds.
    """

    step: str
    key: Hashable
    window: Any
    time: int


@dataclass
class _Input:
    """The watermark of a source, in milliseconds, and whether it holds back none."""

    watermark: int = MIN_TIMESTAMP
    idle: bool = False


class StreamHarness(Generic[In, Out]):
    """Drives a stream step by step: elements, watermarks and the clock in; what each step emits out.

    Nothing happens by itself: time stands still unless the test moves it. A watermark that a strategy of the stream
    makes takes effect at :meth:`emit_watermarks`. Each step keeps a journal, with all elements that came:
    :meth:`explain_window` and :meth:`explain_element` tell it in sentences.

    Args:
        stream: The stream under test.
        source: The source to push into, whose type checkers compare elements with; by default the stream's only one.
        also: Further streams of the same plan to ask for what they emit, by :meth:`take`.
        explains: Whether steps keep journals. Without them nothing can be explained, and steps run in the faster forms
            that a runner gives them; the results are the same.
        record: Whether to record what goes through each keyed step; :attr:`recording` has it then.
        isolates_functions: Whether functions are called as copies, as workers of Spark have them: what a call changes
            in a variable around the function is not seen outside, and what it leaves on ``self`` is gone at the next
            step of the test. Without it a test can watch calls, through a closure or an attribute.
        shuffles_keys: A seed, by which each step of the test processes one key after the other, in another order, as
            Spark may do; see :class:`~windrow_runtime.local.LocalRunner`.

    Example:
        >>> from datetime import timedelta
        >>> from windrow import from_source
        >>> from windrow.windows import TumblingEventTimeWindows
        >>> numbers = PushSource(int)
        >>> sums = (
        ...     from_source(numbers)
        ...     .key_by(lambda number: number % 2)
        ...     .window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
        ...     .reduce(lambda a, b: a + b)
        ... )
        >>> with StreamHarness(sums, numbers) as harness:
        ...     harness.process_element(1, timestamp=100)
        ...     harness.process_element(3, timestamp=200)
        ...     harness.process_watermark(999)
        ...     harness.take_values()
        [4]
    """

    def __init__(
        self,
        stream: DataStream[Out],
        source: PushSource[In] | None = None,
        *,
        also: tuple[DataStream[Any], ...] = (),
        explains: bool = True,
        record: bool = False,
        isolates_functions: bool = True,
        shuffles_keys: int | None = None,
    ) -> None:
        if not isinstance(stream, DataStream):
            raise misuse(
                "a harness tests a stream",
                given=f"a {type(stream).__name__}",
                expected="a DataStream",
                hint="the stream itself, without a sink and without a Pipeline",
            )
        self._stream = stream
        tapped = {id(each.node): each for each in (stream, *also)}
        pipeline = PartialPipeline("harness", *(each.sink_to(CollectSink[Any]()) for each in tapped.values()))
        self._topology = Topology(pipeline.steps)
        self._source = self._port_of(source)
        self._sink_steps = {id(step.inputs and step.node.inputs[0]): step.id for step in self._topology.sinks}
        self._observed: defaultdict[Port, StampedElements] = defaultdict(StampedElements)
        self._explains, self._records = explains, record
        self._recorders = recorders_of(self._topology.keyed, explains=explains) if explains or record else {}
        self._isolates_functions = isolates_functions
        self._order = KeyOrder.of(shuffles_keys)
        self._pushed: list[tuple[Any, int | None]] = []
        self._execution = self._new_execution()
        self._is_closed = False
        self._inputs = {step.id: _Input() for step in self._topology.sources}
        self._watermarks: dict[str, int] = {}  # of steps and unions, as far as sources have watermarks of their own
        self._has_arrived = False  # since the last end of a batch
        self.current_watermark = MIN_TIMESTAMP
        self.current_processing_time = MIN_TIMESTAMP

    def _new_execution(self) -> Execution:
        execution = Execution(
            self._topology,
            observe=self._observe,
            recorders=self._recorders,
            isolates_functions=self._isolates_functions,
            renews_functions=self._isolates_functions,
            order=self._order,
        )
        execution.open()
        return execution

    def _observe(self, port: Port, values: list[Any], timestamps: list[int | None]) -> None:
        seen = self._observed[port]
        seen.values.extend(values)
        seen.timestamps.extend(timestamps)

    def _port_of(self, source: Source[Any] | None) -> Port:
        sources = self._topology.sources
        if source is None:
            if len(sources) != 1:
                raise misuse(
                    "the harness must know which source to push into",
                    given=f"{len(sources)} sources",
                    expected="source=...",
                    hint="StreamHarness(stream, source), with one of those that the stream reads",
                )
            return Port(sources[0].id)
        for step in sources:
            if getattr(step.node, "source", None) is source:
                return Port(step.id)
        raise misuse(
            "the source is not part of the stream",
            given=f"a source {source.describe()}",
            expected=f"one that the stream reads, in {' or '.join(step.where for step in sources)}",
            hint="from_source(source) takes the same object as the harness",
        )

    # Push into the stream

    @overload
    def process_element(self, value: In, timestamp: int | datetime | None = None) -> None: ...
    @overload
    def process_element(self, value: S, timestamp: int | datetime | None = None, *, source: PushSource[S]) -> None: ...
    def process_element(
        self, value: object, timestamp: int | datetime | None = None, *, source: PushSource[Any] | None = None
    ) -> None:
        """Push one element.

        Args:
            value: The element.
            timestamp: Its timestamp, in milliseconds or as an aware datetime; None for none.
            source: Where to, if not into the harness's source.
        """
        timestamp = timestamp_or_none(timestamp)
        self._has_arrived = True
        port = self._source if source is None else self._port_of(source)
        if self._explains:
            kept = own(value)
            self._pushed.append((kept, timestamp))
            for recorder in self._recorders.values():
                recorder.pushed = kept
        try:
            self._running().round({port: StampedElements([own(value)], [timestamp])})
        finally:
            for recorder in self._recorders.values():
                recorder.pushed = NOTHING

    def process_watermark(self, watermark: int | datetime, *, source: PushSource[Any] | None = None) -> None:
        """Advance the watermark: due timers fire in order of their time.

        Args:
            watermark: The watermark, in milliseconds or as an aware datetime.
            source: The source whose watermark it is; each step has the lowest of the sources upstream of it that are
                not idle. By default it is that of the whole stream.
        """
        watermark = moment(watermark, "a watermark")
        if source is not None:
            of_source = self._inputs[self._port_of(source).step]
            of_source.watermark = max(watermark, of_source.watermark)
            self._combine_watermarks()
            return
        for each in self._inputs.values():
            each.watermark = max(watermark, each.watermark)
        self.current_watermark = max(watermark, self.current_watermark)
        self._running().round({}, watermark=self.current_watermark)

    def set_idle(self, source: PushSource[Any], *, idle: bool = True) -> None:
        """Let a source fall silent, so that it holds no watermark back, or with ``idle=False`` come back.

        The watermark of the steps downstream of it advances to that of the other sources.

        Args:
            source: The source.
            idle: Whether it falls silent; False: it comes back.
        """
        self._inputs[self._port_of(source).step].idle = idle
        self._combine_watermarks()

    def _combine_watermarks(self) -> None:
        """Advances each step to the watermark of the sources upstream of it."""
        operators = self._execution.operators
        before = {identifier: operator.current_watermark for identifier, operator in operators.items()}
        self._watermarks = watermarks_of(self._topology, self._inputs, {**self._watermarks, **before})
        self._running().round({}, watermark=self._watermarks)
        reached = [operator.current_watermark for operator in operators.values()]
        self.current_watermark = max(self.current_watermark, min(reached, default=MIN_TIMESTAMP))

    def set_processing_time(self, now: int | datetime) -> None:
        """Set the clock, in milliseconds or as an aware datetime: due timers fire in order of their time.

        What was pushed before has arrived by the clock of then, as idleness and silence count. The watermarks that
        strategies make of it wait for :meth:`emit_watermarks`.

        Args:
            now: The time; an earlier one than before changes nothing.
        """
        now = moment(now, "the clock")
        if self._has_arrived and now > self.current_processing_time > MIN_TIMESTAMP:
            self._running().end_batch(self.current_processing_time)
            self._has_arrived = False
        self.current_processing_time = max(now, self.current_processing_time)
        self._running().round({}, processing_time=self.current_processing_time)

    def emit_watermarks(self) -> int:
        """Let the strategies of the stream make their watermarks, and advance each keyed step to its own.

        Returns:
            The watermark; the lowest, where keyed steps have several.
        """
        watermarks = self._running().end_batch(self.current_processing_time)
        self._has_arrived = False
        self._running().round({}, watermark=watermarks)
        # A process function may stand upstream of the step that assigns timestamps.
        reached = [
            watermark
            for step, watermark in watermarks.items()
            if not isinstance(self._topology.step(step).node, ProcessNode)
        ]
        self.current_watermark = max(self.current_watermark, min(reached, default=MIN_TIMESTAMP))
        return self.current_watermark

    def snapshot_restore(self, *, keeps_source_watermarks: bool = True) -> None:
        """Take a snapshot, drop everything, and go on from the snapshot in a fresh instance.

        The snapshot holds the state and the time of each keyed step, and what watermark strategies have seen. The
        functions of the stream are closed and opened again. Put between any two steps, it changes no result.

        Args:
            keeps_source_watermarks: Whether the watermarks that :meth:`process_watermark` has given to sources by
                themselves stay. Else each source begins without one, as after a restart of Flink; steps keep theirs.
        """
        if not keeps_source_watermarks:
            self._watermarks = {}
            for each in self._inputs.values():
                each.watermark = MIN_TIMESTAMP
        before = self._execution
        snapshot = before.snapshot()
        before.close()
        self._execution = self._new_execution()
        self._execution.restore(snapshot)
        self._execution.sinks = before.sinks
        for identifier, counted in before.metrics.items():
            self._execution.metrics[identifier].totals.update(counted.totals)

    # Out

    def take(self, stream: DataStream[S]) -> list[TimestampedValue[S]]:
        """The elements that ``stream`` emitted since the last call; it is under test, or one given as ``also``.

        Args:
            stream: The stream.

        Raises:
            InvalidArgumentError: If the harness does not watch this stream.
        """
        if id(stream.node) not in self._sink_steps:
            raise misuse(
                "the harness does not watch this stream",
                given=repr(stream),
                expected="the stream under test, or one of also=",
                hint="StreamHarness(..., also=(stream,))",
            )
        return _drain(self._execution.sinks, self._sink_steps[id(stream.node)])

    def take_output(self) -> list[TimestampedValue[Out]]:
        """The elements that the stream under test emitted since it was last asked, with timestamps."""
        return self.take(self._stream)

    def take_values(self) -> list[Out]:
        """The elements as :meth:`take_output` gives them, without timestamps."""
        return [element.value for element in self.take_output()]

    def take_side_output(self, tag: OutputTag[S]) -> list[TimestampedValue[S]]:
        """The elements that went to the side output ``tag`` of any step since it was last asked.

        Late elements, what a process function puts out with keys or without, and what times out at ``map_async``.

        Args:
            tag: The tag, or another of the same name.

        Raises:
            InvalidArgumentError: If it is no tag, or no step of the stream can have such a side output.
        """
        names = self._names_of_side_outputs()
        if not isinstance(tag, OutputTag) or (names is not None and tag.name not in names):
            raise misuse(
                "no step of the stream has this side output",
                given=tag,
                expected=" or ".join(map(repr, sorted(names or ())))
                or ("a stream with side outputs" if isinstance(tag, OutputTag) else "an OutputTag"),
                hint=similar_name(tag.name, names or ()) if isinstance(tag, OutputTag) else f"OutputTag({tag!r})",
            )
        ports = [port for port in self._observed if port.tag == tag.name]
        return [element for port in ports for element in _drain(self._observed, port)]

    def _names_of_side_outputs(self) -> set[str] | None:
        """Returns the names of all side outputs; None: a function of the stream may have some that nobody can name."""
        nodes = [step.node for step in self._topology.steps]
        if any(node.outputs_aside is not None for node in nodes):
            return None
        return {tag.name for node in nodes for tag in node.side_outputs}

    @property
    def recording(self) -> Recording:
        """What went through each keyed step so far.

        :func:`windrow_runtime.pictures.timeline` draws windows, :func:`windrow_runtime.pictures.lanes` other steps.

        Raises:
            InvalidArgumentError: If the harness does not record.
        """
        recording = recording_of(self._recorders) if self._records else None
        return recorded(recording, "StreamHarness(stream, source, record=True)", line_of_caller())

    def counter(self, name: str) -> int:
        """The total of a counter over all steps, such as ``late_records_dropped``.

        Args:
            name: The name of the counter.

        Raises:
            InvalidArgumentError: If nothing counts under that name.
        """
        totals = [metrics.totals for metrics in self._execution.metrics.values()]
        check_counter(name, (each for counts in totals for each in counts), self._topology.steps)
        return sum(counts[name] for counts in totals)

    def open_windows(self) -> list[OpenWindow]:
        """The windows that hold elements."""
        return [
            OpenWindow(identifier, key, window)
            for identifier, operator in self._execution.operators.items()
            for key, window in operator.open_windows()
        ]

    def event_timers(self) -> list[PendingTimer]:
        """The timers that wait for the watermark, cleanup timers included, in order of time."""
        return self._pending(lambda operator: operator.pending_event_timers())

    def processing_timers(self) -> list[PendingTimer]:
        """The timers that wait for the clock, cleanup timers included, in order of time."""
        return self._pending(lambda operator: operator.state.processing_timers)

    def _pending(self, timers_of: Callable[[KeyedOperator], Iterable[tuple[Hashable, Any, int]]]) -> list[PendingTimer]:
        timers = [
            PendingTimer(identifier, key, window, time)
            for identifier, operator in self._execution.operators.items()
            for key, window, time in timers_of(operator)
            if not isinstance(window, TtlTimer)
        ]
        return sorted(timers, key=attrgetter("time"))

    # Why

    def explain_window(self, key: Hashable, window: Any, *, step: str | None = None) -> WindowExplanation:
        """Explains why a window of a key has fired, or has not yet; ``print`` shows it.

        It tells what has fired the window, under which watermark and clock; whether it was merged or cleaned up; and
        what it waits for: its timers, and the state of its trigger.

        Args:
            key: The key; None without keys.
            window: The window, such as ``TimeWindow(0, 10_000)``; it need not exist.
            step: The name or the id of the step; by default the only one with windows.

        Raises:
            InvalidArgumentError: If there is no such step, or no element of the key has come to it.
        """
        return self._explainer(step).window(key, window)

    def explain_element(
        self,
        value: object,
        timestamp: int | None = None,
        *,
        key: Hashable = _ANY_KEY,
        which: int = -1,
        step: str | None = None,
    ) -> ElementExplanation:
        """Explains what became of an element: its windows, and for which it was late; ``print`` shows it.

        Args:
            value: An element that equals the one that was pushed, or what came of that upstream of the step.
            timestamp: Its timestamp at the step; by default any.
            key: Its key; by default any.
            which: Which one of several that are equal: 0 for the first that came, -1 for the last.
            step: As for :meth:`explain_window`.

        Raises:
            InvalidArgumentError: If there is no such step, or no such element was pushed.
        """
        explainer = self._explainer(step)
        explanation = explainer.element(value, timestamp, key, which)
        if explanation is not None:
            return explanation
        for pushed, stamp in reversed(self._pushed):
            if key is _ANY_KEY and timestamp in {None, stamp} and equal(pushed, value):
                return never_came(explainer.step, pushed, stamp, self._upstream_of(explainer.step))
        raise InvalidArgumentError(
            "no such element has come to the step",
            given=f"{value!r:.200}, timestamp {timestamp}",
            expected="an element that was pushed, with its timestamp and key at the step",
            where=explainer.step.where,
        )

    def _upstream_of(self, step: Step) -> list[Step]:
        nodes = set(map(id, upstream_of(step.node)))
        return [each for each in self._topology.steps if id(each.node) in nodes]

    def _explainer(self, name: str | None) -> Explainer:
        steps = [step for step in self._topology.keyed if step.node.windows is not None]
        fitting = [step for step in steps if name is None or name in {step.id, step.name}]
        if len(fitting) != 1:
            raise misuse(
                "it must be clear which step with windows to explain",
                given="no step" if name is None else f"step={name!r}",
                expected=f"step= one of {', '.join(step.id for step in steps)}" if steps else "a stream with windows",
            )
        if not self._explains:
            raise UnsupportedOperationError(
                "the harness keeps no journals",
                given="explains=False",
                expected="StreamHarness(..., explains=True)",
                where=line_of_caller(),
            )
        journal = self._recorders[fitting[0].id]
        assert isinstance(journal, Journal)
        return Explainer(journal)

    # The life of the harness

    def close(self) -> None:
        """Close the user's functions; what was emitted can still be taken."""
        self._is_closed = True
        self._execution.close()

    def _running(self) -> Execution:
        if self._is_closed:
            raise misuse(
                "the harness is closed, and so are the functions of its stream",
                expected="elements, watermarks and times before close(), or inside of its with block",
                hint="StreamHarness(stream, source) makes another one",
            )
        return self._execution

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what to call instead of a name of other harnesses."""
            raise no_attribute(self, name, _ELSEWHERE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_EACH: Final = "process_element(value, timestamp) for each"
_ELSEWHERE: Final = {
    **dict.fromkeys(("process_elements", "push_element", "pipe_input", "add_elements"), _EACH),
    **dict.fromkeys(("advance_watermark_to", "advance_watermark"), "process_watermark(watermark)"),
    "advance_watermark_to_infinity": "process_watermark(MAX_TIMESTAMP), of windrow.time",
    **dict.fromkeys(("advance_processing_time", "advance_wall_clock_time", "advance_time"), "set_processing_time(now)"),
    **dict.fromkeys(("extract_output_values", "read_values_to_list"), "take_values()"),
    **dict.fromkeys(("get_output", "read_output"), "take_output()"),
    "get_side_output": "take_side_output(tag)",
    **dict.fromkeys(("snapshot", "restore", "initialize_state"), "snapshot_restore(), which does both"),
}
"""What to call instead of what harnesses of Flink, Beam and Kafka Streams have."""


# Any: elements of every type; the caller's stream or tag gives it back.
def _drain(outputs: dict[Any, StampedElements], key: object) -> list[TimestampedValue[Any]]:
    batch = outputs.pop(key, StampedElements())
    return [TimestampedValue(value, timestamp) for value, timestamp in zip(batch.values, batch.timestamps, strict=True)]
