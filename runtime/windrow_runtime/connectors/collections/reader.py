"""Reads elements and Arrow data that the program holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from windrow.sources import ArrowSource, CollectionSource
from windrow_runtime.codecs.pyarrow_check import check_pyarrow
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.inputs.offsets import RowReads
from windrow_runtime.inputs.reader import Held, SourceReader
from windrow_runtime.operators.errors import errors_at

# Any in this module: elements of every type, and pyarrow has no types.

_MOST_COMPARED = 100


class CollectionReader(SourceReader[CollectionSource[Any]]):
    """Reads the elements of a collection."""

    may_grow = False
    identity_is_exact = True

    def batches(self, held: Held = tuple) -> Iterator[SourceBatch]:
        elements = self.source.elements
        size = self.source.batch_size or max(len(elements), 1)
        for start in range(0, len(elements), size):
            yield SourceBatch(self.owned(list(elements[start : start + size])))

    def as_part(self, place: int) -> RowReads:
        return self.rows(lambda: self.source.elements)

    def rows(self, elements: Callable[[], Sequence[Any]]) -> RowReads:
        """Returns the reads of the collection as a part of another source; an engine may keep the elements."""
        count = len(self.source.elements)
        return RowReads(self.step.where, None, self.source.batch_size, count, partial(_elements, elements))

    @property
    def identity(self) -> str | None:
        """The text of the first elements; None if it differs in each process, or ``repr`` raises an error."""
        try:
            text = repr(list(self.source.elements[:_MOST_COMPARED]))
        except Exception:  # a class of the user's may raise anything
            return None
        return None if " at 0x" in text else text

    @property
    def row_count(self) -> int | None:
        return len(self.source.elements)


class ArrowReader(SourceReader[ArrowSource[Any]]):
    """Reads Arrow data, such as a table or a data frame of the program."""

    may_grow = False

    def table(self) -> tuple[RecordType, Any]:
        """Returns the type of the rows, and the table that is made of the data once."""
        with errors_at(self.step.where):
            check_pyarrow("Arrow data is read")
            # Arrow only where a source has it: the interpreter runs without it.
            from windrow_runtime.connectors.collections.row_type import rows_of_source

            return rows_of_source(self.source)

    def batches(self, held: Held = tuple) -> Iterator[SourceBatch]:
        record_type, table = self.table()
        size = self.source.batch_size or max(table.num_rows, 1)
        for start in range(0, table.num_rows, size):
            batch = SourceBatch()
            for rows in _table_rows(table, record_type, self.source.describe(), start, start + size):
                self.take(batch, rows)
            yield batch

    def as_part(self, place: int) -> RowReads:
        record_type, table = self.table()
        rows = partial(_table_rows, table, record_type, self.source.describe())
        return RowReads(self.step.where, record_type, self.source.batch_size, table.num_rows, rows)

    @staticmethod
    def derived_type(source: ArrowSource[Any]) -> type[Any]:
        """Returns the class that is derived for the rows of a source, for which the data are taken."""
        from windrow_runtime.connectors.collections.row_type import row_type_of

        return row_type_of(source)

    @property
    def timezone(self) -> object:
        return self.source.timezone

    @property
    def row_count(self) -> int | None:
        return None if self.source.table is None else self.source.table.num_rows


def _table_rows(table: Any, record_type: RecordType, origin: str, start: int, end: int) -> Iterator[Any]:
    from windrow_runtime.codecs.arrow.exchanged import arrow_rows

    return arrow_rows(table.slice(start, end - start), record_type, origin, start)


def _elements(elements: Callable[[], Sequence[Any]], start: int, end: int) -> Iterator[SourceBatch]:
    yield SourceBatch(list(elements()[start:end]))
