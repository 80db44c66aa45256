"""The nodes of a plan: what each step is, without a word on how it runs.

Nodes are frozen and compared by identity: two equal calls make two steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, ClassVar, Final, NamedTuple, Self, Union, get_args, get_origin

from windrow.errors import Location
from windrow.evictors import Evictor
from windrow.functions import (
    AggregateFunction,
    AsyncRetryStrategy,
    FixedDelayRetryStrategy,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from windrow.functions.marked import LEFT, CoGroup, JoinPairs, OneRecord, SideKey, Tagged
from windrow.functions.names import function_name
from windrow.functions.plain import Applied, AppliedAll, WithoutKey
from windrow.functions.wrapper import unwrapped
from windrow.panes import ChangeKind
from windrow.panes.settings import DEFAULT_PANES, PaneSettings
from windrow.plan.location import Scope, current_scope
from windrow.sinks import Sink
from windrow.sources import Source
from windrow.state import MapStateDescriptor
from windrow.tags import OutputTag
from windrow.time import duration_text
from windrow.triggers import Trigger
from windrow.triggers.trigger import with_parts
from windrow.watermarks import WatermarkStrategy
from windrow.windows import MergingWindowAssigner, WindowAssigner
from windrow.windows.unfired import may_leave_unfired

__all__ = [
    "NAMES",
    "NO_LATE_TAGS",
    "AggregateSpec",
    "AsOfJoinNode",
    "BroadcastNode",
    "BroadcastProcessNode",
    "ChangelogNode",
    "FilterNode",
    "FlatMapNode",
    "FunctionSpec",
    "IntervalJoinNode",
    "KeyByNode",
    "KeyedProcessNode",
    "LateTags",
    "MapAsyncNode",
    "MapBatchesNode",
    "MapNode",
    "Node",
    "PlainFunction",
    "ProcessNode",
    "ProcessSpec",
    "ReduceSpec",
    "ReturnsNode",
    "SideOutputNode",
    "SinkNode",
    "SourceNode",
    "TimedJoinNode",
    "TimestampsNode",
    "UnionNode",
    "WindowNode",
    "Words",
]

# Any throughout this module: a plan holds functions and elements of every type side by side. The builder stages have
# proved that they fit; the nodes only carry them.


class Words(NamedTuple):
    """What functions and types are called in the descriptions of steps.

    Attributes:
        function: A few words for a function of one element.
        pair: A few words for a function of two elements.
        joined: A few words for the function of windows of two streams.
        type: A few words for a type.
    """

    function: Callable[[Callable[..., Any]], str]
    pair: Callable[[Callable[..., Any]], str]
    joined: Callable[[Any], str]  # functions of windows of two streams, which are no public classes
    type: Callable[[object], str]


class PlainFunction(NamedTuple):
    """A function that makes the elements of a step, with the types of its arguments, as far as they are known."""

    function: Callable[..., Any]
    arguments: tuple[object | None, ...] | None = None


def type_name(kind: object) -> str:
    """How a type is called in a plan."""
    if kind is None:
        return "?"
    if get_origin(kind) is Tagged:
        return " or ".join(dict.fromkeys(map(type_name, get_args(kind))))
    if get_origin(kind) in (Union, UnionType):
        return " | ".join("None" if member is NoneType else type_name(member) for member in get_args(kind))
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)


def _joined(process: CoGroup[Any] | JoinPairs[Any]) -> str:
    return process.describe()


NAMES: Final = Words(function_name, function_name, _joined, type_name)
"""Functions are called by their names."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One step.

    Attributes:
        location: The line of the user's program that made it.
        name: The name that the user gave it.
        element_type: The type of its output, where it is known.
        scope: The call of a user's function that made it; None outside of such functions.
    """

    kind: ClassVar[str] = "node"
    is_source: ClassVar[bool] = False
    is_sink: ClassVar[bool] = False
    is_keyed: ClassVar[bool] = False
    """Whether it keeps state by key."""
    is_window: ClassVar[bool] = False
    keeps_elements: ClassVar[bool] = False
    """Whether the elements of its output are elements of its input."""
    passes_all: ClassVar[bool] = False
    """Whether its output has all elements of its inputs, as they are."""
    sees_time: ClassVar[bool] = False
    """Whether its function may ask for the watermark and the clock, though it keeps no state by key."""
    ends_changes: ClassVar[bool] = False
    """Whether it makes records of results and withdrawals."""

    location: Location | None = None
    name: str | None = None
    element_type: object | None = None
    scope: Scope | None = field(default_factory=current_scope)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The steps that it reads from."""
        return ()

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        """The same step, reading from other steps.

        Args:
            inputs: The steps, of the same classes and in the order of :attr:`inputs`.
        """
        return self

    @property
    def reads(self) -> Source[Any] | None:
        """The source that it reads, or None."""
        return None

    @property
    def writes(self) -> Sink[Any] | None:
        """The sink that it writes, or None."""
        return None

    @property
    def side_output(self) -> OutputTag[Any] | None:
        """The tag of the side output that it takes, or None."""
        return None

    @property
    def user_parts(self) -> tuple[object, ...]:
        """The objects whose methods users may have written, and their functions; None among them stands for none."""
        return ()

    @property
    def plain_function(self) -> PlainFunction | None:
        """The function whose result decides the type of the elements, or None where a class says it."""
        return None

    def describe(self, words: Words = NAMES) -> str:
        """What it does, in a few words for ``explain()``.

        Args:
            words: What functions and types are called.
        """
        return ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceNode(Node):
    """Reads from a source.

    Attributes:
        source: The source.
    """

    kind: ClassVar[str] = "source"
    is_source: ClassVar[bool] = True

    source: Source[Any]

    @property
    def reads(self) -> Source[Any]:
        return self.source

    def describe(self, words: Words = NAMES) -> str:
        return self.source.describe()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OneInputNode(Node):
    """A step with one input.

    Attributes:
        input: The step that it reads from.
    """

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        # Any: replace() checks the fields of the one class alone.
        changes: dict[str, Any] = {"input": inputs[0]}
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapNode(OneInputNode):
    """Makes one element from each.

    Attributes:
        function: The user's function.
    """

    kind: ClassVar[str] = "map"

    function: Callable[[Any], Any]

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (unwrapped(self.function),)

    @property
    def plain_function(self) -> PlainFunction:
        return PlainFunction(self.function, (self.input.element_type,))

    def describe(self, words: Words = NAMES) -> str:
        return words.function(self.function)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlatMapNode(OneInputNode):
    """Makes any number of elements from each.

    Attributes:
        function: The user's function.
    """

    kind: ClassVar[str] = "flat_map"

    function: Callable[[Any], Iterable[Any] | None]

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (unwrapped(self.function),)

    @property
    def plain_function(self) -> PlainFunction:
        return PlainFunction(self.function, (self.input.element_type,))

    def describe(self, words: Words = NAMES) -> str:
        return words.function(self.function)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilterNode(OneInputNode):
    """Keeps some elements.

    Attributes:
        function: The user's function.
    """

    kind: ClassVar[str] = "filter"
    keeps_elements: ClassVar[bool] = True

    function: Callable[[Any], bool]

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (unwrapped(self.function),)

    def describe(self, words: Words = NAMES) -> str:
        return words.function(self.function)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessNode(OneInputNode):
    """Makes any number of elements from each, and puts others out at side outputs; without keys.

    Attributes:
        function: The user's function.
    """

    kind: ClassVar[str] = "process"
    sees_time: ClassVar[bool] = True

    function: ProcessFunction[Any, Any]

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (unwrapped(self.function),)

    def describe(self, words: Words = NAMES) -> str:
        return self.function.describe()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapBatchesNode(OneInputNode):
    """Makes one element from each, several at a time.

    Attributes:
        size: The most elements of a call.
        function: The user's function.
    """

    kind: ClassVar[str] = "map_batches"

    function: Callable[[Sequence[Any]], Iterable[Any]]
    size: int

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (unwrapped(self.function),)

    @property
    def plain_function(self) -> PlainFunction:
        return PlainFunction(self.function)

    def describe(self, words: Words = NAMES) -> str:
        return f"{words.function(self.function)}, at most {self.size}"


