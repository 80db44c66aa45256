"""Describes the routes by which columns get to keyed steps and sinks, and what takes them at their end.

Columns come from sources, and from other keyed steps on columns, whose results are columns.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa

from windrow.plan import Step
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.operators.windows.partials import Partials
from windrow_spark.columnar import Hashes, Ints
from windrow_spark.columnar.expressions.over_columns import ColumnExpression, ColumnRecord
from windrow_spark.columnar.forms.route_step import RouteStep
from windrow_spark.columnar.rows.groups import Keys

# Any in this module: elements of every type.


@dataclass(frozen=True, slots=True)
class Route:
    """The steps between a source, or a keyed step, and the next keyed step or a sink, in order."""

    source: str  # the id of the source, or of the keyed step whose results the elements are; empty: they are objects
    element: RecordType  # the type of the elements at the end of the way
    steps: tuple[RouteStep, ...] = ()
    keyed: RouteStep | None = None  # takes the keys at the end; None: the stream has none
    has_stamps: bool = False  # whether the elements have timestamps where the way begins
    side: int | None = None  # LEFT or RIGHT, of two streams that come together there; None: there is one stream
    begins_at_end: bool = False  # whether elements carry the end of time there, as results of windows of all time do

    @property
    def assigns_stamps(self) -> bool:
        """Returns whether elements get timestamps on the way."""
        return any(not (each.makes or each.filters) and each.expression is not None for each in self.steps)

    @property
    def is_stamped(self) -> bool:
        """Returns whether elements have timestamps at the end of the way."""
        return self.has_stamps or self.assigns_stamps

    @property
    def key(self) -> ColumnExpression | None:
        """The expression of the key; None: the stream has none."""
        expression = None if self.keyed is None else self.keyed.expression
        assert not isinstance(expression, ColumnRecord), "a key is one value"
        return expression

    @property
    def key_type(self) -> pa.DataType:
        """The Arrow type of keys."""
        return pa.null() if self.key is None else self.key.arrow_type

    def with_steps(self, by_id: Mapping[str, Step]) -> Route:
        """Returns the same route through other steps, by their ids."""
        steps = [replace(each, step=by_id[each.step.id]) for each in self.steps]
        keyed = None if self.keyed is None else replace(self.keyed, step=by_id[self.keyed.step.id])
        return replace(self, steps=tuple(steps), keyed=keyed)

    def columns_needed(self, at_end: frozenset[str] | None) -> frozenset[str] | None:
        """The columns needed where the route begins, for some columns at its end; None: all."""
        needed: frozenset[str] = frozenset()
        for step in self.steps:
            if step.expression is not None:
                needed |= step.expression.columns
            if step.makes:
                return needed
        return None if at_end is None else needed | at_end

    def run(self, batch: pa.RecordBatch, timestamps: Ints | None) -> tuple[pa.RecordBatch, Ints, dict[str, int]]:
        """Returns elements at the end of the route, their timestamps in ms, and the highest that each step gave.

        They begin the route with timestamps, unless they are those of a source. Where no step gives any, they are 0.
        """
        stamps: pa.Array = None if timestamps is None else pa.array(timestamps)
        highest: dict[str, int] = {}
        for step in self.steps:
            result = stamps if step.expression is None else step.evaluate(batch)
            if step.filters:
                batch = batch.filter(result)
                stamps = stamps if stamps is None else stamps.filter(result)
            elif step.makes:
                is_record = isinstance(step.expression, ColumnRecord)
                batch = result if is_record else pa.RecordBatch.from_arrays([result], ["value"])
            else:
                stamps = result
                if pa.types.is_timestamp(result.type):
                    micros = result.cast(pa.timestamp("us", tz=result.type.tz)).view(pa.int64())
                    stamps = pa.array(micros.to_numpy() // 1_000)
                if len(stamps):
                    highest[step.step.id] = int(stamps.to_numpy().max())
        if stamps is None:
            return batch, np.zeros(batch.num_rows, np.int64), highest
        return batch, stamps.to_numpy(), highest


class RoutesTo(Protocol):
    """Finds all routes to a keyed step; declines a step that elements do not reach as columns with timestamps."""

    def __call__(self, step: Step, *, stamped: bool = True) -> tuple[Route, ...]: ...


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
    routes: tuple[Route, ...]  # from each source, and from each keyed step upstream

    makes_pairs: ClassVar[bool] = False
    """Whether it joins elements: the pairs are the same in whatever order elements come, but come in that order."""

    def with_steps(self, by_id: Mapping[str, Step]) -> Self:
        """Returns the same form, with routes through other steps, such as those of workers, by their ids."""
        return replace(self, step=by_id[self.step.id], routes=tuple(each.with_steps(by_id) for each in self.routes))

    @property
    def takes_objects(self) -> bool:
        """Returns whether elements come as objects, which become columns right before the exchange."""
        return not self.routes[0].source

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
        """The columns that a source or step has to give where a route begins; None: all."""
        return route.columns_needed(None)

    @property
    def gives_stamps(self) -> bool:
        """Whether its results have timestamps."""
        return True

    @property
    def may_lack_stamps(self) -> bool:
        """Whether elements and results may have no timestamps, for which :data:`MIN_TIMESTAMP` stands."""
        return False

    @property
    def timed_part(self) -> str | None:
        """The part of the step that needs timestamps on elements, in words for errors; None: none does."""
        return None

    def check(self, stamps: Ints) -> None:  # noqa: B027  most steps take all timestamps
        """Refuses timestamps, in milliseconds, that are too far away for the step."""

    def stamps_of(self, route: Route, stamps: Ints) -> pa.Array:
        """The timestamps of elements that came by a route; those of elements without any are 0."""
        return pa.array(stamps)

    def columns_of(self, route: Route, named: Mapping[str, pa.Array]) -> list[pa.Array]:
        """The columns that the step takes beside key and timestamp, from those of elements that came by a route."""
        return list(named.values())

    def exchange_rows(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[tuple[ExchangeRows, pa.RecordBatch]]:
        """Yields the rows to send through the exchange, each batch with what it holds: elements or partial aggregates.

        No watermark is above the bound when the elements arrive; None: there is no bound that is known.
        """
        yield ExchangeRows.ELEMENTS, rows

    @staticmethod
    @abstractmethod
    def hash_keys(keys: pa.Array) -> Hashes:
        """Hashes that decide in which key group keys lie."""

    def partials(self, keys: Keys, rows: pa.RecordBatch) -> tuple[Ints, Partials] | None:
        """Folds rows into accumulators, and returns these with their keys' codes; None: the rows cross as they are."""
        return None

    def elements_of(self, columns: Sequence[pa.Array]) -> list[Any]:
        """The elements whose columns these are."""
        return decode_batch(self.batch_of(columns), self.element)

    def batch_of(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """The record batch of elements whose columns these are."""
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.element))
