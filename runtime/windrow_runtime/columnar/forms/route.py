"""Finds the way by which the columns of a source get to a keyed step, if every function on it is a plain expression."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from windrow.aggregates import Opaque, recognise
from windrow.errors import InvalidArgumentError
from windrow.plan import FilterNode, KeyByNode, MapNode, ReturnsNode, SourceNode, Step, TimestampsNode, UnionNode
from windrow.sources import Source
from windrow.watermarks import BoundedOutOfOrdernessWatermarks, NoWatermarks
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.records import own_constructor
from windrow_runtime.codecs.value_type import Field, Kind, RecordType
from windrow_runtime.columnar import Hashes, Ints
from windrow_runtime.columnar.rows.columns import ColumnExpression, check_element, column_expression
from windrow_runtime.columnar.rows.groups import Keys
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology
from windrow_runtime.operators.windows.table_loop import Partials

# Any in this module: sources and selectors of elements of every type.

CheckSource: TypeAlias = Callable[[Source[Any]], None]
"""Declines a source that gives an engine no columns."""

_KEYS = frozenset({Kind.STR, Kind.INT, Kind.BOOL, Kind.BYTES})


class _OnTheWay(NamedTuple):
    """A step that filters elements, stamps them, or makes one value of each."""

    id: str
    kind: str  # of its node
    expression: ColumnExpression


@dataclass(frozen=True, slots=True)
class Route:
    """The steps between a source and a keyed step, in order."""

    source: str  # its id
    element: RecordType  # the type of the elements at the keyed step
    steps: tuple[_OnTheWay, ...] = ()
    key: ColumnExpression | None = None  # None: the stream has none

    @property
    def key_type(self) -> pa.DataType:
        """The Arrow type of keys."""
        return pa.null() if self.key is None else self.key.arrow_type

    def run(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Ints, dict[str, int]]:
        """Elements of a source at the keyed step, their timestamps in ms, and the highest that each step gave.

        Where no step gives timestamps, they are 0.
        """
        stamps: pa.Array = None
        highest: dict[str, int] = {}
        for step in self.steps:
            found = step.expression.evaluate(dict(zip(batch.schema.names, batch.columns, strict=True)))
            if step.kind == FilterNode.kind:
                batch = batch.filter(found)
                stamps = stamps if stamps is None else stamps.filter(found)
            elif step.kind == MapNode.kind:
                batch = pa.RecordBatch.from_arrays([found], ["value"])
            else:
                stamps = found
                if pa.types.is_timestamp(found.type):
                    micros = found.cast(pa.timestamp("us", tz=found.type.tz)).view(pa.int64())
                    stamps = pa.array(micros.to_numpy() // 1_000)
                if len(stamps):
                    highest[step.id] = int(stamps.to_numpy().max())
        if stamps is None:
            return batch, np.zeros(batch.num_rows, np.int64), highest
        return batch, stamps.to_numpy(), highest


@dataclass(frozen=True)
class ScanTarget(ABC):
    """A keyed step whose elements leave the scans of sources as columns; it may run on columns or on objects.

    A task calls ``check`` and ``columns_of`` for each batch that it reads, and then, for some batches in one before
    they go through the exchange, ``packed``, ``hash_keys`` and ``partials``. In workers the step is without what only
    the driver can load.
    """

    step: Step
    routes: tuple[Route, ...]  # from each source

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

    @property
    def exchange_schema(self) -> pa.Schema:
        """The columns that go through the exchange."""
        return self.raw_schema

    def check(self, stamps: Ints) -> None:  # noqa: B027  most steps take all timestamps
        """Refuses timestamps, in milliseconds, that are too far away for the step."""

    def columns_of(self, named: Mapping[str, pa.Array]) -> list[pa.Array]:
        """The columns that the step takes beside key and timestamp, from those of elements by field."""
        return list(named.values())

    def packed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as they cross the exchange, with the key in the first column."""
        return rows

    @staticmethod
    @abstractmethod
    def hash_keys(keys: pa.Array) -> Hashes:
        """Hashes that decide in which key group keys lie."""

    def partials(self, keys: Keys, rows: pa.RecordBatch) -> tuple[Ints, Partials] | None:
        """Accumulators that stand for packed rows, and the code of the key of each; None: they cross as rows."""
        return None

    def elements_of(self, columns: Sequence[pa.Array]) -> list[Any]:
        """The elements whose columns these are."""
        batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.element))
        return decode_batch(batch, self.element)


