"""The Python values of columns."""

from __future__ import annotations

import datetime
from typing import Any, Final

__all__ = ["python_values"]

# Any: pyarrow has no types, and values are of every type.

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def python_values(column: Any) -> list[Any]:
    """The Python values of a column; timestamps are datetimes in UTC, also within lists."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", tz=column.type.tz)).view(pa.int64()).to_pylist()
        return [
            None if value is None else _EPOCH + datetime.timedelta(microseconds=value) for value in micros
        ]
    if pa.types.is_list(column.type) and pa.types.is_timestamp(column.type.value_type):
        items = iter(python_values(column.flatten()))
        lengths = column.value_lengths().to_pylist()
        return [None if length is None else [next(items) for _ in range(length)] for length in lengths]
    values: list[Any] = column.to_pylist()
    return values
