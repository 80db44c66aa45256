"""The node of a plan: what each step answers, without a word on how it runs.

Nodes are frozen and compared by identity: two equal calls make two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType, UnionType
from typing import Any, ClassVar, Final, NamedTuple, Self, Union, get_args, get_origin

from windrow.errors import Location
from windrow.functions.marked import CoGroup, JoinPairs, Tagged
from windrow.functions.names import function_name
from windrow.plan.location import Scope, current_scope
from windrow.sinks import Sink
from windrow.sources import Source
from windrow.tags import OutputTag

__all__ = ["NAMES", "Node", "OneInputNode", "PlainFunction", "Words", "type_name"]

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
    """A function that makes the elements of a step.

    Attributes:
        function: The function.
        arguments: The types of its arguments, as far as they are known; None: nothing is.
    """

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
