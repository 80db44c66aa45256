"""The nodes of a plan: what each step is, without a word on how it runs.

Nodes are frozen and compared by identity: two equal calls make two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from windrow.errors import Location
from windrow.evictors import Evictor
from windrow.functions import AggregateFunction, KeyedProcessFunction, ProcessWindowFunction
from windrow.functions.names import function_name
from windrow.panes import ChangeKind
from windrow.panes.settings import DEFAULT_PANES, PaneSettings
from windrow.sinks import Sink
from windrow.sources import Source
from windrow.tags import OutputTag
from windrow.triggers import Trigger
from windrow.watermarks import WatermarkStrategy
from windrow.windows import MergingWindowAssigner, WindowAssigner

__all__ = [
    "AggregateSpec",
    "ChangelogNode",
    "FilterNode",
    "FlatMapNode",
    "FunctionSpec",
    "KeyByNode",
    "KeyedProcessNode",
    "MapNode",
    "Node",
    "ProcessSpec",
    "ReduceSpec",
    "ReturnsNode",
    "SideOutputNode",
    "SinkNode",
    "SourceNode",
    "TimestampsNode",
    "UnionNode",
    "WindowNode",
]

# Any throughout this module: a plan holds functions and elements of every type side by side. The builder stages have
# proved that they fit; the nodes only carry them.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One step.

    Attributes:
        location: The line of the user's program that made it.
        name: The name that the user gave it.
        element_type: The type of its output, where it is known.
    """

    kind: ClassVar[str] = "node"

    location: Location | None = None
    name: str | None = None
    element_type: object | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The steps that it reads from."""
        return ()

    def describe(self) -> str:
        """What it does, in a few words for ``explain()``."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceNode(Node):
    """Reads from a source."""

    kind: ClassVar[str] = "source"

    source: Source[Any]

    def describe(self) -> str:
        return self.source.describe()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OneInputNode(Node):
    """A step with one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapNode(OneInputNode):
    """Makes one element from each."""

    kind: ClassVar[str] = "map"

    function: Callable[[Any], Any]

    def describe(self) -> str:
        return function_name(self.function)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlatMapNode(OneInputNode):
    """Makes any number of elements from each."""

    kind: ClassVar[str] = "flat_map"

    function: Callable[[Any], Iterable[Any] | None]

    def describe(self) -> str:
        return function_name(self.function)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilterNode(OneInputNode):
    """Keeps some elements."""

    kind: ClassVar[str] = "filter"

    function: Callable[[Any], bool]

    def describe(self) -> str:
        return function_name(self.function)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReturnsNode(OneInputNode):
    """Says the type of the elements, and leaves them as they are."""

    kind: ClassVar[str] = "returns"

    def describe(self) -> str:
        return type_name(self.element_type)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangelogNode(OneInputNode):
    """Makes a record from each change, a result or a withdrawal."""

    kind: ClassVar[str] = "changelog"

    function: Callable[[ChangeKind, Any], Any]

    def describe(self) -> str:
        return function_name(self.function)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnionNode(Node):
    """Brings several streams of one type together."""

    kind: ClassVar[str] = "union"

    streams: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.streams


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimestampsNode(OneInputNode):
    """Gives elements timestamps, and makes watermarks from them."""

    kind: ClassVar[str] = "timestamps"

    strategy: WatermarkStrategy[Any]
    timestamp: Callable[[Any], int | datetime] | None = None

    def describe(self) -> str:
        return self.strategy.description


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyByNode(OneInputNode):
    """Splits a stream by key. The elements stay; what follows sees each key by itself."""

    kind: ClassVar[str] = "key_by"

    selector: Callable[[Any], Any]
    key_type: object | None = None

    def describe(self) -> str:
        return function_name(self.selector)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionSpec:
    """What a window computes. ``process`` sees the contents, or the one value that came before it."""

    process: ProcessWindowFunction[Any, Any, Any, Any] | None = None

    def describe(self) -> str:
        """A few words for ``explain()``."""
        return ""

    @property
    def _behind(self) -> str:
        return f", {self.process.describe()}" if self.process is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReduceSpec(FunctionSpec):
    """Combines elements two by two, then maybe processes the one that is left."""

    reduce: Callable[[Any, Any], Any]

    def describe(self) -> str:
        return f"reduce {function_name(self.reduce)}{self._behind}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AggregateSpec(FunctionSpec):
    """Folds elements into an accumulator, then maybe processes the result.

    Attributes:
        shown: What the user wrote, where that was made into an aggregate and a function of the window.
    """

    aggregate: AggregateFunction[Any, Any, Any]
    shown: str | None = None

    def describe(self) -> str:
        if self.shown is not None:
            return f"aggregate {self.shown}"
        return f"aggregate {self.aggregate.describe()}{self._behind}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessSpec(FunctionSpec):
    """Processes all elements when the window fires."""

    # It has no default here, where it cannot be missing.
    process: ProcessWindowFunction[Any, Any, Any, Any]  # pyright: ignore[reportGeneralTypeIssues]

    def describe(self) -> str:
        return f"process {self.process.describe()}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowNode(OneInputNode):
    """Windows, and what they compute. Its input is a :class:`KeyByNode`, or any other node for windows without keys.

    Attributes:
        allowed_lateness: In milliseconds.
    """

    kind: ClassVar[str] = "window"

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any] | None = None
    evictor: Evictor[Any, Any] | None = None
    allowed_lateness: int | None = None
    late_tag: OutputTag[Any] | None = None
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

    @property
    def effective_trigger(self) -> Trigger[Any, Any]:
        """The trigger that was set, or the assigner's default."""
        return self.trigger if self.trigger is not None else self.assigner.default_trigger()

    def describe(self) -> str:
        parts = [self.assigner.describe(), f"trigger {self.effective_trigger.describe()}"]
        if self.evictor is not None:
            parts.append(f"evictor {self.evictor.describe()}")
        if self.allowed_lateness:
            parts.append(f"lateness {self.allowed_lateness} ms")
        if self.late_tag is not None:
            parts.append(f"late to {self.late_tag.name!r}")
        parts += self.panes.describe()
        parts.append(self.function.describe())
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedProcessNode(OneInputNode):
    """Processes each key's elements and timers with state. Its input is a :class:`KeyByNode`."""

    kind: ClassVar[str] = "process"

    function: KeyedProcessFunction[Any, Any, Any]

    def describe(self) -> str:
        return self.function.describe()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SideOutputNode(OneInputNode):
    """Takes a side output of a step."""

    kind: ClassVar[str] = "side_output"

    tag: OutputTag[Any]

    def describe(self) -> str:
        return repr(self.tag.name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SinkNode(OneInputNode):
    """Writes to a sink."""

    kind: ClassVar[str] = "sink"

    sink: Sink[Any]

    def describe(self) -> str:
        return self.sink.describe()


def type_name(kind: object) -> str:
    """How a type is called in a plan."""
    if kind is None:
        return "?"
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)
