"""Defines how a source's scan hands columns to a keyed step, which may run on columns or on objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from windrow.plan import Step
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar.array_types import Array, ArrowType, Hashes, Ints, Rows, Schema
from windrow_runtime.columnar.forms.route import Route
from windrow_runtime.columnar.rows.groups import Keys
from windrow_runtime.operators.windows.table_loop import Partials

# Any in this module: elements of every type, and pyarrow's fields.


@dataclass(frozen=True)
class ScanTarget(ABC):
    """A keyed step whose elements leave the scans of sources as columns.

    A task calls ``check`` and ``columns_of`` for each batch that it reads, and then, for some batches in one before
    they go through the exchange, ``packed``, ``hash_keys`` and ``partials``.

    Attributes:
        step: The step.
        routes: How elements get there from each source.
    """

    step: Step
    routes: tuple[Route, ...]

    @property
    def element(self) -> RecordType:
        """The type of the elements."""
        return self.routes[0].element

    @property
    def key_type(self) -> ArrowType:
        """The Arrow type of keys."""
        return self.routes[0].key_type

    @property
    def _scanned_fields(self) -> list[Any]:
        return [pa.field("key", self.key_type), pa.field("at", pa.int64())]

    @property
    def _element_fields(self) -> list[Any]:
        return [field.with_name(f"e{place}") for place, field in enumerate(arrow_schema(self.element))]

    @property
    @abstractmethod
    def raw_schema(self) -> Schema:
        """The columns of elements one by one: key, timestamp, and what the step takes of them."""

    @property
    def exchange_schema(self) -> Schema:
        """The columns that go through the exchange."""
        return self.raw_schema

    def shipped(self, step: Step) -> Self:
        """The same for workers, which know the step without what only the driver can load."""
        return replace(self, step=step)

    def check(self, stamps: Ints) -> None:  # noqa: B027  most steps take all timestamps
        """Looks at timestamps, in milliseconds.

        Raises:
            UnsupportedOperationError: If some are too far away for the step.
        """

    def columns_of(self, named: Mapping[str, Array]) -> list[Array]:
        """The columns that the step takes beside key and timestamp, from those of elements by field."""
        return list(named.values())

    def packed(self, rows: Rows) -> Rows:
        """Rows as they cross the exchange, with the key in the first column."""
        return rows

    @abstractmethod
    def hash_keys(self, keys: Array) -> Hashes:
        """Hashes that decide in which key group keys lie."""

    def partials(self, keys: Keys, rows: Rows) -> tuple[Ints, Partials] | None:
        """Accumulators that stand for packed rows, and the code of the key of each; None: they cross as rows."""
        return None

    def elements_of(self, columns: Sequence[Array]) -> list[Any]:
        """The elements whose columns these are."""
        batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.element))
        return decode_batch(batch, self.element)
