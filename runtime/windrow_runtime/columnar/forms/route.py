"""Finds the way by which columns get to a keyed step or a sink, if every function on it is a plain expression.

Columns come from sources, and from other keyed steps on columns, whose results are columns.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from windrow.errors import InvalidArgumentError
from windrow.functions.marked import LEFT, RIGHT, SideKey
from windrow.plan import (
    BroadcastProcessNode,
    FilterNode,
    KeyByNode,
    MapNode,
    ReturnsNode,
    SourceNode,
    Step,
    TimestampsNode,
    UnionNode,
)
from windrow.plan.changing import carries_changes
from windrow.sources import Source
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar import Hashes, Ints
from windrow_runtime.columnar.expressions.over_columns import ColumnExpression, ColumnRecord
from windrow_runtime.columnar.forms.route_step import RouteStep, check_made, keying_step, route_step
from windrow_runtime.columnar.rows.groups import Keys
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology, is_keyed
from windrow_runtime.operators.windows.partials import Partials

# Any in this module: sources and selectors of elements of every type.

CheckSource: TypeAlias = Callable[[Source[Any]], None]
"""Declines a source that gives an engine no columns."""

ResultsOf: TypeAlias = Callable[[Step], RecordType]
"""Returns the type of the results of a keyed step; declines a step whose results are no columns."""


@dataclass(frozen=True, slots=True)
class Route:
    """The steps between a source, or a keyed step, and the next keyed step or a sink, in order."""

    source: str  # the id of the source, or of the keyed step whose results the elements are
    element: RecordType  # the type of the elements at the end of the way
    steps: tuple[RouteStep, ...] = ()
    keyed: RouteStep | None = None  # takes the keys at the end; None: the stream has none
    has_stamps: bool = False  # whether the elements have timestamps where the way begins
    side: int | None = None  # LEFT or RIGHT, of two streams that come together there; None: there is one stream

    @property
    def assigns_stamps(self) -> bool:
        """Returns whether elements get timestamps on the way."""
        return any(isinstance(each.step.node, TimestampsNode) and each.expression is not None for each in self.steps)

    @property
    def is_stamped(self) -> bool:
        """Returns whether elements have timestamps at the end of the way."""
        return self.has_stamps or self.assigns_stamps

    @property
    def key(self) -> ColumnExpression | None:
        """The expression of the key; None: the stream has none."""
        found = None if self.keyed is None else self.keyed.expression
        assert not isinstance(found, ColumnRecord), "a key is one value"
        return found

    @property
    def key_type(self) -> pa.DataType:
        """The Arrow type of keys."""
        return pa.null() if self.key is None else self.key.arrow_type

    def with_steps(self, topology: Topology) -> Route:
        """Returns the same way through the steps of another topology, such as that of workers, by their ids."""
        steps = [replace(each, step=topology.step(each.step.id)) for each in self.steps]
        keyed = None if self.keyed is None else replace(self.keyed, step=topology.step(self.keyed.step.id))
        return replace(self, steps=tuple(steps), keyed=keyed)

    def columns_needed(self, at_end: frozenset[str] | None) -> frozenset[str] | None:
        """The columns, where the way begins, that are needed for some at its end; None: all."""
        needed: frozenset[str] = frozenset()
        for step in self.steps:
            if step.expression is not None:
                needed |= step.expression.columns
            if isinstance(step.step.node, MapNode):
                return needed
        return None if at_end is None else needed | at_end

    def run(self, batch: pa.RecordBatch, given: Ints | None) -> tuple[pa.RecordBatch, Ints, dict[str, int]]:
        """Elements at the end of the way, their timestamps in ms, and the highest that each step gave.

        They begin the way with timestamps, unless they are those of a source. Where no step gives any, they are 0.
        """
        stamps: pa.Array = None if given is None else pa.array(given)
        highest: dict[str, int] = {}
        for step in self.steps:
            node = step.step.node
            found = stamps if step.expression is None else step.evaluate(batch)
            if isinstance(node, FilterNode):
                batch = batch.filter(found)
                stamps = stamps if stamps is None else stamps.filter(found)
            elif isinstance(node, MapNode):
                is_record = isinstance(step.expression, ColumnRecord)
                batch = found if is_record else pa.RecordBatch.from_arrays([found], ["value"])
            else:
                stamps = found
                if pa.types.is_timestamp(found.type):
                    micros = found.cast(pa.timestamp("us", tz=found.type.tz)).view(pa.int64())
                    stamps = pa.array(micros.to_numpy() // 1_000)
                if len(stamps):
                    highest[step.step.id] = int(stamps.to_numpy().max())
        if stamps is None:
            return batch, np.zeros(batch.num_rows, np.int64), highest
        return batch, stamps.to_numpy(), highest


class ExchangeRows(enum.Enum):
    """Says whether rows in the exchange are elements, or partial aggregates."""

    ELEMENTS = enum.auto()
    AGGREGABLE = enum.auto()  # elements, unless accumulators of Python functions cross in their place
    AGGREGATED = enum.auto()


@dataclass(frozen=True)
class ScanTarget(ABC):
    """A keyed step whose elements leave sources or other keyed steps as columns; it may run on columns or on objects.

    A task calls ``check`` and ``columns_of`` for each batch that it has, and then, for some batches in one before
    they go through the exchange, ``exchange_rows``, ``hash_keys`` and ``partials``. In workers the step is without
    what only the driver can load.
    """

    step: Step
    routes: tuple[Route, ...]  # from each source, and from each keyed step in front

    @property
    def element(self) -> RecordType:
        """The type of the elements."""
        return self.routes[0].element

    @property
    def key_type(self) -> pa.DataType:
        """The Arrow type of keys."""
        return self.routes[0].key_type

    def _schema_of(self, fields: Sequence[pa.Field]) -> pa.Schema:
        return pa.schema([pa.field("key", self.key_type), pa.field("at", pa.int64()), *fields])

    def _element_fields(self) -> list[pa.Field]:
        return [field.with_name(f"e{place}") for place, field in enumerate(arrow_schema(self.element))]

    @property
    @abstractmethod
    def raw_schema(self) -> pa.Schema:
        """The columns of elements one by one: key, timestamp, and what the step takes of them."""

    def columns_needed(self, route: Route) -> frozenset[str] | None:
        """The columns that are needed of elements which come by a route, where it begins; None: all."""
        return route.columns_needed(None)

    def check(self, stamps: Ints) -> None:  # noqa: B027  most steps take all timestamps
        """Refuses timestamps, in milliseconds, that are too far away for the step."""

    def stamps_of(self, route: Route, stamps: Ints) -> pa.Array:
        """The timestamps of elements that came by a route; those of elements without any are 0."""
        return pa.array(stamps)

    def columns_of(self, route: Route, named: Mapping[str, pa.Array]) -> list[pa.Array]:
        """The columns that the step takes beside key and timestamp, from those of elements that came by a route."""
        return list(named.values())

    def exchange_rows(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[tuple[ExchangeRows, pa.RecordBatch]]:
        """Rows as they cross the exchange, and what they are then; the key is in the first column.

        No watermark is above the bound when the elements arrive; None: there is no bound that is known.
        """
        yield ExchangeRows.ELEMENTS, rows

    @staticmethod
    @abstractmethod
    def hash_keys(keys: pa.Array) -> Hashes:
        """Hashes that decide in which key group keys lie."""

    def partials(self, keys: Keys, rows: pa.RecordBatch) -> tuple[Ints, Partials] | None:
        """Accumulators that stand for foldable rows, and the code of the key of each; None: they cross as they are."""
        return None

    def elements_of(self, columns: Sequence[pa.Array]) -> list[Any]:
        """The elements whose columns these are."""
        return decode_batch(self.batch_of(columns), self.element)

    def batch_of(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """The record batch of elements whose columns these are."""
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.element))


def no_results(step: Step) -> RecordType:
    """Declines each keyed step: its results are objects."""
    raise DeclinedError(f"{step.id} is in front")


def routes_to(
    topology: Topology,
    step: Step,
    check_source: CheckSource,
    results_of: ResultsOf = no_results,
    *,
    stamped: bool = True,
) -> tuple[Route, ...]:
    """All routes to a keyed step; declined where elements cannot get there as columns, with timestamps."""
    if isinstance(step.node, BroadcastProcessNode):
        raise DeclinedError("some elements are for all keys")
    before = topology.step(step.inputs[0])
    key_by = before.node if isinstance(before.node, KeyByNode) else None
    routes = _routes(topology, topology.step(before.inputs[0]) if key_by is not None else before, results_of)
    selector = None if key_by is None else key_by.selector
    routes = [_ending(route, before, selector, stamped=stamped) for route in routes]
    if len({route.source for route in routes}) < len(routes):
        raise DeclinedError("elements of one step get there by several routes")
    if len({route.element for route in routes}) > 1:
        raise DeclinedError("elements of several types get there")
    _check_sources(topology, routes, check_source)
    return tuple(routes)


def open_routes(
    topology: Topology, before: Step, check_source: CheckSource, results_of: ResultsOf = no_results
) -> tuple[Route, ...]:
    """All routes to what reads a step, without keys; declined where elements do not get there as columns."""
    routes = _routes(topology, before, results_of)
    if len({route.source for route in routes}) < len(routes):
        raise DeclinedError("elements of one step get there by several routes")
    _check_sources(topology, routes, check_source)
    return tuple(routes)


def side_routes(
    topology: Topology, step: Step, check_source: CheckSource, results_of: ResultsOf = no_results
) -> tuple[Route, ...]:
    """All routes of two streams to a keyed step that joins them by key; declined as those of :func:`routes_to`.

    A step in front may be on routes of both streams.
    """
    before = topology.step(step.inputs[0])
    assert isinstance(before.node, KeyByNode), "joins are by key"
    selector = before.node.selector
    assert isinstance(selector, SideKey), "each stream has a selector of its own"
    marking = map(topology.step, topology.step(before.inputs[0]).inputs)
    routes: list[Route] = []
    for side, marker, of_side in zip((LEFT, RIGHT), marking, selector.selectors, strict=True):
        found = _routes(topology, topology.step(marker.inputs[0]), results_of)
        found = [replace(_ending(route, before, of_side, stamped=True), side=side) for route in found]
        if len({route.source for route in found}) < len(found):
            raise DeclinedError("elements of one step get there by several routes")
        if len({route.element for route in found}) > 1:
            raise DeclinedError("elements of several types are in one of the streams")
        routes += found
    if len({route.key_type for route in routes}) > 1:
        raise DeclinedError("the keys of both streams have other columns")
    _check_sources(topology, routes, check_source)
    return tuple(routes)


# Any: selectors of elements of every type.
def _ending(route: Route, step: Step, selector: Callable[[Any], Any] | None, *, stamped: bool) -> Route:
    """The way with the key that is taken at its end."""
    for each in route.steps:
        if each.may_outgrow:
            raise DeclinedError(f"{each.step.id} makes ints that may outgrow 64 bits")
    if stamped and not route.is_stamped:
        raise DeclinedError("elements have no timestamps on the way")
    if selector is None:
        return route
    return replace(route, keyed=keying_step(step, selector, route.element))


def _check_sources(topology: Topology, routes: Sequence[Route], check_source: CheckSource) -> None:
    for route in routes:
        node = topology.step(route.source).node
        if isinstance(node, SourceNode):
            check_source(node.source)


def _routes(topology: Topology, step: Step, results_of: ResultsOf) -> list[Route]:
    """The routes to a step in front of which no key is taken."""
    node = step.node
    if isinstance(node, SourceNode):
        return [Route(step.id, _element_of(node))]
    if is_keyed(node):
        if carries_changes(node):
            # Their kinds have no column in the exchange.
            raise DeclinedError(f"{step.id} withdraws results")
        return [Route(step.id, results_of(step), has_stamps=True)]
    if not isinstance(node, (FilterNode, MapNode, ReturnsNode, TimestampsNode, UnionNode)):
        raise DeclinedError(f"{step.id} is in front")
    routes = [route for before in step.inputs for route in _routes(topology, topology.step(before), results_of)]
    if isinstance(node, (ReturnsNode, UnionNode)):
        return routes
    return [_extended(route, step, node) for route in routes]


def _element_of(node: SourceNode) -> RecordType:
    if node.element_type is None:
        raise DeclinedError("the type of the elements is not known")
    try:
        kind = record_type(node.element_type)
    except InvalidArgumentError as error:
        raise DeclinedError(error.message) from error
    check_made(kind)
    return kind


def _extended(route: Route, step: Step, node: FilterNode | MapNode | TimestampsNode) -> Route:
    """The way that goes on through one more step."""
    found = route_step(step, node, route.element, is_stamped=route.is_stamped)
    return replace(route, element=found.made, steps=(*route.steps, found))
