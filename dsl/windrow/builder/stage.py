"""Defines the calls that all stages of the builder have, and what a stream becomes when it is given a sink."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from windrow.builder.arguments import check_function
from windrow.calls.other_names import unknown_call
from windrow.functions.names import function_name
from windrow.plan.base_node import Node
from windrow.plan.location import caller_location, refusal, scope_name, within_scope
from windrow.plan.nodes import SideOutputNode
from windrow.plan.pipeline import PipelineSink
from windrow.tags import OutputTag

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class Stage:
    """A stream, or what stands between calls that belong together, such as ``key_by`` and ``window``."""

    __slots__ = ()

    def apply_transform(self, function: Callable[[Self], R], *, name: str | None = None) -> R:
        """Call a function of yours with this stage, so that it adds steps; returns the result of the function.

        The steps are in a scope: ``explain()``, errors, counters and reports show them as ``cleaned/filter``, and a
        checkpoint keeps their state under such names. A scope may hold others, and a function may be used many times:
        the scopes of further uses are called ``cleaned#2`` and so on, in the order of the plan. Give names where uses
        may come and go, so that each finds its state again. ``function(stream)`` makes the same steps without a scope::

            def cleaned(readings: DataStream[Reading]) -> DataStream[Reading]:
                return readings.filter(lambda reading: reading.celsius > -90)


            coldest = readings.apply_transform(cleaned, name="north").key_by(lambda r: r.sensor)

        Args:
            function: Called once, at once. It returns anything: a stream, several of them, another stage, a sink.
            name: Names the scope; by default it has the name of the function. Each is for one scope of a plan.

        Raises:
            InvalidArgumentError: If ``function`` cannot be called, or ``name`` is empty or has ``/`` or ``#`` in it.
        """
        check_function(function, "apply_transform")
        return _scoped(function, name, partial(function, self))

    def pipe(self, function: Callable[Concatenate[Self, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Give this stage to a function of yours, with further arguments; see :meth:`apply_transform`.

        ::

            def above(readings: DataStream[Reading], celsius: float) -> DataStream[Reading]:
                return readings.filter(lambda reading: reading.celsius > celsius)


            warm = readings.pipe(cleaned).pipe(above, celsius=20.0)

        Args:
            function: Called once, at once, with this stage first. Its name is that of the scope.
            args: What it takes besides.
            kwargs: What it takes by name.

        Raises:
            InvalidArgumentError: If ``function`` cannot be called.
        """
        check_function(function, "pipe")
        return _scoped(function, None, partial(function, self, *args, **kwargs))

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what to write instead of a name of other systems."""
            raise unknown_call(self, name, {})

    # Any: the methods that call this say of which type the elements are.
    @staticmethod
    def _stream_of(node: Node) -> DataStream[Any]:
        """The stream that a step makes."""
        # A stream makes all stages, so their modules cannot import its module while they are imported.
        from windrow.builder.stream import DataStream

        return DataStream(node)


# Any: elements of every type; the methods of streams say which.
def side_output_node(node: Node, tag: OutputTag[Any]) -> SideOutputNode:
    """The step that takes a side output of ``node``.

    Raises:
        InvalidArgumentError: If it is no :class:`OutputTag`.
    """
    if not isinstance(tag, OutputTag):
        raise refusal(
            "a side output is named by a tag",
            given=tag,
            expected="an OutputTag",
            hint=f"OutputTag({tag!r}, Type), of windrow" if isinstance(tag, str) else None,
        )
    step = node.aside_step
    type_form = step.aside_type(tag) if tag.element_type is None else tag.element_type
    return SideOutputNode(input=step, tag=tag, element_type=type_form)


class DataStreamSink(PipelineSink):
    """A stream with the sink it goes to; made by ``DataStream.sink_to`` and given to a :class:`~windrow.Pipeline`.

    One that no pipeline was given writes nothing. Python then shows a :class:`~windrow.errors.WindrowWarning`, when the
    object is deleted or the program ends.
    """

    __slots__ = ()

    def get_side_output(self, tag: OutputTag[S]) -> DataStream[S]:
        """The elements that the sink cannot write, each as a :class:`~windrow.failures.Failed`.

        It is as Beam's ``getFailedInserts`` of what ``BigQueryIO`` gives. A pipeline with a sink of them has this sink,
        too.

        Args:
            tag: The one that ``sink_to`` was given as ``on_error``, or another of the same name.

        Raises:
            InvalidArgumentError: If it is no :class:`OutputTag`, or ``sink_to`` was not given it.
        """
        # As above.
        from windrow.builder.stream import DataStream

        node = side_output_node(self.node, tag)
        if tag not in self.node.failed_tags:
            policy = self.node.error_policy
            raise refusal(
                "the sink has no such side output",
                given=tag.name,
                expected="the tag of sink_to(..., on_error=tag)",
                hint=None if policy is None else f"the sink has the policy {policy.describe()!r}",
            )
        return DataStream(node)


def _scoped(function: object, scope: str | None, call: Callable[[], R]) -> R:
    """Calls a function of the user's within a scope."""
    location = caller_location()
    while isinstance(function, partial):
        function = function.func
    name = function_name(function) if scope is None else scope_name(scope, location)
    with within_scope(name, is_given=scope is not None, location=location):
        return call()
