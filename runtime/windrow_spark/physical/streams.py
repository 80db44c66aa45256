"""Finds the routes by which columns get to each step of a plan, in one pass: inputs come before what reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from windrow.errors import InvalidArgumentError
from windrow.functions.marked import LEFT, RIGHT, SideKey
from windrow.plan import Node, Step
from windrow.plan.changing import carries_changes
from windrow.windows import GlobalWindows
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import source_of
from windrow_spark.columnar.forms.route import Route
from windrow_spark.columnar.forms.route_step import (
    ROUTE_STEPS,
    RouteStep,
    check_constructor,
    check_made,
    check_parts_only,
    columns_type,
    keying_step,
    route_step,
)
from windrow_spark.physical.plan import Objects, decided

# Any in this module: sources and selectors of elements of every type.

CheckSource: TypeAlias = Callable[[Step], None]
"""Declines a source that gives an engine no columns."""


class Streams:
    """The streams of a plan as columns, as far as its steps were added."""

    def __init__(self, check_source: CheckSource) -> None:
        self._check_source = check_source
        self._steps: dict[str, Step] = {}
        self._routes: dict[str, tuple[Route, ...] | Objects] = {}  # those to what reads a step, by its id
        # Those that there would be if no step had a policy for elements that fail, where a policy makes the difference.
        self._without_policies: dict[str, tuple[Route, ...]] = {}

    def add(self, step: Step, results: RecordType | Objects | None = None, *, stamped: bool = True) -> None:
        """Adds a step whose inputs were added; a keyed one with the type of its results, which may be ``stamped``."""
        self._steps[step.id] = step
        self._routes[step.id] = decided(lambda: self._routes_out_of(step, results, stamped=stamped))
        guarded = step.node.error_policy is not None or not self._without_policies.keys().isdisjoint(step.inputs)
        if guarded and not step.node.is_keyed and isinstance(self._routes[step.id], Objects):
            routes = decided(lambda: self._routes_out_of(step, results, policies=False))
            if not isinstance(routes, Objects):
                self._without_policies[step.id] = routes

    def routes_from(self, step_id: str) -> tuple[Route, ...]:
        """Returns all routes to the readers of a step, without keys; declined if elements get there as objects."""
        routes = self._routes_from(step_id)
        _check_single(routes)
        return routes

    def routes_to(
        self, step: Step, *, stamped: bool = True, of_objects: bool = False, policies: bool = True
    ) -> tuple[Route, ...]:
        """All routes to a keyed step; declined where elements cannot get there as columns, with timestamps.

        The route ``of_objects`` begins where the key is taken: they may have come any way. Without ``policies`` these
        are the routes that there would be if no step had a policy for elements that fail.
        """
        if len(step.inputs) > 1:
            raise DeclinedError("some elements are for all keys")
        upstream = self._steps[step.inputs[0]]
        selector = None if upstream.node.keys is None else upstream.node.keys.selector
        begin = upstream.id if selector is None else upstream.inputs[0]
        routes = self._routes_from(begin, of_objects=of_objects, policies=policies)
        routes = tuple([_ending(route, upstream, selector, stamped=stamped, policies=policies) for route in routes])
        _check_single(routes, "get there")
        return routes

    def side_routes(self, step: Step, *, of_objects: bool = False, policies: bool = True) -> tuple[Route, ...]:
        """All routes of two streams to a keyed step that joins them by key; declined as those of :meth:`routes_to`.

        A step upstream may be on routes of both streams.
        """
        upstream = self._steps[step.inputs[0]]
        assert upstream.node.keys is not None, "joins are by key"
        selector = upstream.node.keys.selector
        assert isinstance(selector, SideKey), "each stream has a selector of its own"
        marking = self._steps[upstream.inputs[0]].inputs
        routes: list[Route] = []
        for side, marker, of_side in zip((LEFT, RIGHT), marking, selector.selectors, strict=True):
            marked = self._routes_from(self._steps[marker].inputs[0], of_objects=of_objects, policies=policies)
            ending = [_ending(route, upstream, of_side, stamped=True) for route in marked]
            for route in ending:
                check_parts_only(route.element)
            _check_single(ending, "are in one of the streams")
            routes += [replace(route, side=side) for route in ending]
        if len({route.key_type for route in routes}) > 1:
            raise DeclinedError("the keys of both streams have other columns")
        return tuple(routes)

    def _routes_from(self, step_id: str, *, of_objects: bool = False, policies: bool = True) -> tuple[Route, ...]:
        if of_objects:
            record_type = columns_type(_known_type(self._steps[step_id].node))
            return (Route("", check_constructor(record_type), has_stamps=True),)
        if not policies and step_id in self._without_policies:
            return self._without_policies[step_id]
        routes = self._routes[step_id]
        if isinstance(routes, Objects):
            raise DeclinedError(routes.reason)
        return routes

    def _routes_out_of(
        self, step: Step, results: RecordType | Objects | None, *, policies: bool = True, stamped: bool = True
    ) -> tuple[Route, ...]:
        """Returns the routes from a step to its readers; these routes have no key yet."""
        node = step.node
        if node.is_source:
            # Before its elements and the steps downstream: without columns at the source, no change of these helps.
            try:
                self._check_source(step)
            except InvalidArgumentError as error:
                raise DeclinedError(error.message) from error  # a type that no format reads, which a run refuses
            return (Route(step.id, _element_of(step)),)
        if node.is_keyed:
            if carries_changes(node):
                # Their kinds have no column in the exchange.
                raise DeclinedError(f"{step.id} withdraws results")
            assert results is not None, "it was planned"
            if isinstance(results, Objects):
                raise DeclinedError(results.reason)
            at_end = node.windows is not None and isinstance(node.windows.assigner, GlobalWindows)
            return (Route(step.id, results, has_stamps=stamped, begins_at_end=at_end),)
        leads_on = node.passes_all and node.keys is None
        if not leads_on and type(node) not in ROUTE_STEPS:
            raise DeclinedError(f"{step.id} is upstream")
        routes = tuple([route for source in step.inputs for route in self._routes_from(source, policies=policies)])
        return routes if leads_on else tuple([_extended(route, step, policies=policies) for route in routes])


def _check_single(routes: Sequence[Route], of_several_types: str | None = None) -> None:
    """Declines several routes from one step and, if the text for them is given, elements of several types."""
    if len({route.source for route in routes}) < len(routes):
        raise DeclinedError("elements of one step get there by several routes")
    if of_several_types is not None and len({route.element for route in routes}) > 1:
        raise DeclinedError(f"elements of several types {of_several_types}")


def _ending(
    route: Route, step: Step, selector: Callable[[Any], Any] | None, *, stamped: bool, policies: bool = True
) -> Route:
    """The route with the key that is taken at its end."""
    for each in route.steps:
        if each.may_outgrow:
            raise DeclinedError(f"{each.step.id} makes ints that may outgrow 64 bits")
    if stamped and not route.is_stamped:
        raise DeclinedError("elements have no timestamps on the way")
    if selector is None:
        return route
    keyed = keying_step(step, selector, route.element)
    # The elements of a route that begins at the key have one already: those for which the selector raised are left out.
    if policies and route.source:
        _check_policy(keyed)
    return replace(route, keyed=keyed)


def _check_policy(taken: RouteStep) -> None:
    """Declines a step with a policy for elements that fail, unless its function fails for none."""
    if taken.step.node.error_policy is not None and not taken.is_total:
        raise DeclinedError(f"{taken.step.id} has a policy for elements that fail, so it takes them one by one")


def _element_of(step: Step) -> RecordType:
    record_type = columns_type(_known_type(step.node))
    decoded = source_of(step).decoded_type
    if decoded is not None:
        # The fields that the source itself adds to a record are well-formed.
        check_made(columns_type(decoded))
        return record_type
    return check_made(record_type)


def _known_type(node: Node) -> object:
    if node.element_type is None:
        raise DeclinedError("the type of the elements is not known")
    return node.element_type


def _extended(route: Route, step: Step, *, policies: bool) -> Route:
    """The route that goes on through one more step."""
    last = route_step(step, route.element, is_stamped=route.is_stamped)
    if policies:
        _check_policy(last)
    return replace(route, element=last.result, steps=(*route.steps, last))
