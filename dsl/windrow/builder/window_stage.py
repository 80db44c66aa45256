"""Defines the base of all stages after ``window``: their settings, and the steps that they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from enum import Enum
from types import FunctionType, GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from windrow.aggregates.declared import DeclaredAggregate
from windrow.aggregates.facts import filled
from windrow.builder.arguments import check_function, check_kind, error_policy
from windrow.builder.stage import Stage
from windrow.builder.window_settings import WindowSettings
from windrow.calls.other_names import unknown_call
from windrow.errors import InvalidArgumentError, function_hint
from windrow.evictors import Evictor
from windrow.failures import OnError
from windrow.functions import AggregateFunction, ProcessAllWindowFunction, ProcessWindowFunction, WithPane
from windrow.functions.with_pane import ResultWithPane
from windrow.panes import AccumulationMode, ClosingBehavior, OnTimeBehavior, TimestampCombiner, WindowResult
from windrow.panes.settings import PaneSettings
from windrow.plan.keyed_nodes import AggregateSpec, FunctionSpec, ReduceSpec
from windrow.plan.keys import key_type
from windrow.plan.location import AtCaller, refusal
from windrow.plan.types import base_argument, iterable_item, result_type, sequence_type
from windrow.tags import OutputTag
from windrow.time import duration_text, non_negative_millis
from windrow.triggers import Trigger
from windrow.windows import GlobalWindows, Window, WindowAssigner

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")
W = TypeVar("W", bound=Window)


class WindowStage(Stage, Generic[T, W]):
    """The base of all stages of windows."""

    __slots__ = ("_settings",)

    def __init__(self, settings: WindowSettings) -> None:
        self._settings = settings

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what to write instead of a name of streams, or of other systems."""
            raise unknown_call(self, name, _ELSEWHERE)

    def __repr__(self) -> str:
        settings = self._settings
        return f"{type(self).__name__}({settings.assigner.describe()}, {settings.input.location})"

    def allowed_lateness(self, lateness: timedelta) -> Self:
        """Keep a window for this time after the watermark has passed its end; a late element fires it again.

        Args:
            lateness: How long, in event time; zero by default. ``timedelta.max`` means for ever.

        Raises:
            InvalidArgumentError: If it is negative, or was set already.

        Example:
            >>> from datetime import timedelta
            >>> from windrow import WatermarkStrategy, from_source
            >>> from windrow.sources import CollectionSource
            >>> from windrow.windows import TumblingEventTimeWindows
            >>> source = CollectionSource([1_000, 61_000, 2_000], batch_size=1)
            >>> times = from_source(source).assign_timestamps_and_watermarks(
            ...     WatermarkStrategy.for_monotonous_timestamps(), lambda time: time
            ... )
            >>> minutes = times.window_all(TumblingEventTimeWindows.of(timedelta(minutes=1)))
            >>> minutes.allowed_lateness(timedelta(seconds=30)).count().collect()
            [1, 2, 1]
        """
        with AtCaller():
            millis = non_negative_millis(lateness, "the allowed lateness")
        if self._settings.allowed_lateness is not None:
            raise set_twice("allowed lateness", duration_text(self._settings.allowed_lateness))
        return type(self)(replace(self._settings, allowed_lateness=millis))

    def side_output_late_data(self, tag: OutputTag[T]) -> Self:
        """Send elements that are too late for all their windows to a side output.

        Without it they are counted (``late_records_dropped``) and dropped.

        Args:
            tag: Names the output, which ``get_side_output`` of the stream of results takes.

        Raises:
            InvalidArgumentError: If there is a tag already.
            InvalidArgumentError: If it is no :class:`OutputTag`.

        Example:
            >>> from datetime import timedelta
            >>> from windrow import OutputTag, Pipeline, WatermarkStrategy, from_source
            >>> from windrow.sinks import CollectSink
            >>> from windrow.sources import CollectionSource
            >>> from windrow.windows import TumblingEventTimeWindows
            >>> from windrow_runtime.local import LocalRunner
            >>> late = OutputTag("late", int)
            >>> source = CollectionSource([1_000, 61_000, 2_000], batch_size=1)
            >>> times = from_source(source).assign_timestamps_and_watermarks(
            ...     WatermarkStrategy.for_monotonous_timestamps(), lambda time: time
            ... )
            >>> minutes = times.window_all(TumblingEventTimeWindows.of(timedelta(minutes=1)))
            >>> counts = minutes.side_output_late_data(late).count()
            >>> sink, late_sink = CollectSink[int](), CollectSink[int]()
            >>> late_clicks = counts.get_side_output(late)
            >>> pipeline = Pipeline("counts", counts.sink_to(sink), late_clicks.sink_to(late_sink))
            >>> result = LocalRunner().run(pipeline)
            >>> result.collected(sink), result.collected(late_sink)
            ([1, 1], [2000])
        """
        check_kind(tag, OutputTag, "late elements go to the side output of a tag", "an OutputTag")
        if self._settings.late_tag is not None:
            raise set_twice("side output for late data", self._settings.late_tag.name)
        return type(self)(replace(self._settings, late_tag=tag))

    def accumulating(self) -> Self:
        """Let each pane of a window hold all its elements so far, but for those that a trigger has purged.

        The panes are counted then: :attr:`windrow.functions.ProcessWindowContext.pane` tells them apart.

        Raises:
            InvalidArgumentError: If the accumulation mode was set already.
        """
        return type(self)(self._accumulated(AccumulationMode.ACCUMULATING))

    def retracting(self) -> Self:
        """As :meth:`accumulating`, and before each pane withdraw the result that it replaces.

        The result of a session that merged into another is withdrawn as well. The stream downstream carries changes:
        further windows take withdrawn elements out again, and :meth:`windrow.DataStream.changelog` makes records.

        Raises:
            InvalidArgumentError: If the accumulation mode was set already.
        """
        return type(self)(self._accumulated(AccumulationMode.RETRACTING))

    def on_time_behavior(self, behavior: OnTimeBehavior) -> Self:
        """Say whether a pane on time is fired where nothing is new; always by default.

        Args:
            behavior: ``FIRE_ALWAYS``, or ``FIRE_IF_NON_EMPTY`` for panes with something new alone.

        Raises:
            InvalidArgumentError: If it was set already.
        """
        check_kind(behavior, OnTimeBehavior, "the behavior of panes on time is one of two", "an OnTimeBehavior")
        panes = self._settings.panes
        return self._about_panes("on-time behavior", panes.on_time, replace(panes, on_time=behavior))

    def closing_behavior(self, behavior: ClosingBehavior) -> Self:
        """Say whether a last pane is fired where nothing is new when the window is cleaned up; not by default.

        Args:
            behavior: ``FIRE_IF_NON_EMPTY``, or ``FIRE_ALWAYS`` for a last pane in any case.

        Raises:
            InvalidArgumentError: If it was set already.
        """
        check_kind(behavior, ClosingBehavior, "the behavior of closing panes is one of two", "a ClosingBehavior")
        panes = self._settings.panes
        return self._about_panes("closing behavior", panes.closing, replace(panes, closing=behavior))

    def timestamp_combiner(self, combiner: TimestampCombiner) -> Self:
        """Say which timestamp the results of a window carry; its last one by default.

        The watermark does not wait for a result with an earlier timestamp: it may be late for windows downstream, which
        then drop it and count it (``late_records_dropped``), unless they have ``allowed_lateness`` or a side output for
        late data. With as much allowed lateness as the windows upstream are long, none is dropped that comes on time.

        Args:
            combiner: The end of the window, the earliest timestamp of its elements, or the latest.

        Raises:
            InvalidArgumentError: If it was set already.
        """
        check_kind(combiner, TimestampCombiner, "the timestamp of results is one of three", "a TimestampCombiner")
        panes = self._settings.panes
        return self._about_panes("timestamp combiner", panes.timestamp, replace(panes, timestamp=combiner))

    def _about_panes(self, what: str, first: Enum | None, panes: PaneSettings) -> Self:
        if first is not None:
            raise set_twice(what, first.name)
        return type(self)(replace(self._settings, panes=panes))

    def _accumulated(self, mode: AccumulationMode) -> WindowSettings:
        panes = self._settings.panes
        if panes.mode is not None:
            raise set_twice("accumulation mode", f"{panes.mode.value}()")
        return replace(self._settings, panes=replace(panes, mode=mode))

    def _evicted(self, evictor: Evictor[Any, Any]) -> WindowSettings:
        check_kind(evictor, Evictor, "windows evict by an evictor", "an Evictor")
        if self._settings.evictor is not None:
            raise set_twice("evictor", self._settings.evictor.describe())
        return replace(self._settings, evictor=evictor, may_evict_all=True)

    def _with_trigger(self, trigger: Trigger[Any, Any], may_lose_data: bool) -> Self:
        check_kind(trigger, Trigger, "windows fire by a trigger", "a Trigger")
        if self._settings.trigger is not None:
            raise set_twice("trigger", self._settings.trigger.describe())
        panes = replace(self._settings.panes, may_lose_data=may_lose_data)
        return type(self)(replace(self._settings, trigger=trigger, panes=panes))

    # Any: the function is checked by the public methods that call this.
    def _stream(
        self, function: FunctionSpec, element_type: object | None, name: str | None, on_error: OnError[Any] = "fail"
    ) -> DataStream[Any]:
        policy = error_policy(on_error)
        return self._stream_of(self._settings.node(function, element_type, name, policy))

    def _reduce(
        self,
        function: Callable[[Any, Any], Any],
        following: ProcessWindowFunction[Any, Any, Any, Any] | None,
        element_type: object | None,
        name: str | None,
        on_error: OnError[Any],
    ) -> DataStream[Any]:
        if not callable(function):
            raise refusal(
                "reduce needs a function of two elements",
                given=function,
                expected="a callable, or a ReduceFunction",
                hint=function_hint(function),
            )
        check_function(function, "reduce", "first, second")
        return self._stream(ReduceSpec(reduce=function, process=following), element_type, name, on_error)

    def _aggregated(self, function: AggregateFunction[Any, Any, Any, Any, Any]) -> object | None:
        if not isinstance(function, AggregateFunction):
            return None
        if not isinstance(function, DeclaredAggregate):
            return base_argument(function, AggregateFunction, 2) or result_type(function.get_result)
        with AtCaller():
            return function.result_type(
                self._settings.input.element_type, key_type=self._key_type(), may_be_empty=self._settings.may_be_empty
            )

    # Any: the window function is checked here.
    def _following(
        self, following: ProcessWindowFunction[Any, Any, Any, Any] | WithPane | None, value: object | None
    ) -> tuple[ProcessWindowFunction[Any, Any, Any, Any] | None, object | None]:
        """Returns the function after an aggregation to the type ``value``, and the type of the elements downstream."""
        if isinstance(following, WithPane):
            kinds = (self._key_type(), self._window_and_elements()[0], value)
            return ResultWithPane(), None if None in kinds else GenericAlias(WindowResult, kinds)
        check_process(following, ProcessWindowFunction)
        return following, value if following is None else result_of(following)

    def _window_and_elements(self) -> tuple[object | None, object | None]:
        """The types of a window and of its elements; None where they are not known."""
        elements = sequence_type(self._settings.input.element_type)
        return base_argument(self._settings.assigner, WindowAssigner, 1), elements

    def _key_type(self) -> object | None:
        """The type of the key; None where annotations do not say."""
        keys = self._settings.input.keys
        return type(None) if keys is None else key_type(keys)

    def _aggregate(
        self,
        function: AggregateFunction[Any, Any, Any, Any, Any],
        following: ProcessWindowFunction[Any, Any, Any, Any] | None,
        element_type: object | None,
        name: str | None,
        on_error: OnError[Any],
    ) -> DataStream[Any]:
        if not isinstance(function, AggregateFunction):
            raise refusal(
                "aggregate needs an aggregate function",
                given=function,
                expected="an instance of AggregateFunction",
                hint=_instead_of(function),
            )
        spec = self._with_facts(function, following)
        spec = spec or AggregateSpec(aggregate=function, process=following)
        return self._stream(spec, element_type, name, on_error)

    def _with_facts(
        self,
        function: AggregateFunction[Any, Any, Any, Any, Any],
        following: ProcessWindowFunction[Any, Any, Any, Any] | None,
    ) -> AggregateSpec | None:
        """The spec of an aggregate whose result has the key or the window in it; None: it has neither."""
        with AtCaller():
            split = filled(function, self._key_type(), self._settings.assigner.time_zone)
        if split is None:
            return None
        inner, process = split
        if following is not None:
            raise refusal(
                "key() and the window go into the result itself, or into a function after it",
                given=f"{process.describe()} and {following.describe()}",
                expected="one or the other",
            )
        if isinstance(self._settings.assigner, GlobalWindows) and any(
            not isinstance(place, int) and place != "key" for place in process.places
        ):
            raise refusal(
                "the window of all time has no start and no end",
                given=process.describe(),
                expected="key() and aggregates",
            )
        return AggregateSpec(aggregate=inner, process=process, shown=process.describe())


