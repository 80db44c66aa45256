"""Parquet files that workers read themselves: Spark tells which, and no row passes through the JVM.

Spark's way of a row from a file to a Python worker takes some ten times as long as Arrow's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from windrow.errors import SourceError, WindrowError
from windrow.paths import PathGuard
from windrow_runtime.codecs.arrow_types import arrow_type
from windrow_runtime.codecs.value_type import RecordType

__all__ = ["ParquetFiles", "check_files"]

# Any in this module: pyarrow has no types.

_ROWS_AT_ONCE: Final = 1 << 16


def check_files(urls: Iterable[str], path: str, where: str) -> list[str]:
    """The files of a source by the names that Spark has for them.

    Raises:
        SourceError: For one that a link leads to. Spark lists the files, and follows links to anywhere.
    """
    guard = PathGuard(path)
    found: list[str] = []
    for url in urls:
        file = url2pathname(urlsplit(url).path)
        if url.startswith("file:"):
            try:
                guard.check(file)
            except WindrowError as error:
                raise error.at(where) from None
        found.append(file)
    return found


@dataclass(frozen=True)
class ParquetFiles:
    """Reads the files that Spark names, in a worker.

    Attributes:
        kind: The type of the records.
        path: Where the files are.
        where: The source and its line, in errors.
    """

    kind: RecordType
    path: str
    where: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Takes Arrow batches of names; gives Arrow batches of rows, with the columns of the type."""
        for batch in batches:
            for file in check_files(batch.column("__file").to_pylist(), self.path, self.where):
                yield from self._read(file)

    def _read(self, file: str) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            if not os.path.getsize(file):
                return  # as Spark does: somebody made it, and has not written it
            with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
                there = _places(self.kind, opened.schema_arrow.names)
                chosen = [name for name in there.values() if name is not None]
                for rows in opened.iter_batches(_ROWS_AT_ONCE, columns=chosen, use_threads=False):
                    yield self._with_all_columns(rows, there)
        except (OSError, pa.ArrowException) as error:
            raise SourceError(
                "a file cannot be read",
                given=f"{file}: {error}",
                expected=f"a Parquet file of {self.kind}",
                where=self.where,
            ) from error

    def _with_all_columns(self, rows: Any, there: dict[str, str | None]) -> Any:
        """All columns of the type; one that the file does not have is null."""
        import pyarrow as pa

        columns = [
            pa.nulls(rows.num_rows, self._type_of(column))
            if name is None
            else self._as_typed(column, rows.column(name))
            for column, name in there.items()
        ]
        return pa.RecordBatch.from_arrays(columns, list(there))

    def _as_typed(self, column: str, values: Any) -> Any:
        """Time spans and decimals as columns of the type have them.

        Spark writes a time span as a number of microseconds, and notes what it is for itself alone. Decimals show how
        many digits their column has behind the point: as many in a batch with a malformed row as in one without.
        """
        import pyarrow as pa

        given, wanted = values.type, self._type_of(column)
        if pa.types.is_int64(given) and wanted == pa.duration("us"):
            return values.view(wanted)
        number = given.value_type if pa.types.is_dictionary(given) else given
        if pa.types.is_decimal128(number) and pa.types.is_decimal128(wanted) and _widens(number, wanted):
            return values.cast(wanted)
        return values

    def _type_of(self, column: str) -> Any:
        (kind,) = [arrow_type(field.type) for field in self.kind.columns if field.column == column]
        return kind


def _widens(given: Any, wanted: Any) -> bool:
    """Whether each decimal of a type has its place in another; one that has not is refused when it is decoded."""
    before_the_point = given.precision - given.scale
    return bool(given.scale <= wanted.scale and before_the_point <= wanted.precision - wanted.scale)


def _places(kind: RecordType, names: list[str]) -> dict[str, str | None]:
    """The column of a file for each of the type; as in Spark, it does not matter how letters are cased."""
    folded = {name.lower(): name for name in names}
    return {
        field.column: field.column if field.column in names else folded.get(field.column.lower())
        for field in kind.columns
    }
