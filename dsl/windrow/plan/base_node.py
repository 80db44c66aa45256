"""Defines the base class of nodes: what each step of a plan answers, whatever engine runs it.

Nodes are frozen and compared by identity: two equal calls make two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import GenericAlias, NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar, get_args, get_origin

from windrow.errors import Location
from windrow.facts.reached import state_time_domains
from windrow.failures import ErrorPolicy, Failed
from windrow.functions import KeyedBroadcastProcessFunction, KeyedProcessFunction
from windrow.functions.marked import CoGroup, JoinPairs, Tagged
from windrow.functions.names import function_name
from windrow.functions.type_names import type_name
from windrow.functions.wrapper import unwrapped
from windrow.plan.fitting import widest
from windrow.plan.location import Scope, caller_location, current_scope
from windrow.sinks import Sink
from windrow.sources import Source
from windrow.state import MapStateDescriptor
from windrow.tags import OutputTag
from windrow.time import TimeDomain
from windrow.watermarks import WatermarkStrategy
from windrow.windows import WindowAssigner

if TYPE_CHECKING:
    from windrow.plan.keyed_nodes import WindowNode
    from windrow.plan.nodes import KeyByNode

F = TypeVar("F")

# Any throughout this module: a plan holds functions and elements of every type side by side. The builder stages have
# proved that they fit; the nodes only carry them.


class Words(NamedTuple):
    """Names functions and types for the descriptions of steps.

    Attributes:
        function: A few words for a function of one element.
        pair: A few words for a function of two elements.
        joined: A few words for the function of windows of two streams.
        type: A few words for a type.
    """

    function: Callable[[Any], str]
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


def _joined(process: CoGroup[Any] | JoinPairs[Any]) -> str:
    return process.describe()


NAMES: Final = Words(function_name, function_name, _joined, type_name)
"""Functions are called by their names."""


def fate_with(*tags: OutputTag[Any] | None) -> str:
    """What becomes of late elements, in a few words.

    Args:
        tags: The tag of the side output for late elements of each stream; None: they are dropped.
    """
    if None not in tags:
        return "go to the side output of late elements then"
    return "are dropped then" if set(tags) == {None} else "are dropped then, or go to the side output of their stream"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One step.

    Attributes:
        location: The line of the user's program that made it; by default the one that is calling.
        name: The name that the user gave it.
        element_type: The type of its output, where it is known.
        scope: The call of a user's function that made it; None outside of such functions.
    """

    kind: ClassVar[str] = "node"
    is_source: ClassVar[bool] = False
    is_sink: ClassVar[bool] = False
    is_keyed: ClassVar[bool] = False
    """Whether it keeps state by key."""
    keeps_elements: ClassVar[bool] = False
    """Whether the elements of its output are elements of its input."""
    passes_all: ClassVar[bool] = False
    """Whether its output has all elements of its inputs, as they are."""
    sees_time: ClassVar[bool] = False
    """Whether its function may ask for the watermark and the clock, though it keeps no state by key."""
    ends_changes: ClassVar[bool] = False
    """Whether it makes records of results and withdrawals."""
    states_type: ClassVar[bool] = False
    """Whether it only says the type of the elements."""
    shares_attributes: ClassVar[bool] = False
    """Whether calls of its functions share attributes on purpose."""
    passes_aside: ClassVar[bool] = False
    """Whether it puts out elements at side outputs as they came."""
    gives_timestamps: ClassVar[bool] = False
    """Whether it gives timestamps to all elements of its output."""
    has_watermark: ClassVar[bool] = False
    """Whether a watermark of its own is computed for it, though it keeps no state by key."""

    location: Location | None = field(default_factory=caller_location)
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
    def keys(self) -> KeyByNode | None:
        """The step itself if it splits a stream by key, or None."""
        return None

    @property
    def windows(self) -> WindowNode | None:
        """The step itself if it has windows, or None."""
        return None

    @property
    def settings_of_state(self) -> str | None:
        """Further settings that a checkpoint refuses to change, as a text, or None."""
        return None

    @property
    def begins_changes(self) -> str | None:
        """A few words for what withdraws results here, or None."""
        return None

    # Any: rows of every type.
    @property
    def key_of_rows(self) -> Callable[[Any], Any] | None:
        """The function that takes the key of a table from its rows, or None."""
        return None

    @property
    def process_function(
        self,
    ) -> KeyedProcessFunction[Any, Any, Any] | KeyedBroadcastProcessFunction[Any, Any, Any, Any] | None:
        """The user's function that gets each element with state and timers of its key, or None."""
        return None

    @property
    def makes_watermarks(self) -> WatermarkStrategy[Any] | None:
        """The node's watermark strategy, or None."""
        return None

    @property
    def has_timestamps(self) -> bool:
        """Whether the elements of its output carry timestamps; late ones keep theirs, results of windows get some."""
        return self.gives_timestamps or (bool(self.inputs) and all(each.has_timestamps for each in self.inputs))

    @property
    def waits_for_returning(self) -> bool:
        """Whether an input that comes back from being idle counts only when its watermark has caught up."""
        return False

    @property
    def port(self) -> str | None:
        """The input of a step of two streams, such as ``left`` or ``rules``, to which its elements go, or None."""
        return None

    @property
    def broadcast_state(self) -> tuple[MapStateDescriptor[Any, Any], ...]:
        """The descriptors of the maps that its elements change for all keys."""
        return ()

    @property
    def deciding(self) -> Mapping[str, str | Callable[..., Any]]:
        """The functions and settings on which the meaning of stored state depends, by the names that errors show.

        Types and classes are not among them.
        """
        return {}

    @property
    def pair_function(self) -> object | None:
        """The function that makes the results of pairs of elements of two streams, or None."""
        return None

    @property
    def lateness(self) -> int:
        """For how long, in milliseconds, it takes elements that are late."""
        return 0

    @property
    def drops_late(self) -> bool:
        """Whether the node drops late elements because they have no side output."""
        return False

    @property
    def stamps_early(self) -> bool:
        """Whether its results may have timestamps that the watermark has passed."""
        return False

    def stamps_early_in(self, node: Node) -> bool:
        """Whether its results may be late for a step downstream, although the elements of which they are were not.

        Args:
            node: The step downstream.
        """
        return self.stamps_early

    # Any: windows of elements of every type.
    @property
    def windows_in_time(self) -> tuple[WindowAssigner[Any, Any], ...]:
        """The windows in event time by whose ends it says which elements are late."""
        return ()

    @property
    def fate_of_late(self) -> str | None:
        """What becomes of elements that the watermark has passed, in a few words, or None if nothing does."""
        function = self.process_function
        expires = function is not None and TimeDomain.EVENT_TIME in state_time_domains(function)
        return "count as of the time of the watermark where state expires" if expires else None

    @property
    def made_of(self) -> tuple[Node, ...]:
        """The inputs of whose elements it makes its own one by one, with their timestamps and without state."""
        if self.is_source or self.is_keyed:
            return ()
        return self.inputs if self.side_output is None else self.passed_aside(self.side_output)

    @property
    def side_output(self) -> OutputTag[Any] | None:
        """The tag of the side output that it takes, or None."""
        return None

    @property
    def side_outputs(self) -> tuple[OutputTag[Any], ...]:
        """The tags of its side outputs, as far as settings name them."""
        return self.failed_tags

    @property
    def outputs_aside(self) -> object | None:
        """The user's function that may output to side outputs, or None."""
        return None

    @property
    def aside_step(self) -> Node:
        """The step from which ``get_side_output`` of this step's stream takes side outputs."""
        return self

    @property
    def error_policy(self) -> ErrorPolicy | None:
        """The policy for elements whose function raised, or None where the run fails."""
        return None

    @property
    def failed_tags(self) -> tuple[OutputTag[Any], ...]:
        """The tag of the side output of failed elements, if there is one."""
        policy = self.error_policy
        return () if policy is None or policy.tag is None else (policy.tag,)

    def aside_type(self, tag: OutputTag[Any]) -> object | None:
        """The type of the elements of a side output, as far as settings of the step decide it.

        Args:
            tag: The tag of the side output.
        """
        if tag not in self.failed_tags:
            return self.late_type(tag)
        element_type = self.failing_type
        return None if element_type is None else GenericAlias(Failed, (element_type,))

    @property
    def failing_type(self) -> object | None:
        """The type of the elements of failed calls, where it is known; those of two streams come without their mark."""
        types = self.inputs[0].unmarked_types
        return widest([*types, NoneType] if self.fails_without_element else types)

    @property
    def unmarked_types(self) -> tuple[object | None, ...]:
        """The types of its elements without what marks them, such as the stream that they come from."""
        element_type = self.element_type
        return get_args(element_type) if get_origin(element_type) is Tagged else (element_type,)

    @property
    def fails_without_element(self) -> bool:
        """Whether calls that get no element, such as those for timers, are among those that an error policy is for."""
        return False

    def late_type(self, tag: OutputTag[Any]) -> object | None:
        """The type of the late elements that a side output has; None where it is not known, or has no late elements.

        Args:
            tag: The tag of the side output.
        """
        return None

    def passed_aside(self, tag: OutputTag[Any]) -> tuple[Node, ...]:
        """The inputs whose elements a side output has as they came, withdrawn ones among them.

        Args:
            tag: The tag of the side output.
        """
        return self.inputs if self.passes_aside or tag in self.failed_tags else ()

    @property
    def user_parts(self) -> tuple[object, ...]:
        """The objects whose methods users may have written, and their functions; None among them stands for none."""
        return ()

    @property
    def called_classes(self) -> tuple[type, ...]:
        """Further classes, which users may have written, whose methods are called for what they return."""
        return ()

    @property
    def plain_function(self) -> PlainFunction | None:
        """The function whose result decides the type of the elements, or None where a class says it."""
        return None

    @property
    def emitting(self) -> tuple[object, ...]:
        """The functions that return several elements to emit."""
        return ()

    @property
    def shown_kind(self) -> str:
        """The name by which ``explain()`` calls the step: its kind, or the kind of the join that it computes."""
        return self.kind

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
        on_error: What becomes of elements whose function raised; None: the run fails.
    """

    input: Node
    on_error: ErrorPolicy | None = None

    @property
    def error_policy(self) -> ErrorPolicy | None:
        return self.on_error

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        # Any: replace() checks the fields of the one class alone.
        changes: dict[str, Any] = {"input": inputs[0]}
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionNode(OneInputNode, Generic[F]):
    """A step with one input that calls one function of the user's.

    Attributes:
        function: The user's function.
    """

    emits_several: ClassVar[bool] = False
    """Whether the function returns several elements to emit."""

    function: F

    @property
    def user_parts(self) -> tuple[object, ...]:
        return (unwrapped(self.function),)

    @property
    def emitting(self) -> tuple[object, ...]:
        return (unwrapped(self.function),) if self.emits_several else ()

    def describe(self, words: Words = NAMES) -> str:
        return words.function(self.function)
