"""Defines the nodes that keep state by key: windows, process functions and joins by time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import GenericAlias, NoneType
from typing import Any, ClassVar, Final, NamedTuple, Self, get_args

from windrow.evictors import Evictor
from windrow.failures import ErrorPolicy
from windrow.functions import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from windrow.functions.marked import LEFT, RIGHT, CoGroup, CoProcess, JoinKind, JoinPairs, OneRecord, Tagged
from windrow.functions.plain import Applied, AppliedAll, WithoutKey
from windrow.functions.wrapper import Wrapper, unwrapped
from windrow.panes.settings import DEFAULT_PANES, AccumulationMode, PaneSettings, TimestampCombiner
from windrow.plan.base_node import NAMES, FunctionNode, Node, OneInputNode, PlainFunction, Words, fate_with
from windrow.plan.fitting import widest
from windrow.plan.nodes import BroadcastNode, KeyByNode
from windrow.tags import OutputTag
from windrow.time import duration_text
from windrow.triggers import Trigger
from windrow.triggers.trigger import with_parts
from windrow.windows import GlobalWindows, MergingWindowAssigner, WindowAssigner
from windrow.windows.spec import WindowSpec

# Any throughout this module: a plan holds functions and elements of every type side by side. The builder stages have
# proved that they fit; the nodes only carry them.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionSpec:
    """The function of a window. ``process`` sees the contents, or the one value to which they were aggregated.

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
    def _process_text(self) -> str:
        return f", {self.process.describe()}" if self.process is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReduceSpec(FunctionSpec):
    """Combines elements two by two, then may process the result.

    Attributes:
        reduce: Combines two elements.
    """

    reduce: Callable[[Any, Any], Any]

    @property
    def fold(self) -> object:
        return self.reduce

    def describe(self, words: Words = NAMES) -> str:
        return f"reduce {words.pair(self.reduce)}{self._process_text}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AggregateSpec(FunctionSpec):
    """Folds elements into an accumulator, then may process the result.

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
        return f"aggregate {self.aggregate.describe()}{self._process_text}"


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
        """The type of the elements of the side output ``tag``, made from marked ones; None where it is not known.

        Args:
            tag: The tag.
            marked: The type of the marked elements, where it is known.
        """
        kinds = getattr(marked, "__args__", (None, None))
        element_types = [kind for kind, each in zip(kinds, self, strict=True) if each == tag]
        return element_types[0] if len(element_types) == 1 else None


NO_LATE_TAGS: Final = LateTags()
"""Late elements of both streams are counted and dropped."""


def _pair_type(marked: object | None, kind: JoinKind) -> object | None:
    """The type of the pairs of a join; None where it is not known."""
    sides = get_args(marked)
    types = [
        widest([each, NoneType]) if side in kind.missing else each
        for side, each in zip((LEFT, RIGHT), sides, strict=False)
    ]
    return GenericAlias(tuple, tuple(types)) if types and None not in types else None


# Without slots: `spec` is a cached property, which needs a `__dict__`.
@dataclass(frozen=True, kw_only=True, eq=False)
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
    gives_timestamps: ClassVar[bool] = True

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any] | None = None
    evictor: Evictor[Any, Any] | None = None
    allowed_lateness: int | None = None
    late_tag: OutputTag[Any] | None = None
    late_tags: LateTags = NO_LATE_TAGS
    panes: PaneSettings = DEFAULT_PANES
    function: FunctionSpec

    @property
    def begins_changes(self) -> str | None:
        return "windows that retract" if self.panes.mode is AccumulationMode.RETRACTING else None

    @property
    def windows(self) -> WindowNode:
        return self

    @property
    def lateness(self) -> int:
        return self.allowed_lateness or 0

    @property
    def stamps_early(self) -> bool:
        return self.panes.timestamp not in {None, TimestampCombiner.END_OF_WINDOW}

    def stamps_early_in(self, node: Node) -> bool:
        # A result comes out before the watermark of steps downstream passes its window.
        is_alike = {repr(each) for each in node.windows_in_time} == {repr(self.assigner)}
        return self.stamps_early and bool(self.lateness or not is_alike)

    @property
    def windows_in_time(self) -> tuple[WindowAssigner[Any, Any], ...]:
        is_timed = self.assigner.is_event_time and not isinstance(self.assigner, GlobalWindows)
        return (self.assigner,) if is_timed else ()

    @property
    def drops_late(self) -> bool:
        has_tags = self.late_tag is not None or None not in self.late_tags
        return bool(self.windows_in_time) and not self.stamps_early and not has_tags

    @property
    def fate_of_late(self) -> str | None:
        if not self.windows_in_time:
            return None
        return fate_with(*(self.late_tags if any(self.late_tags) else (self.late_tag,)))

    @property
    def side_outputs(self) -> tuple[OutputTag[Any], ...]:
        return (*[tag for tag in (self.late_tag, *self.late_tags) if tag is not None], *self.failed_tags)

    @property
    def failing_type(self) -> object | None:
        known, process = self.input.element_type, self.function.process
        if isinstance(process, JoinPairs):
            return _pair_type(known, process.kind)
        if isinstance(process, CoGroup):
            lists = [GenericAlias(list, (side,)) for side in get_args(known)]
            return GenericAlias(tuple, tuple(lists)) if lists else None
        if known is None or self.function.fold is None:
            return None if known is None else GenericAlias(list, (known,))
        return super().failing_type

    @property
    def fails_without_element(self) -> bool:
        # A firing has none; what is only reduced has no function for it.
        return self.function.process is not None or not isinstance(self.function, ReduceSpec)

    @property
    def outputs_aside(self) -> object | None:
        process = self.function.process
        return None if isinstance(process, (CoGroup, JoinPairs)) else process

    def late_type(self, tag: OutputTag[Any]) -> object | None:
        type_form = self.input.element_type
        return type_form if self.late_tag == tag else self.late_tags.element_type(tag, type_form)

    def passed_aside(self, tag: OutputTag[Any]) -> tuple[Node, ...]:
        return self.inputs if tag in self.side_outputs and tag not in self.failed_tags else ()

    @property
    def pair_function(self) -> object | None:
        return self.function.process if isinstance(self.function.process, JoinPairs) else None

    @property
    def deciding(self) -> Mapping[str, str | Callable[..., Any]]:
        return {} if self.shown_kind == self.kind else {"the join": self.shown_kind}

    @property
    def shown_kind(self) -> str:
        process = self.function.process
        if isinstance(process, JoinPairs):
            return process.kind.value
        return "co_group" if isinstance(process, CoGroup) else self.kind

    @property
    def merging(self) -> bool:
        """Whether windows may merge."""
        return isinstance(self.assigner, MergingWindowAssigner)

    def late_output(self, element: Any) -> tuple[OutputTag[Any] | None, Any]:
        """Returns the side output of a late element, if it has one, and the element without the mark of its stream.

        Args:
            element: The element, a marked one where the windows are of two streams.
        """
        if isinstance(element, Tagged):
            return self.late_tags[element.side - LEFT], element.value
        return self.late_tag, element

    @cached_property
    def spec(self) -> WindowSpec:
        """The classification of the windows, which engines ask how to run them."""
        process = self.function.process
        return WindowSpec(self.assigner, self.effective_trigger, self.evictor, self.panes, self.lateness, process)

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
        settings = [self.assigner.describe(), f"trigger {self.effective_trigger.describe()}"]
        if self.evictor is not None:
            settings.append(f"evictor {self.evictor.describe()}")
        if self.allowed_lateness:
            settings.append(f"lateness {duration_text(self.allowed_lateness)}")
        settings += self.late_tags.describe()
        if self.late_tag is not None:
            settings.append(f"late to {self.late_tag.name!r}")
        return [*settings, *self.panes.describe()]

    @property
    def plain_function(self) -> PlainFunction | None:
        process = self.function.process if type(self.function) is ProcessSpec else None
        inner = process.function if isinstance(process, WithoutKey) else process
        return PlainFunction(inner.function) if isinstance(inner, (Applied, AppliedAll, CoGroup, JoinPairs)) else None

    @property
    def emitting(self) -> tuple[object, ...]:
        process = self.function.process
        inner = process.function if isinstance(process, WithoutKey) else process
        if isinstance(inner, (Applied, AppliedAll, CoGroup)):
            return (inner.function,)
        # The function of a join makes one record of each pair.
        return () if inner is None or isinstance(inner, JoinPairs) else (inner.process,)

    def describe(self, words: Words = NAMES) -> str:
        return ", ".join([*self.describe_settings(), self.function.describe(words)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedProcessNode(FunctionNode[KeyedProcessFunction[Any, Any, Any]]):
    """Processes each key's elements and timers with state. Its input is a :class:`KeyByNode`."""

    kind: ClassVar[str] = "process"
    is_keyed: ClassVar[bool] = True

    @property
    def process_function(self) -> KeyedProcessFunction[Any, Any, Any]:
        return self.function

    @property
    def fails_without_element(self) -> bool:
        return type(self.function).on_timer is not KeyedProcessFunction.on_timer

    @property
    def outputs_aside(self) -> object:
        return unwrapped(self.function)

    @property
    def emitting(self) -> tuple[object, ...]:
        function = self.function
        if isinstance(function, CoProcess):
            two = function.function
            return (two.process_element1, two.process_element2, two.on_timer)
        return (function.process_element, function.on_timer)

    def describe(self, words: Words = NAMES) -> str:
        return self.function.describe()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BroadcastInputNode(Node):
    """Takes the elements of each key, and those of a broadcast stream for all keys.

    Attributes:
        input: The step that splits the stream by key.
        rules: The step whose elements reach all keys.
    """

    is_keyed: ClassVar[bool] = True

    input: KeyByNode
    rules: BroadcastNode

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, self.rules)

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        # Any: the nodes are of the same classes.
        changes: dict[str, Any] = dict(zip(("input", "rules"), inputs, strict=True))
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BroadcastProcessNode(BroadcastInputNode):
    """Processes each key's elements and timers with state, and with rules that a broadcast stream changes.

    Attributes:
        function: The user's function.
        on_error: What becomes of elements of keys whose function raised; None: the run fails.
    """

    kind: ClassVar[str] = "broadcast_process"

    function: KeyedBroadcastProcessFunction[Any, Any, Any, Any]
    on_error: ErrorPolicy | None = None

    @property
    def error_policy(self) -> ErrorPolicy | None:
        return self.on_error

    @property
    def fails_without_element(self) -> bool:
        return True

    @property
    def process_function(self) -> KeyedBroadcastProcessFunction[Any, Any, Any, Any]:
        return self.function

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (self.outputs_aside,)

    @property
    def outputs_aside(self) -> object:
        return unwrapped(self.function)

    @property
    def emitting(self) -> tuple[object, ...]:
        function = self.function
        return (function.process_element, function.process_broadcast_element, function.on_timer)

    def describe(self, words: Words = NAMES) -> str:
        return self.function.describe()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimedJoinNode(FunctionNode[Any]):
    """Joins elements of two streams by key and timestamp. Its input is a :class:`KeyByNode` over marked elements.

    Attributes:
        allowed_lateness: In milliseconds: elements of both streams are taken and kept for so much longer.
        late_tags: Those of the side outputs for later elements of the left and of the right stream.
    """

    is_keyed: ClassVar[bool] = True

    allowed_lateness: int = 0
    late_tags: LateTags = NO_LATE_TAGS

    @property
    def pair_function(self) -> object:
        return self.function

    @property
    def lateness(self) -> int:
        return self.allowed_lateness

    @property
    def drops_late(self) -> bool:
        return None in self.late_tags

    @property
    def fate_of_late(self) -> str:
        return fate_with(*self.late_tags)

    @property
    def side_outputs(self) -> tuple[OutputTag[Any], ...]:
        return (*[tag for tag in self.late_tags if tag is not None], *self.failed_tags)

    @property
    def failing_type(self) -> object | None:
        return _pair_type(self.input.element_type, self.pairs_kind)

    @property
    def pairs_kind(self) -> JoinKind:
        """The kind of the join, which says which elements of a pair may be None."""
        return JoinKind.INNER

    def passed_aside(self, tag: OutputTag[Any]) -> tuple[Node, ...]:
        return ()

    def late_type(self, tag: OutputTag[Any]) -> object | None:
        return self.late_tags.element_type(tag, self.input.element_type)

    def describe_lateness(self) -> list[str]:
        """A few words for each setting about late elements."""
        allowed = [f"allowed lateness {duration_text(self.allowed_lateness)}"] if self.allowed_lateness else []
        return [*allowed, *self.late_tags.describe()]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntervalJoinNode(TimedJoinNode):
    """Joins each left element with the right ones whose timestamps lie within bounds around its own.

    Attributes:
        lower: The least distance from the timestamp of the left element to that of a right one, in milliseconds.
        upper: How far at most. If it is below ``lower``, nothing joins.
        function: The user's function of a pair.
        join_kind: Which elements come out without a partner, too.
    """

    kind: ClassVar[str] = "interval_join"

    lower: int
    upper: int
    function: ProcessJoinFunction[Any, Any, Any]
    join_kind: JoinKind = JoinKind.INNER

    @property
    def settings_of_state(self) -> str | None:
        # The watermark alone says which elements are decided, and the partners of others may be gone.
        if self.join_kind is JoinKind.INNER:
            return None
        return f"{self.join_kind.value}, {self.lower} to {self.upper} ms, allowed lateness {self.allowed_lateness} ms"

    @property
    def deciding(self) -> Mapping[str, str | Callable[..., Any]]:
        outer = {} if self.join_kind is JoinKind.INNER else {"the join": self.join_kind.value}
        return {"the bounds": f"{self.lower} to {self.upper} ms", **outer}

    @property
    def pairs_kind(self) -> JoinKind:
        return self.join_kind

    @property
    def outputs_aside(self) -> object | None:
        return None if isinstance(self.function, OneRecord) else self.function

    @property
    def emitting(self) -> tuple[object, ...]:
        return () if isinstance(self.function, Wrapper) else (self.function.process_element,)

    def describe_settings(self) -> list[str]:
        """A few words for each setting."""
        bounds = f"{duration_text(self.lower)} to {duration_text(self.upper)}"
        outer = [] if self.join_kind is JoinKind.INNER else [self.join_kind.value.replace("_join", " outer")]
        return [*outer, bounds, *self.describe_lateness()]

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
        retention: How much earlier than the left element the right one may be, in milliseconds; None: for ever.
        function: The user's function of a pair.
    """

    kind: ClassVar[str] = "as_of_join"

    function: Callable[[Any, Any], Any]
    is_outer: bool = False
    retention: int | None = None

    @property
    def pairs_kind(self) -> JoinKind:
        return JoinKind.LEFT if self.is_outer else JoinKind.INNER

    @property
    def deciding(self) -> Mapping[str, str | Callable[..., Any]]:
        return {"the join": "left outer" if self.is_outer else "inner"}

    @property
    def drops_late(self) -> bool:
        # Late elements of the left stream of an outer join are joined with what is there.
        return self.late_tags.right is None if self.is_outer else None in self.late_tags

    @property
    def fate_of_late(self) -> str:
        if not self.is_outer:
            return fate_with(*self.late_tags)
        return f"miss their partner then, or {fate_with(self.late_tags.right)} where they are of the right stream"

    def describe_settings(self) -> list[str]:
        """A few words for each setting."""
        outer = ["left outer"] if self.is_outer else []
        kept = [] if self.retention is None else [f"retention {duration_text(self.retention)}"]
        return [*outer, *kept, *self.describe_lateness()]

    @property
    def plain_function(self) -> PlainFunction:
        return PlainFunction(self.function)

    def describe(self, words: Words = NAMES) -> str:
        return ", ".join([*self.describe_settings(), words.pair(self.function)])
