"""The Arrow PyCapsule interface, by which libraries hand each other columns without a copy.

pyarrow, polars, pandas, DuckDB, nanoarrow and others speak it; see
https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html.
"""

from __future__ import annotations

from typing import Protocol


class ArrowArray(Protocol):
    """Rows as one array of structs, such as a record batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """The capsules of the schema and of the array."""
        ...


class ArrowStream(Protocol):
    """Rows as a stream of arrays of structs, such as a table or a data frame."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The capsule of the stream."""
        ...