def routes_to(topology: Topology, step: Step, check_source: CheckSource, *, stamped: bool = True) -> tuple[Route, ...]:
    """All ways from sources to a keyed step; declined where elements cannot get there as columns, with timestamps."""
    before = topology.step(step.inputs[0])
    key_by = before.node if isinstance(before.node, KeyByNode) else None
    routes = _routes(topology, topology.step(before.inputs[0]) if key_by is not None else before)
    for place, route in enumerate(routes):
        if stamped and not any(on_the_way.kind == TimestampsNode.kind for on_the_way in route.steps):
            raise DeclinedError("elements have no timestamps on the way")
        if key_by is not None:
            key = expression_of(key_by.selector, route.element, "the key")
            if key.value.kind not in _KEYS:
                raise DeclinedError(f"the key is a {key.value}")
            routes[place] = replace(route, key=key)
    if len({route.source for route in routes}) < len(routes):
        raise DeclinedError("elements of one source get there by several ways")
    if len({route.element for route in routes}) > 1:
        raise DeclinedError("elements of several types get there")
    for route in routes:
        node = topology.step(route.source).node
        assert isinstance(node, SourceNode), "ways begin at sources"
        check_source(node.source)
    return tuple(routes)


def _routes(topology: Topology, step: Step) -> list[Route]:
    """The ways from sources to a step in front of which no key is taken."""
    node = step.node
    if isinstance(node, SourceNode):
        return [Route(step.id, _element_of(node))]
    if not isinstance(node, (FilterNode, MapNode, ReturnsNode, TimestampsNode, UnionNode)):
        raise DeclinedError(f"{step.id} is in front")
    routes = [route for before in step.inputs for route in _routes(topology, topology.step(before))]
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
    check_element(kind)
    if not kind.single:
        made_by = own_constructor(kind.root.python_type)
        if made_by is not None:
            # A record has to be made to know that it is well-formed.
            raise DeclinedError(f"{kind.root.python_type.__name__} has a {made_by}")
    return kind


def _extended(route: Route, step: Step, node: FilterNode | MapNode | TimestampsNode) -> Route:
    """The way that goes on through one more step."""
    element = route.element
    if isinstance(node, TimestampsNode):
        generator = type(node.strategy.create_generator())
        if node.strategy.ingestion_time or generator not in (BoundedOutOfOrdernessWatermarks, NoWatermarks):
            raise DeclinedError(f"the watermark generator of {step.id} looks at each element")
        if node.timestamp is None:
            raise DeclinedError(f"{step.id} takes the timestamps that elements have")
        found = expression_of(node.timestamp, element, "the timestamp")
        if found.value.kind not in (Kind.INT, Kind.DATETIME) or found.value.nullable:
            raise DeclinedError(f"the timestamp is a {found.value}")
    elif isinstance(node, FilterNode):
        found = expression_of(node.function, element, "the filter")
        if found.value.kind is not Kind.BOOL or found.value.nullable:
            raise DeclinedError(f"the filter gives a {found.value}")
    else:
        found = expression_of(node.function, element, "the map")
        element = RecordType(None, str(found.value), found.value, (Field("value", "value", found.value),))
    return replace(route, element=element, steps=(*route.steps, _OnTheWay(step.id, node.kind, found)))


def expression_of(selector: Any, element: RecordType, what: str) -> ColumnExpression:
    """The expression of columns that a function computes from elements; declined if it is no plain one."""
    found = recognise(selector)
    if isinstance(found, Opaque):
        raise DeclinedError(f"{what} {found.reason}")
    try:
        return column_expression(found, element)
    except DeclinedError as reason:
        raise DeclinedError(f"{what}: {reason}") from None