_NO_RETRIES: Final = FixedDelayRetryStrategy(1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapAsyncNode(OneInputNode):
    """Makes one element from each by a coroutine, many side by side.

    Attributes:
        capacity: How many coroutines are under way at most.
        timeout: The milliseconds that a try may take; None: any time.
        retry: Decides whether and when a try follows one that failed.
        ordered: Whether results keep the order of the elements.
        timed_out: The side output for elements whose last try took too long; None: that is a failure.
        failed: The side output for elements whose last try failed; None: that is an error.
        function: The user's function.
    """

    kind: ClassVar[str] = "map_async"

    function: Callable[[Any], Awaitable[Any]]
    capacity: int
    timeout: int | None = None
    retry: AsyncRetryStrategy = _NO_RETRIES
    ordered: bool = True
    timed_out: OutputTag[Any] | None = None
    failed: OutputTag[Any] | None = None

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (unwrapped(self.function),)

    def describe(self, words: Words = NAMES) -> str:
        parts = [function_name(self.function), f"capacity {self.capacity}"]
        if self.timeout is not None:
            parts.append(f"timeout {duration_text(self.timeout)}")
        if self.retry.can_retry(1):
            parts.append(self.retry.describe())
        parts.append("ordered" if self.ordered else "unordered")
        if self.timed_out is not None:
            parts.append(f"timed out to {self.timed_out.name!r}")
        if self.failed is not None:
            parts.append(f"failed to {self.failed.name!r}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReturnsNode(OneInputNode):
    """Says the type of the elements, and leaves them as they are."""

    kind: ClassVar[str] = "returns"
    passes_all: ClassVar[bool] = True

    def describe(self, words: Words = NAMES) -> str:
        return words.type(self.element_type)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangelogNode(OneInputNode):
    """Makes a record from each change, a result or a withdrawal.

    Attributes:
        function: Makes a record from the kind of a change and its result.
    """

    kind: ClassVar[str] = "changelog"
    ends_changes: ClassVar[bool] = True

    function: Callable[[ChangeKind, Any], Any]

    @property
    def plain_function(self) -> PlainFunction:
        return PlainFunction(self.function)

    def describe(self, words: Words = NAMES) -> str:
        return words.function(self.function)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnionNode(Node):
    """Brings several streams of one type together.

    Attributes:
        counts_at_once: Whether an input that comes back from being idle holds the watermark at once. Else it does so
            from the time on at which its watermark has caught up.
        streams: The steps that it reads from.
    """

    kind: ClassVar[str] = "union"
    passes_all: ClassVar[bool] = True

    streams: tuple[Node, ...]
    counts_at_once: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.streams

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        return replace(self, streams=tuple(inputs))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimestampsNode(OneInputNode):
    """Gives elements timestamps, and makes watermarks from them.

    Attributes:
        strategy: How watermarks are made.
        timestamp: Takes the timestamp from an element; None, elements have one.
    """

    kind: ClassVar[str] = "timestamps"
    keeps_elements: ClassVar[bool] = True

    strategy: WatermarkStrategy[Any]
    timestamp: Callable[[Any], int | datetime] | None = None

    def describe(self, words: Words = NAMES) -> str:
        shown = self.strategy.describe()
        if self.timestamp is None or words is NAMES:
            return shown
        return f"{shown}, timestamp {words.function(self.timestamp)}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyByNode(OneInputNode):
    """Splits a stream by key. The elements stay; what follows sees each key by itself.

    Attributes:
        selector: Takes the key from an element.
        key_type: The type of the key, where it is known.
    """

    kind: ClassVar[str] = "key_by"
    passes_all: ClassVar[bool] = True
    keeps_elements: ClassVar[bool] = True

    selector: Callable[[Any], Any]
    key_type: object | None = None

    @property
    def user_parts(self) -> tuple[object, ...]:
        return self.selector.selectors if isinstance(self.selector, SideKey) else (self.selector,)

    def describe(self, words: Words = NAMES) -> str:
        return words.function(self.selector)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionSpec:
    """What a window computes. ``process`` sees the contents, or the one value that came before it.

    Attributes:
        process: The user's function of the window; None where there is none.
    """

    process: ProcessWindowFunction[Any, Any, Any, Any] | None = None

    @property
    def fold(self) -> object | None:
        """The aggregate function, or the one that combines two elements, or None."""
        return None

    def describe(self, words: Words = NAMES) -> str:
        """A few words for ``explain()``.

        Args:
            words: What functions and types are called.
        """
        return ""

    @property
    def _behind(self) -> str:
        return f", {self.process.describe()}" if self.process is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReduceSpec(FunctionSpec):
    """Combines elements two by two, then maybe processes the one that is left.

    Attributes:
        reduce: Combines two elements.
    """

    reduce: Callable[[Any, Any], Any]

    @property
    def fold(self) -> object:
        return self.reduce

    def describe(self, words: Words = NAMES) -> str:
        return f"reduce {words.pair(self.reduce)}{self._behind}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AggregateSpec(FunctionSpec):
    """Folds elements into an accumulator, then maybe processes the result.

    Attributes:
        shown: What the user wrote, where that was made into an aggregate and a function of the window.
        aggregate: The aggregate function.
    """

    aggregate: AggregateFunction[Any, Any, Any]
    shown: str | None = None

    @property
    def fold(self) -> object:
        return self.aggregate

    def describe(self, words: Words = NAMES) -> str:
        if self.shown is not None:
            return f"aggregate {self.shown}"
        return f"aggregate {self.aggregate.describe()}{self._behind}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessSpec(FunctionSpec):
    """Processes all elements when the window fires.

    Attributes:
        process: The user's function of the window.
    """

    # It has no default here, where it cannot be missing.
    process: ProcessWindowFunction[Any, Any, Any, Any]  # pyright: ignore[reportGeneralTypeIssues]

    def describe(self, words: Words = NAMES) -> str:
        if isinstance(self.process, (CoGroup, JoinPairs)):
            return words.joined(self.process)
        return f"process {self.process.describe()}"


class LateTags(NamedTuple):
    """The tags of the side outputs for late elements of two streams; None: they are counted and dropped.

    Attributes:
        left: That of the left stream.
        right: That of the right stream.
    """

    left: OutputTag[Any] | None = None
    right: OutputTag[Any] | None = None

    def describe(self) -> list[str]:
        """What goes where, in a few words for ``explain()``."""
        sides = zip(("left", "right"), self, strict=True)
        return [f"late of the {side} to {tag.name!r}" for side, tag in sides if tag is not None]

    def element_type(self, tag: OutputTag[Any], marked: object | None) -> object | None:
        """The type of the elements behind ``tag``, of marked elements of a type; None where it is not known.

        Args:
            tag: The tag.
            marked: The type of the marked elements, where it is known.
        """
        kinds = getattr(marked, "__args__", (None, None))
        element_types = [kind for kind, each in zip(kinds, self, strict=True) if each == tag]
        return element_types[0] if len(element_types) == 1 else None


NO_LATE_TAGS: Final = LateTags()
"""Late elements of both streams are counted and dropped."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowNode(OneInputNode):
    """Windows, and what they compute. Its input is a :class:`KeyByNode`, or any other node for windows without keys.

    Attributes:
        allowed_lateness: In milliseconds.
        late_tag: That of the side output for late elements, of windows of one stream.
        late_tags: Those for late elements of each stream, where the elements are marked ones of two.
        assigner: Assigns elements to windows.
        trigger: The trigger that was set; None, that of the assigner.
        evictor: Removes elements; None, they stay.
        panes: What the calls about panes have set.
        function: What a window computes.
    """

    kind: ClassVar[str] = "window"
    is_keyed: ClassVar[bool] = True
    is_window: ClassVar[bool] = True

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any] | None = None
    evictor: Evictor[Any, Any] | None = None
    allowed_lateness: int | None = None
    late_tag: OutputTag[Any] | None = None
    late_tags: LateTags = NO_LATE_TAGS
    panes: PaneSettings = DEFAULT_PANES
    function: FunctionSpec

    @property
    def keyed(self) -> bool:
        """Whether each key has windows of its own."""
        return isinstance(self.input, KeyByNode)

    @property
    def merging(self) -> bool:
        """Whether windows may merge."""
        return isinstance(self.assigner, MergingWindowAssigner)

    def late_output(self, element: Any) -> tuple[OutputTag[Any] | None, Any]:
        """The side output for a late element, if it has one, and the element as it goes there.

        Args:
            element: The element, a marked one where the windows are of two streams.
        """
        if isinstance(element, Tagged):
            return self.late_tags[element.side - LEFT], element.value
        return self.late_tag, element

    @property
    def may_leave_unfired(self) -> bool:
        """Whether windows may end, or wait at the end of the stream, with elements that no firing has output."""
        return may_leave_unfired(self.assigner, self.effective_trigger, self.panes)

    @property
    def effective_trigger(self) -> Trigger[Any, Any]:
        """The trigger that was set, or the assigner's default."""
        return self.trigger if self.trigger is not None else self.assigner.default_trigger()

    @property
    def user_parts(self) -> tuple[object, ...]:
        process, triggers = unwrapped(self.function.process), with_parts(self.effective_trigger)
        return (process, self.function.fold, self.assigner, self.evictor, *triggers)

    def describe_settings(self) -> list[str]:
        """A few words for each setting."""
        parts = [self.assigner.describe(), f"trigger {self.effective_trigger.describe()}"]
        if self.evictor is not None:
            parts.append(f"evictor {self.evictor.describe()}")
        if self.allowed_lateness:
            parts.append(f"lateness {duration_text(self.allowed_lateness)}")
        parts += self.late_tags.describe()
        if self.late_tag is not None:
            parts.append(f"late to {self.late_tag.name!r}")
        return [*parts, *self.panes.describe()]

    @property
    def plain_function(self) -> PlainFunction | None:
        process = self.function.process if type(self.function) is ProcessSpec else None
        inner = process.function if isinstance(process, WithoutKey) else process
        return PlainFunction(inner.function) if isinstance(inner, (Applied, AppliedAll, CoGroup, JoinPairs)) else None

    def describe(self, words: Words = NAMES) -> str:
        return ", ".join([*self.describe_settings(), self.function.describe(words)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedProcessNode(OneInputNode):
    """Processes each key's elements and timers with state. Its input is a :class:`KeyByNode`.

    Attributes:
        function: The user's function.
    """

    kind: ClassVar[str] = "process"
    is_keyed: ClassVar[bool] = True

    function: KeyedProcessFunction[Any, Any, Any]

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (unwrapped(self.function),)

    def describe(self, words: Words = NAMES) -> str:
        return self.function.describe()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BroadcastNode(OneInputNode):
    """Sends each element to all keys.

    Attributes:
        descriptors: Those of the maps that the elements change.
    """

    kind: ClassVar[str] = "broadcast"

    descriptors: tuple[MapStateDescriptor[Any, Any], ...]

    def describe(self, words: Words = NAMES) -> str:
        return ", ".join(repr(descriptor.name) for descriptor in self.descriptors)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BroadcastProcessNode(Node):
    """Processes each key's elements and timers with state, and with rules that a broadcast stream changes.

    Attributes:
        input: The step that splits the stream by key.
        rules: The step whose elements are the rules.
        function: The user's function.
    """

    kind: ClassVar[str] = "broadcast_process"
    is_keyed: ClassVar[bool] = True

    input: KeyByNode
    rules: BroadcastNode
    function: KeyedBroadcastProcessFunction[Any, Any, Any, Any]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, self.rules)

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        # Any: the nodes are of the same classes.
        changes: dict[str, Any] = dict(zip(("input", "rules"), inputs, strict=True))
        return replace(self, **changes)

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (unwrapped(self.function),)

    def describe(self, words: Words = NAMES) -> str:
        return self.function.describe()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimedJoinNode(OneInputNode):
    """Joins elements of two streams by key and timestamp. Its input is a :class:`KeyByNode` over marked elements.

    Attributes:
        allowed_lateness: In milliseconds: elements of both streams are taken and kept for so much longer.
        late_tags: Those of the side outputs for later elements of the left and of the right stream.
    """

    is_keyed: ClassVar[bool] = True

    allowed_lateness: int = 0
    late_tags: LateTags = NO_LATE_TAGS

    def describe_lateness(self) -> list[str]:
        """A few words for each setting about late elements."""
        allowed = [f"allowed lateness {duration_text(self.allowed_lateness)}"] if self.allowed_lateness else []
        return [*allowed, *self.late_tags.describe()]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntervalJoinNode(TimedJoinNode):
    """Joins each left element with the right ones whose timestamps lie within bounds around its own.

    Attributes:
        lower: How far behind that of the left element the timestamp of a right one may lie at least, in milliseconds.
        upper: How far at most. If it is below ``lower``, nothing joins.
        function: The user's function of a pair.
    """

    kind: ClassVar[str] = "interval_join"

    lower: int
    upper: int
    function: ProcessJoinFunction[Any, Any, Any]

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (unwrapped(self.function),)

    def describe_settings(self) -> list[str]:
        """A few words for each setting."""
        return [f"{duration_text(self.lower)} to {duration_text(self.upper)}", *self.describe_lateness()]

    @property
    def plain_function(self) -> PlainFunction | None:
        return PlainFunction(self.function.function) if isinstance(self.function, OneRecord) else None

    def describe(self, words: Words = NAMES) -> str:
        function = self.function
        shown = words.pair(function.function) if isinstance(function, OneRecord) else function.describe()
        return ", ".join([*self.describe_settings(), shown])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AsOfJoinNode(TimedJoinNode):
    """Joins each left element with the last right one at or before its timestamp.

    Attributes:
        is_outer: Whether left elements without a right one come out, too.
        function: The user's function of a pair.
    """

    kind: ClassVar[str] = "as_of_join"

    function: Callable[[Any, Any], Any]
    is_outer: bool = False

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (unwrapped(self.function),)

    def describe_settings(self) -> list[str]:
        """A few words for each setting."""
        return [*(["left outer"] if self.is_outer else []), *self.describe_lateness()]

    @property
    def plain_function(self) -> PlainFunction:
        return PlainFunction(self.function)

    def describe(self, words: Words = NAMES) -> str:
        return ", ".join([*self.describe_settings(), words.pair(self.function)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SideOutputNode(OneInputNode):
    """Takes a side output of a step.

    Attributes:
        tag: Names the side output.
    """

    kind: ClassVar[str] = "side_output"

    tag: OutputTag[Any]

    @property
    def side_output(self) -> OutputTag[Any]:
        return self.tag

    def describe(self, words: Words = NAMES) -> str:
        return repr(self.tag.name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SinkNode(OneInputNode):
    """Writes to a sink.

    Attributes:
        sink: The sink.
    """

    kind: ClassVar[str] = "sink"
    is_sink: ClassVar[bool] = True
    keeps_elements: ClassVar[bool] = True

    sink: Sink[Any]

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (self.sink,)

    @property
    def writes(self) -> Sink[Any]:
        return self.sink

    def describe(self, words: Words = NAMES) -> str:
        return self.sink.describe()
