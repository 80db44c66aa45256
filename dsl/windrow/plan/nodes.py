"""Defines the nodes without state: sources, sinks, and the steps between keyed steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Final, Self

from windrow.functions import AsyncRetryStrategy, FixedDelayRetryStrategy, ProcessFunction
from windrow.functions.marked import CoProcessed, CoProcessWithoutKeys, FromLeft, FromRight, SideKey
from windrow.functions.names import function_name
from windrow.functions.wrapper import unwrapped
from windrow.panes import ChangeKind
from windrow.plan.base_node import NAMES, FunctionNode, Node, OneInputNode, PlainFunction, Words
from windrow.sinks import Sink
from windrow.sources import Source
from windrow.state import MapStateDescriptor
from windrow.tags import OutputTag
from windrow.time import duration_text
from windrow.watermarks import WatermarkStrategy

# Any throughout this module: a plan holds functions and elements of every type side by side. The builder stages have
# proved that they fit; the nodes only carry them.


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

    @property
    def has_timestamps(self) -> bool:
        return self.source.has_timestamps

    @property
    def side_outputs(self) -> tuple[OutputTag[Any], ...]:
        tag = self.source.on_malformed
        return (tag,) if isinstance(tag, OutputTag) else ()

    def describe(self, words: Words = NAMES) -> str:
        return self.source.describe()


_PORTS: Final[Mapping[object, str]] = {FromLeft: "left", FromRight: "right"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapNode(FunctionNode[Callable[[Any], Any]]):
    """Makes one element from each."""

    kind: ClassVar[str] = "map"

    @property
    def plain_function(self) -> PlainFunction:
        return PlainFunction(self.function, (self.input.element_type,))

    @property
    def port(self) -> str | None:
        return _PORTS.get(type(self.function))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlatMapNode(FunctionNode[Callable[[Any], Iterable[Any] | None]]):
    """Makes any number of elements from each."""

    kind: ClassVar[str] = "flat_map"
    emits_several: ClassVar[bool] = True

    @property
    def plain_function(self) -> PlainFunction:
        return PlainFunction(self.function, (self.input.element_type,))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilterNode(FunctionNode[Callable[[Any], bool]]):
    """Keeps some elements."""

    kind: ClassVar[str] = "filter"
    keeps_elements: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessNode(FunctionNode[ProcessFunction[Any, Any]]):
    """Makes any number of elements from each, and puts others out at side outputs; without keys."""

    kind: ClassVar[str] = "process"
    sees_time: ClassVar[bool] = True
    has_watermark: ClassVar[bool] = True
    passes_aside: ClassVar[bool] = True

    @property
    def user_parts(self) -> tuple[object, ...]:
        function = unwrapped(self.function)
        return tuple(map(unwrapped, function.functions)) if isinstance(function, CoProcessed) else (function,)

    @property
    def emitting(self) -> tuple[object, ...]:
        function = self.function
        if isinstance(function, CoProcessWithoutKeys):
            return (function.function.process_element1, function.function.process_element2)
        inner = unwrapped(function)
        return (inner.process_element if isinstance(inner, ProcessFunction) else inner,)

    @property
    def outputs_aside(self) -> object:
        return unwrapped(self.function)

    def describe(self, words: Words = NAMES) -> str:
        return self.function.describe()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapBatchesNode(FunctionNode[Callable[[Sequence[Any]], Iterable[Any]]]):
    """Makes one element from each, several at a time.

    Attributes:
        size: The most elements of a call.
    """

    kind: ClassVar[str] = "map_batches"
    emits_several: ClassVar[bool] = True

    size: int

    @property
    def plain_function(self) -> PlainFunction:
        return PlainFunction(self.function)

    def describe(self, words: Words = NAMES) -> str:
        return f"{words.function(self.function)}, at most {self.size}"


_NO_RETRIES: Final = FixedDelayRetryStrategy(1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapAsyncNode(FunctionNode[Callable[[Any], Awaitable[Any]]]):
    """Makes one element from each by a coroutine, many side by side.

    Attributes:
        capacity: How many coroutines are under way at most.
        timeout: The milliseconds that a try may take; None: any time.
        rate_limit: How many tries of a worker may begin in a second; None: any number.
        retry: Decides whether and when a try follows one that failed.
        ordered: Whether results keep the order of the elements.
        timed_out: The side output for elements whose last try took too long; None: that is a failure.
        failed: The side output for elements whose last try failed; None: that is an error.
    """

    kind: ClassVar[str] = "map_async"
    passes_aside: ClassVar[bool] = True
    shares_attributes: ClassVar[bool] = True

    capacity: int
    timeout: int | None = None
    rate_limit: float | None = None
    retry: AsyncRetryStrategy = _NO_RETRIES
    ordered: bool = True
    timed_out: OutputTag[Any] | None = None
    failed: OutputTag[Any] | None = None

    @property
    def called_classes(self) -> tuple[type, ...]:
        return (type(self.retry),)

    @property
    def side_outputs(self) -> tuple[OutputTag[Any], ...]:
        return (*[tag for tag in (self.timed_out, self.failed) if tag is not None], *self.failed_tags)

    def describe(self, words: Words = NAMES) -> str:
        settings = [function_name(self.function), f"capacity {self.capacity}"]
        if self.timeout is not None:
            settings.append(f"timeout {duration_text(self.timeout)}")
        if self.rate_limit is not None:
            settings.append(f"{self.rate_limit:g} a second")
        if self.retry.can_retry(1):
            settings.append(self.retry.describe())
        settings.append("ordered" if self.ordered else "unordered")
        if self.timed_out is not None:
            settings.append(f"timed out to {self.timed_out.name!r}")
        if self.failed is not None:
            settings.append(f"failed to {self.failed.name!r}")
        return ", ".join(settings)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReturnsNode(OneInputNode):
    """Says the type of the elements, and leaves them as they are."""

    kind: ClassVar[str] = "returns"
    passes_all: ClassVar[bool] = True
    states_type: ClassVar[bool] = True

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
class FromChangesNode(OneInputNode):
    """Takes records of changes as results and withdrawals.

    Attributes:
        call: The call that has made it.
        row_key: Takes the key from a row, where each key has one row.
    """

    kind: ClassVar[str] = "from_changes"
    ends_changes: ClassVar[bool] = True

    call: str = "from_changes"
    row_key: Callable[[Any], Any] | None = None

    @property
    def key_of_rows(self) -> Callable[[Any], Any] | None:
        return self.row_key

    @property
    def begins_changes(self) -> str | None:
        return f"changes by {self.call}"

    def describe(self, words: Words = NAMES) -> str:
        return "rows of changes"


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
    has_watermark: ClassVar[bool] = True

    streams: tuple[Node, ...]
    counts_at_once: bool = False

    @property
    def waits_for_returning(self) -> bool:
        return not self.counts_at_once

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
    gives_timestamps: ClassVar[bool] = True

    strategy: WatermarkStrategy[Any]
    timestamp: Callable[[Any], int | datetime] | None = None

    @property
    def makes_watermarks(self) -> WatermarkStrategy[Any]:
        return self.strategy

    @property
    def called_classes(self) -> tuple[type, ...]:
        generator = self.strategy.create_generator
        return (generator,) if isinstance(generator, type) else ()

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
    def keys(self) -> KeyByNode:
        return self

    @property
    def user_parts(self) -> tuple[object, ...]:
        return self.selector.selectors if isinstance(self.selector, SideKey) else (self.selector,)

    @property
    def deciding(self) -> Mapping[str, str | Callable[..., Any]]:
        if isinstance(self.selector, SideKey):
            return dict(zip(("the key of the left", "the key of the right"), self.selector.selectors, strict=True))
        return {"the key": self.selector}

    def describe(self, words: Words = NAMES) -> str:
        return words.function(self.selector)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BroadcastNode(OneInputNode):
    """Sends each element to all keys.

    Attributes:
        descriptors: Those of the maps that the elements change.
    """

    kind: ClassVar[str] = "broadcast"

    descriptors: tuple[MapStateDescriptor[Any, Any], ...]

    @property
    def port(self) -> str:
        return "rules"

    @property
    def broadcast_state(self) -> tuple[MapStateDescriptor[Any, Any], ...]:
        return self.descriptors

    def describe(self, words: Words = NAMES) -> str:
        return ", ".join(repr(descriptor.name) for descriptor in self.descriptors)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SideOutputNode(OneInputNode):
    """Takes a side output of a step.

    Attributes:
        tag: Names the side output.
    """

    kind: ClassVar[str] = "side_output"

    tag: OutputTag[Any]

    @property
    def has_timestamps(self) -> bool:
        step = self.input
        if isinstance(step, TimestampsNode) and self.tag in step.failed_tags:
            return step.input.has_timestamps  # a failed element has the timestamp that it came with
        return step.has_timestamps

    @property
    def side_output(self) -> OutputTag[Any]:
        return self.tag

    def passed_aside(self, tag: OutputTag[Any]) -> tuple[Node, ...]:
        return self.input.passed_aside(tag)

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
    shares_attributes: ClassVar[bool] = True
    has_watermark: ClassVar[bool] = True

    sink: Sink[Any]

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (self.sink,)

    @property
    def writes(self) -> Sink[Any]:
        return self.sink

    def describe(self, words: Words = NAMES) -> str:
        return self.sink.describe()
