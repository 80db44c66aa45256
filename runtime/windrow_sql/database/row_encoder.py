"""Encodes elements as rows of a table, with the values that the driver of a database takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, SupportsFloat
from uuid import UUID

from windrow_runtime.codecs.json.any_json import dump_of
from windrow_runtime.codecs.json.encoder import Writer, checked_writer, json_writer
from windrow_runtime.codecs.malformed import UnfitError, misfit, short_repr
from windrow_runtime.codecs.records import record_columns
from windrow_runtime.codecs.value_type import INT_MAX, INT_MIN, JSON_CELLS, Kind, RecordType, ValueType
from windrow_sql.database.postgres_copy import Row
from windrow_sql.database.postgres_texts import check_digits, postgres_json, postgres_text

# Any in this module: values of every type.

_MICROSECOND = timedelta(microseconds=1)


class RowEncoder:
    """Encodes elements as rows; ``lengths`` has the most characters of text columns that are limited, by name."""

    def __init__(self, record_type: RecordType, backend: str, lengths: Mapping[str, int]) -> None:
        self._record_type = record_type
        self._writers: list[Writer] = []
        self._are_plain: list[Callable[[Sequence[Any]], bool]] = []
        for field in record_type.columns:
            path = record_type.name if record_type.single else f"{record_type.name}.{field.name}"
            write = _cell_writer(field.column_type, path, backend)
            limit = lengths.get(field.column)
            self._writers.append(write if limit is None else _limited(write, path, limit))
            is_plain = _PLAIN.get(field.type.kind) if backend == "postgresql" and limit is None else None
            self._are_plain.append(_never if is_plain is None else is_plain)

    def encode(self, values: Sequence[object]) -> list[Row]:
        """Encodes elements; raises an ``InvalidArgumentError`` for an element with a value that does not fit."""
        try:
            return self._rows(values)
        except UnfitError:
            for value in values:
                try:
                    self._rows([value])
                except UnfitError as error:
                    raise misfit(value, error, self._record_type.name) from error
            raise

    def _rows(self, values: Sequence[object]) -> list[Row]:
        """Encodes elements column by column; raises an ``UnfitError`` if a value does not fit."""
        columns = zip(self._writers, self._are_plain, self._columns(values), strict=True)
        written = [column if is_plain(column) else map(write, column) for write, is_plain, column in columns]
        return list(zip(*written, strict=True))

    def _columns(self, values: Sequence[object]) -> Sequence[Sequence[object]]:
        root, name = self._record_type.root, self._record_type.name
        if self._record_type.single:
            return (values,)
        for value in values if set(map(type, values)) != {root.python_type} else ():
            if type(value) is not root.python_type and not root.admits(type(value)):
                raise UnfitError(name, f"{short_repr(value)} is a {type(value).__name__}", str(root))
        if root.kind is Kind.RECORD:
            return record_columns(values, root, name)
        tuples = [value for value in values if isinstance(value, tuple) and len(value) == len(root.arguments)]
        if len(tuples) != len(values):
            raise UnfitError(name, f"{short_repr(values[0])} is no tuple of {len(root.arguments)}", str(root))
        return list(zip(*tuples, strict=True))


def _cell_writer(value: ValueType, path: str, backend: str) -> Writer:
    if value.kind in JSON_CELLS:
        write_json, dump = json_writer(value, path), dump_of(value)

        def write_text(cell: object) -> str | None:
            return None if (written := write_json(cell)) is None else dump(written)

        is_raw = value.contains(Kind.RAW_JSON)
        return postgres_json(write_text, path, is_raw=is_raw) if backend == "postgresql" else write_text
    own = _OWN.get((value.kind, backend))
    if own is None:
        write = json_writer(value, path)
        return postgres_text(write, path) if backend == "postgresql" and value.scalar_kind is Kind.STR else write

    def fitting(cell: object) -> object:
        try:
            return own(cell)
        except (ValueError, OverflowError) as error:
            raise UnfitError(path, f"{short_repr(cell)}: {error}", str(value)) from None

    return checked_writer(value, path, fitting)


def _limited(write: Writer, path: str, limit: int) -> Writer:
    """Makes a writer refuse texts that are too long: a database may silently cut off blanks at their end."""

    def short(cell: object) -> object:
        text = write(cell)
        if isinstance(text, str) and len(text) > limit:
            raise UnfitError(path, f"{short_repr(text)} has {len(text)} characters", f"at most {limit} characters")
        return text

    return short


# Each of these functions gets values of its type only; the tests of classes are for the type checker.


def _float(value: object) -> float:
    # The check of a protocol takes microseconds, so the class is compared first.
    return value if type(value) is float else float(value) if isinstance(value, SupportsFloat) else math.nan


def _number(value: object) -> float:
    number = _float(value)
    if math.isnan(number):
        # The database would store the value as NULL.
        raise ValueError("SQLite has no NaN; map it to None before the sink")
    return number


def _decimal(value: object) -> object:
    assert isinstance(value, Decimal), "the class was checked"
    if not value.is_finite():
        raise ValueError("not a finite number")
    check_digits(value)
    return value


def _moment(value: object) -> datetime:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ValueError("the datetime has no time zone, so it names no moment")
    return value.astimezone(UTC)


def _moment_text(value: object) -> str:
    # All texts have one length, so that they sort as the moments do.
    return _moment(value).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _microseconds(value: object) -> object:
    assert isinstance(value, timedelta), "the class was checked"
    micros = value // _MICROSECOND
    if not INT_MIN <= micros <= INT_MAX:
        raise OverflowError("SQLite has no number of so many microseconds")
    return micros


def _as_is(value: object) -> object:
    return value


def _never(cells: Sequence[Any]) -> bool:
    return False


def _all_of(class_: type) -> Callable[[Sequence[Any]], bool]:
    """Returns a function that says whether all cells of a column are of a class, and none is None."""
    return lambda cells: set(map(type, cells)) == {class_}


def _all_ints(cells: Sequence[Any]) -> bool:
    return set(map(type, cells)) == {int} and INT_MIN <= min(cells) <= max(cells) <= INT_MAX


def _all_texts(cells: Sequence[Any]) -> bool:
    if set(map(type, cells)) != {str}:
        return False
    texts = "".join(cells)
    return texts.isascii() and "\0" not in texts


def _all_in_utc(cells: Sequence[Any]) -> bool:
    return set(map(type, cells)) == {datetime} and {cell.tzinfo for cell in cells} == {UTC}


_PLAIN: Final[Mapping[Kind, Callable[[Sequence[Any]], bool]]] = {
    Kind.BOOL: _all_of(bool),
    Kind.BYTES: _all_of(bytes),
    Kind.DATE: _all_of(date),
    Kind.DATETIME: _all_in_utc,
    Kind.FLOAT: _all_of(float),
    Kind.INT: _all_ints,
    Kind.STR: _all_texts,
    Kind.TIMEDELTA: _all_of(timedelta),
    Kind.UUID: _all_of(UUID),
}
"""Functions that say whether PostgreSQL takes the Python values of a column unchanged, by the column's type."""

# The writers of types that are not written as in JSON.
_OWN: dict[tuple[Kind, str], Callable[[object], object]] = {
    (Kind.FLOAT, "postgresql"): _float,
    (Kind.FLOAT, "sqlite"): _number,
    (Kind.BYTES, "postgresql"): _as_is,
    (Kind.BYTES, "sqlite"): _as_is,
    (Kind.DECIMAL, "postgresql"): _decimal,
    (Kind.UUID, "postgresql"): _as_is,
    (Kind.DATETIME, "postgresql"): _moment,
    (Kind.DATETIME, "sqlite"): _moment_text,
    (Kind.DATE, "postgresql"): _as_is,
    (Kind.TIMEDELTA, "postgresql"): _as_is,
    (Kind.TIMEDELTA, "sqlite"): _microseconds,
}
