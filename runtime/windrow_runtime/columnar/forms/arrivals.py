"""Elements that get to a keyed step as columns, and become objects there.

A step whose function is Python code needs objects. Made where the records are read, they would have to be pickled for
the exchange and made again behind it; as columns they cross it for next to nothing. Each becomes an object right before
the step takes it, a few thousand at a time, and is gone before the next ones come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from windrow.plan import Step
from windrow.sources import Source
from windrow_runtime.codecs.arrow.batches import arrow_schema, decode_batch
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar.declined import DeclinedError
from windrow_runtime.columnar.forms.folds import PaneFold, fold_for
from windrow_runtime.columnar.forms.route import Route, routes_to
from windrow_runtime.columnar.rows.grouping import Ints, Keys, encode_keys
from windrow_runtime.columnar.rows.hashing import stable_hashes
from windrow_runtime.operators.topology import Topology
from windrow_runtime.operators.windows.partials import Partials

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RowChunk", "RowForm", "row_form"]

# Any in this module: keys and elements of every type; pyarrow has no types.

_ROWS_AT_ONCE: Final = 8_192  # more of them leave the processor's cache


@dataclass(frozen=True)
class RowForm:
    """A keyed step on Python objects whose elements get there as columns.

    Attributes:
        step: The step.
        routes: How they get there from each source.
        fold: How they are folded in front of the exchange; None: they are not.
    """

    step: Step
    routes: tuple[Route, ...]
    fold: PaneFold | None = None

    def shipped(self, step: Step) -> RowForm:
        """The same for workers, which know the step without what only the driver can load."""
        fold = None if self.fold is None else replace(self.fold, step=step)
        return replace(self, step=step, fold=fold)

    @property
    def element(self) -> RecordType:
        """The type of the elements."""
        return self.routes[0].element

    @property
    def key_type(self) -> pa.DataType:
        """The Arrow type of keys."""
        return self.routes[0].key_type

    @cached_property
    def exchange_schema(self) -> Any:
        """The columns that go through the exchange: key, timestamp, and those of the elements."""
        import pyarrow as pa

        fields = [field.with_name(f"e{place}") for place, field in enumerate(arrow_schema(self.element))]
        return pa.schema([pa.field("key", self.key_type), pa.field("at", pa.int64()), *fields])

    @property
    def raw_schema(self) -> Any:
        """The same: nothing is folded before the exchange."""
        return self.exchange_schema

    @staticmethod
    def check(stamps: npt.NDArray[np.int64]) -> None:
        """Lets all timestamps pass."""

    @staticmethod
    def columns_of(named: dict[str, Any]) -> list[Any]:
        """What is taken of elements, beside key and timestamp: all of it."""
        return list(named.values())

    @staticmethod
    def packed(rows: Any) -> Any:
        """The rows for the exchange."""
        return rows

    def partials(self, keys: Keys, rows: Any) -> tuple[Ints, Partials] | None:
        """What elements come to; None: they cross the exchange themselves."""
        return None if self.fold is None else self.fold.run(keys, rows, self._slices)

    @staticmethod
    def hash_keys(keys: Any) -> npt.NDArray[np.uint64]:
        """Says in which key group keys lie: where they would if they came as objects."""
        return stable_hashes(keys)

    def describe(self) -> str:
        """A few words for ``explain()``."""
        folded = "" if self.fold is None else f", {self.fold.describe()}"
        return f"elements cross the exchange as columns{folded}"

    def chunks(self, rows: Any) -> Iterator[RowChunk]:
        """Rows that came through the exchange, a few thousand at a time."""
        encoded = encode_keys(rows.column(0))
        distinct = np.empty(len(encoded.distinct), dtype=object)
        distinct[:] = encoded.distinct.to_pylist()
        # Equal keys are one object, which makes it fast to look them up.
        keys = distinct[encoded.codes].tolist()
        for start, chunk in zip(range(0, len(keys), _ROWS_AT_ONCE), self._slices(rows), strict=True):
            chunk.keys = keys[start : start + _ROWS_AT_ONCE]
            yield chunk

    def _slices(self, rows: Any) -> Iterator[RowChunk]:
        """Rows a few thousand at a time, without their keys."""
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            yield RowChunk(self, rows.slice(start, _ROWS_AT_ONCE), ())


class RowChunk:
    """Elements for one step, which are made each time that somebody asks for them.

    Attributes:
        keys: Their keys.
    """

    def __init__(self, form: RowForm, rows: Any, keys: Sequence[Any]) -> None:
        self.keys = keys
        self._form = form
        self._rows = rows

    @property
    def values(self) -> Sequence[Any]:
        """The elements."""
        import pyarrow as pa

        element = self._form.element
        columns = self._rows.columns[2:]
        return decode_batch(pa.RecordBatch.from_arrays(columns, schema=arrow_schema(element)), element)

    @property
    def timestamps(self) -> Sequence[int | None]:
        """Their timestamps in milliseconds."""
        stamps: list[int | None] = self._rows.column(1).to_numpy().tolist()
        return stamps

    def pick(self, places: Sequence[int]) -> RowChunk:
        """Those at some places."""
        import pyarrow as pa

        rows = self._rows.take(pa.array(places, pa.int64()))
        return RowChunk(self._form, rows, [self.keys[place] for place in places])


def row_form(topology: Topology, step: Step, gives_columns: Callable[[Source[Any]], str | None]) -> RowForm:
    """How the elements of a keyed step get there as columns.

    Args:
        topology: The plan.
        step: The step.
        gives_columns: Whether the engine has the columns of a source: None, or why it has not.

    Raises:
        DeclinedError: If they do not.
    """
    routes = routes_to(topology, step, gives_columns)
    try:
        return RowForm(step, routes, fold_for(step))
    except DeclinedError:
        return RowForm(step, routes, None)
