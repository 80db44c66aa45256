"""Finds the way from a source to a keyed step, if every function on it is a plain expression."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow.aggregates import Opaque, recognise
from windrow.errors import InvalidArgumentError
from windrow.plan import (
    FilterNode,
    KeyByNode,
    MapNode,
    ReturnsNode,
    SourceNode,
    Step,
    TimestampsNode,
    UnionNode,
)
from windrow.sources import Source
from windrow.watermarks import BoundedOutOfOrdernessWatermarks, NoWatermarks
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.records import has_generated
from windrow_runtime.codecs.value_type import Field, Kind, RecordType
from windrow_runtime.columnar.declined import DeclinedError
from windrow_runtime.columnar.rows.columns import ColumnExpression, column_expression, refused_element
from windrow_runtime.operators.topology import Topology

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Arrivals", "Route", "expression_of", "millis_of", "own_constructor", "routes_to"]

# Any in this module: pyarrow has no types, and selectors are of elements of every type.

Ints: TypeAlias = npt.NDArray[np.int64]

_KEYS = frozenset({Kind.STR, Kind.INT, Kind.BOOL, Kind.BYTES})


class Arrivals(NamedTuple):
    """Elements at a keyed step.

    Attributes:
        columns: Their columns.
        stamps: Their timestamps in milliseconds.
        highest: The highest timestamp that each timestamp-assigning step saw, by its id.
    """

    columns: Any
    stamps: Ints
    highest: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Stage:
    """What happens on the way: elements are filtered, stamped, or made into one value.

    Attributes:
        step: The id of the step.
        kind: The kind of its node.
        expression: What it computes.
    """

    step: str
    kind: str
    expression: ColumnExpression


@dataclass(frozen=True, slots=True)
class Route:
    """The steps between a source and a keyed step.

    Attributes:
        source: The id of the source.
        stages: The steps, in order.
        key: The key; None: the stream has none.
        element: The type of the elements at the keyed step.
    """

    source: str
    stages: tuple[_Stage, ...]
    key: ColumnExpression | None
    element: RecordType

    @property
    def key_type(self) -> pa.DataType:
        """The Arrow type of keys."""
        import pyarrow as pa

        return pa.null() if self.key is None else self.key.arrow_type

    def run(self, batch: Any) -> Arrivals:
        """Takes the elements of a source, whose columns are in order, to the keyed step."""
        import pyarrow as pa

        stamps: Any = None
        highest: dict[str, int] = {}
        for stage in self.stages:
            found = stage.expression.evaluate(_by_name(batch))
            if stage.kind == FilterNode.kind:
                batch = batch.filter(found)
                stamps = stamps if stamps is None else stamps.filter(found)
            elif stage.kind == MapNode.kind:
                batch = pa.RecordBatch.from_arrays([found], ["value"])
            else:
                stamps = millis_of(found)
                if len(stamps):
                    highest[stage.step] = int(stamps.to_numpy().max())
        assert stamps is not None, "the plan was checked for timestamps"
        return Arrivals(batch, stamps.to_numpy(), highest)


def _by_name(batch: Any) -> dict[str, Any]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def millis_of(stamps: Any) -> Any:
    """Timestamps as milliseconds: ints as they are, datetimes rounded down."""
    import pyarrow as pa

    if not pa.types.is_timestamp(stamps.type):
        return stamps
    micros = stamps.cast(pa.timestamp("us", tz=stamps.type.tz)).view(pa.int64()).to_numpy()
    return pa.array(micros // 1_000)


def routes_to(
    topology: Topology, step: Step, gives_columns: Callable[[Source[Any]], str | None]
) -> tuple[Route, ...]:
    """All ways from sources to a keyed step.

    Args:
        topology: The plan.
        step: The step.
        gives_columns: Whether the engine has the columns of a source: None, or why it has not.

    Raises:
        DeclinedError: If elements cannot get there as columns.
    """
    before = topology.step(step.inputs[0])
    key_by = before.node if isinstance(before.node, KeyByNode) else None
    start = topology.step(before.inputs[0]) if key_by is not None else before
    routes: list[Route] = []
    for source, stages, element in _ways(topology, start):
        if not any(stage.kind == TimestampsNode.kind for stage in stages):
            raise DeclinedError("elements have no timestamps on the way")
        key = None
        if key_by is not None:
            key = expression_of(key_by.selector, element, "the key")
            if key.value.kind not in _KEYS:
                raise DeclinedError(f"the key is a {key.value}")
        routes.append(Route(source, stages, key, element))
    if len({route.source for route in routes}) < len(routes):
        raise DeclinedError("elements of one source get there by several ways")
    if len({route.element for route in routes}) > 1:
        raise DeclinedError("elements of several types get there")
    for route in routes:
        node = topology.step(route.source).node
        assert isinstance(node, SourceNode), "ways begin at sources"
        reason = gives_columns(node.source)
        if reason is not None:
            raise DeclinedError(reason)
    return tuple(routes)


def _ways(topology: Topology, step: Step) -> list[tuple[str, tuple[_Stage, ...], RecordType]]:
    node = step.node
    if isinstance(node, SourceNode):
        return [(step.id, (), _element_of(node))]
    if isinstance(node, UnionNode):
        return [way for source in step.inputs for way in _ways(topology, topology.step(source))]
    if not isinstance(node, (FilterNode, MapNode, TimestampsNode, ReturnsNode)):
        raise DeclinedError(f"{step.id} is in front")
    ways = _ways(topology, topology.step(step.inputs[0]))
    if isinstance(node, ReturnsNode):
        return ways
    return [_with_stage(step, way) for way in ways]


def _element_of(node: SourceNode) -> RecordType:
    if node.element_type is None:
        raise DeclinedError("the type of the elements is not known")
    try:
        kind = record_type(node.element_type)
    except InvalidArgumentError as error:
        raise DeclinedError(error.message) from error
    reason = refused_element(kind)
    if reason is None and not kind.single:
        reason = own_constructor(kind.root.python_type)
    if reason is not None:
        raise DeclinedError(reason)
    return kind


def own_constructor(kind: type) -> str | None:
    """Why a record has to be made to know that it is well-formed."""
    if hasattr(kind, "__post_init__"):
        return f"{kind.__name__} has a __post_init__"
    generated = not dataclasses.is_dataclass(kind) or has_generated(kind, "__init__")
    derived = issubclass(kind, tuple) and kind is not tuple and kind.__bases__[0] is not tuple
    return None if generated and not derived else f"{kind.__name__} has a constructor of its own"


def _with_stage(
    step: Step, way: tuple[str, tuple[_Stage, ...], RecordType]
) -> tuple[str, tuple[_Stage, ...], RecordType]:
    source, stages, element = way
    node = step.node
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
        assert isinstance(node, MapNode)
        found = expression_of(node.function, element, "the map")
        element = RecordType(None, str(found.value), found.value, (Field("value", "value", found.value),))
    return source, (*stages, _Stage(step.id, node.kind, found)), element


def expression_of(selector: Any, element: RecordType, what: str) -> ColumnExpression:
    """What a function takes from elements of a type.

    Raises:
        DeclinedError: If it is no plain expression of columns.
    """
    found = recognise(selector)
    if isinstance(found, Opaque):
        raise DeclinedError(f"{what} {found.reason}")
    try:
        return column_expression(found, element)
    except DeclinedError as reason:
        raise DeclinedError(f"{what}: {reason}") from None