def result_of(
    function: ProcessWindowFunction[Any, Any, Any, Any] | ProcessAllWindowFunction[Any, Any, Any],
) -> object | None:
    """The type of the results of a window function; None where annotations do not say."""
    base = ProcessWindowFunction if isinstance(function, ProcessWindowFunction) else ProcessAllWindowFunction
    return base_argument(function, base, 1) or iterable_item(result_type(function.process))


_INTO_RECORD: Final = (
    "several aggregates make a record: aggregate(agg.into(Record, agg.key(), agg.count(), agg.sum(...)))"
)


def check_process(function: object, class_: type) -> None:
    """Refuse what is neither None nor a window function of a kind."""
    if function is not None and not isinstance(function, class_):
        raise needs_process(function, class_)


def _instead_of(given: object) -> str:
    """What is meant by what is no aggregate function."""
    if isinstance(given, type):
        return f"{given.__name__}()"
    if isinstance(given, FunctionType):
        is_aggregate = given.__module__.startswith("windrow.aggregates")
        return f"call it: agg.{given.__name__}(...)" if is_aggregate else "reduce(function) takes a plain function"
    return _INTO_RECORD


def needs_process(function: object, class_: type) -> InvalidArgumentError:
    """The error about what is no window function of a kind."""
    return refusal(
        "the window function has the wrong kind",
        given=function,
        expected=f"an instance of {class_.__name__}",
        hint=_INTO_RECORD if isinstance(function, AggregateFunction) else "apply(...) takes a plain function",
    )


def set_twice(what: str, first: str) -> InvalidArgumentError:
    """The error about a setting of windows that two calls make."""
    return refusal(
        f"the {what} of a window is set twice",
        given=f"first {first}, then another",
        expected="one call for each windowed stream",
    )


_FIRST: Final = "call aggregate(...), reduce(...), apply(...) or process(...) first, whose result is a stream"
_OF_STREAMS: Final = (
    "assign_timestamps_and_watermarks broadcast changelog collect connect filter flat_map get_side_output key_by map "
    "map_async map_batches print returns sink_to union window_all with_side_input"
)
_ELSEWHERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(_OF_STREAMS.split(), _FIRST),
    **dict.fromkeys(("agg", "fold"), f"aggregate(agg.sum(lambda element: ...)); {_INTO_RECORD}"),
    **dict.fromkeys(("avg", "mean"), "aggregate(agg.mean(lambda element: ...))"),
    "on_error": "on_error= of the call that has the function, such as process(function, on_error=tag)",
    "allowedLateness": "allowed_lateness(timedelta(...))",
    "sideOutputLateData": "side_output_late_data(tag)",
}
"""What to write instead of calls that streams have, or windows of other systems."""
