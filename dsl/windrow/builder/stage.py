"""Defines the calls that all stages of the builder have: they pass the stage to a user's function that adds steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from windrow.builder.arguments import check_function
from windrow.calls.other_names import unknown_call
from windrow.errors import InvalidArgumentError
from windrow.functions.names import function_name
from windrow.plan.base_node import Node
from windrow.plan.location import caller_location, scope_name, within_scope
from windrow.plan.nodes import SideOutputNode
from windrow.tags import OutputTag

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

P = ParamSpec("P")
R = TypeVar("R")


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
        raise InvalidArgumentError(
            "a side output is named by a tag", given=tag, expected="an OutputTag", where=caller_location()
        )
    step = node.aside_step
    type_form = step.aside_type(tag) if tag.element_type is None else tag.element_type
    return SideOutputNode(input=step, tag=tag, element_type=type_form, location=caller_location())


def _scoped(function: object, scope: str | None, call: Callable[[], R]) -> R:
    """Calls a function of the user's within a scope."""
    location = caller_location()
    while isinstance(function, partial):
        function = function.func
    name = function_name(function) if scope is None else scope_name(scope, location)
    with within_scope(name, is_given=scope is not None, location=location):
        return call()
