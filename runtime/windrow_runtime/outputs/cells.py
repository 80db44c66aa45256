"""Elements as rows of a database: what a driver takes for each kind of value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import SupportsFloat

from windrow_runtime.codecs.json.encoder import Writer, checked_writer, json_writer
from windrow_runtime.codecs.malformed import UnfitError, misfit, short_repr
from windrow_runtime.codecs.record_type import Kind, RecordType, ValueType
from windrow_runtime.codecs.records import record_columns

Row = tuple[object, ...]

# Kinds of values with parts. They become JSON texts.
NESTED = frozenset([Kind.LIST, Kind.TUPLE, Kind.VARIADIC_TUPLE, Kind.SET, Kind.FROZENSET, Kind.DICT, Kind.RECORD])
_dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_MICROSECOND = timedelta(microseconds=1)


class RowEncoder:
    """Makes rows of elements, with a cell for each column of their type.

    ``lengths`` says how many characters a column of texts holds at most, by its name, where it has a limit.
    """

    def __init__(self, kind: RecordType, backend: str, lengths: Mapping[str, int]) -> None:
        self._kind = kind
        self._writers: list[Writer] = []
        for field in kind.columns:
            path = kind.name if kind.single else f"{kind.name}.{field.name}"
            write = _cell_writer(field.column_type, path, backend)
            limit = lengths.get(field.column)
            self._writers.append(write if limit is None else _limited(write, path, limit))

    def encode(self, values: Sequence[object]) -> list[Row]:
        """The rows of elements; ``InvalidArgumentError`` if a part of one does not fit, or has no form there."""
        rows: list[Row] = []
        for value in values:
            try:
                cells = self._cells(value)
                rows.append(tuple(write(cell) for write, cell in zip(self._writers, cells, strict=True)))
            except UnfitError as error:
                raise misfit(value, error) from error
        return rows

    def _cells(self, value: object) -> Sequence[object]:
        root, name = self._kind.root, self._kind.name
        if self._kind.single:
            return (value,)
        if type(value) is not root.python_type and not root.admits(type(value)):
            raise UnfitError(name, f"{short_repr(value)} is a {type(value).__name__}", str(root))
        if root.kind is Kind.RECORD:
            return [column[0] for column in record_columns([value], root, name)]
        if not isinstance(value, tuple) or len(value) != len(root.arguments):
            raise UnfitError(name, f"{short_repr(value)} is no tuple of {len(root.arguments)}", str(root))
        return value


def _cell_writer(value: ValueType, path: str, backend: str) -> Writer:
    if value.kind in NESTED:
        return _json_text(json_writer(value, path))
    own = _OWN.get((value.kind, backend))
    if own is None:
        return json_writer(value, path)

    def fitting(given: object) -> object:
        try:
            return own(given)
        except (ValueError, OverflowError) as error:
            raise UnfitError(path, f"{short_repr(given)}: {error}", str(value)) from None

    return checked_writer(value, path, fitting)


def _limited(write: Writer, path: str, limit: int) -> Writer:
    """Refuses texts that are too long: a database may cut them off instead, where the rest is blanks."""

    def short(given: object) -> object:
        text = write(given)
        if isinstance(text, str) and len(text) > limit:
            raise UnfitError(path, f"{short_repr(text)} has {len(text)} characters", f"at most {limit} characters")
        return text

    return short


def _json_text(write: Writer) -> Writer:
    def text(given: object) -> object:
        written = write(given)
        return None if given is None else _dump(written)

    return text


# Each of these is given only values of its kind; the tests of classes are for the type checker.


def _float(given: object) -> float:
    return float(given) if isinstance(given, SupportsFloat) else math.nan


def _number(given: object) -> float:
    number = _float(given)
    if math.isnan(number):
        # It would be stored as NULL.
        raise ValueError("SQLite has no NaN; map it to None before the sink")
    return number


def _decimal(given: object) -> object:
    if isinstance(given, Decimal) and not given.is_finite():
        raise ValueError("not a finite number")
    return given


def _moment(given: object) -> datetime:
    if not isinstance(given, datetime) or given.utcoffset() is None:
        raise ValueError("the datetime has no time zone, so it names no moment")
    return given.astimezone(UTC)


def _moment_text(given: object) -> str:
    # All of one length, so that texts sort as the moments do.
    return _moment(given).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _microseconds(given: object) -> object:
    return given // _MICROSECOND if isinstance(given, timedelta) else given


def _as_is(given: object) -> object:
    return given


# Other kinds are written as in JSON.
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
