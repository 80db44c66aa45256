"""Reads the timestamps of files, whatever their format and unit."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import repeat
from os.path import abspath, join, relpath
from pathlib import Path
from typing import Any, Final, TypeAlias

from windrow.errors import InvalidArgumentError, SourceError, WindrowError, similar_name
from windrow_runtime.codecs.csv import long_cells
from windrow_runtime.codecs.malformed import short_repr
from windrow_runtime.connectors.files.listing import FileOrder

__all__ = ["FORMATS", "UNITS", "Row", "TimestampReader", "files_of", "first_fields", "rows_of"]

# Any in this module: what JSON and columns hold, and pyarrow has no types.
Row: TypeAlias = tuple[str, Any, Any]
"""Where an element is, the value of its time field, and that of its key field; None where it has none."""

FORMATS: Final = ("json", "csv", "parquet")
UNITS: Final = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 0.001}
"""The microseconds of each unit."""

_SUFFIXES: Final = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet"}
_LARGEST: Final = {"s": 1e11, "ms": 1e14, "us": 1e17, "ns": math.inf}
"""Up to which number the unit is taken: seconds end in the year 5138, milliseconds begin in 1973."""

_NAMES: Final = {"s": "in seconds", "ms": "in milliseconds", "us": "in microseconds", "ns": "in nanoseconds"}
_MOST_MILLIS: Final = timedelta.max // timedelta(milliseconds=2)
"""The largest timestamp: any two of them, 1.3 million years from 1970, have a distance that a bound can be."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def files_of(path: str) -> list[str]:
    """Returns a file, or the files of a folder as a source reads them: by time, hidden ones left out.

    Raises:
        InvalidArgumentError: If it is a folder without files.
    """
    if not Path(path).is_dir():
        return [path]
    files = [join(path, relpath(file, path)) for file in FileOrder(path, path, "time", abspath(path), "").found()]
    if not files:
        raise InvalidArgumentError("the folder has no files", given=path, expected="files of records")
    return files


def first_fields(path: str, format_name: str | None) -> Sequence[str]:
    """Returns the fields of the first line of a file of JSON; none for another format or another value."""
    if (format_name or _SUFFIXES.get(Path(path).suffix.lower())) != "json":
        return ()
    with Path(path).open(encoding="utf-8-sig") as lines:
        record = next((json.loads(line) for line in lines if line.strip()), None)
    return [*record] if isinstance(record, Mapping) else ()


def rows_of(path: str, format_name: str | None, time: str, key: str | None) -> Callable[[], Iterator[Row]]:
    """Opens a file; returns what reads its rows.

    Raises:
        InvalidArgumentError: If there is no such file, or its suffix names no format and none is given.
        UnsupportedOperationError: If it is a Parquet file and pyarrow is not installed.
    """
    file = Path(path)
    if not file.is_file():
        raise InvalidArgumentError("there is no such file", given=path, expected="a file of records, or a folder")
    format_name = format_name or _SUFFIXES.get(file.suffix.lower())
    if format_name is None:
        raise InvalidArgumentError(
            "the name of the file does not tell its format",
            given=path,
            expected=", ".join(sorted(_SUFFIXES)),
            hint=f"--format {' or '.join(FORMATS)}",
        )
    if format_name == "parquet":
        from windrow_runtime.codecs.text_files import check_parquet

        check_parquet()
    read = {"json": _json_rows, "csv": _csv_rows, "parquet": _parquet_rows}[format_name]
    return lambda: _read_whole(file, read(file, time, key))


def _read_whole(file: Path, rows: Iterator[Row]) -> Iterator[Row]:
    try:
        yield from rows
    except WindrowError:
        raise
    except (ValueError, csv.Error) as error:
        raise SourceError(
            "the file cannot be read to its end",
            given=f"{error}",
            expected="texts in UTF-8" if isinstance(error, UnicodeError) else None,
            where=str(file),
        ) from error


def _json_rows(file: Path, time: str, key: str | None) -> Iterator[Row]:
    with file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise SourceError(
                    "a line of the file is no JSON", given=f"{error}", expected="an object", where=f"{file}:{number}"
                ) from error
            fields = record if isinstance(record, Mapping) else {}
            yield f"{file}:{number}", fields.get(time), None if key is None else fields.get(key)


def _csv_rows(file: Path, time: str, key: str | None) -> Iterator[Row]:
    with file.open(encoding="utf-8-sig", newline="") as lines, long_cells():
        reader = csv.DictReader(lines)
        _check_columns(file, reader.fieldnames or (), time, key)
        for record in reader:
            yield f"{file}:{reader.line_num}", record[time] or None, None if key is None else record[key]


def _parquet_rows(file: Path, time: str, key: str | None) -> Iterator[Row]:
    # Arrow only where a file needs it: the command runs without it.
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet

    try:
        parquet = pyarrow.parquet.ParquetFile(file)
    except (OSError, ValueError) as error:
        raise SourceError("the file is no Parquet file", given=f"{error}", where=str(file)) from error
    _check_columns(file, parquet.schema_arrow.names, time, key)
    number = 0
    for batch in parquet.iter_batches(columns=[time] if key in {None, time} else [time, key]):
        column = batch.column(time)
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            column = pc.floor_temporal(column, unit="microsecond").cast(pa.timestamp("us", column.type.tz))
        keys = repeat(None) if key is None else batch.column(key).to_pylist()
        for value, of_key in zip(column.to_pylist(), keys, strict=False):
            number += 1
            yield f"{file}, row {number}", value, of_key


def _check_columns(file: Path, names: Sequence[str], time: str, key: str | None) -> None:
    for name in (time, key):
        if name is not None and name not in names:
            raise InvalidArgumentError(
                "the file has no such column",
                given=name,
                expected=", ".join(names),
                where=str(file),
                hint=similar_name(name, names),
            )


def _parsed(text: str) -> object:
    for parse in (int, float):
        try:
            return parse(text)
        except ValueError:
            continue
    return datetime.fromisoformat(text)


class TimestampReader:
    """Turns values of a field into milliseconds since 1970, and counts those that are no timestamps.

    Attributes:
        skipped: The number of elements that have none.
        first_skipped: Where the first of them is; None: there is none.
    """

    def __init__(self, field: str, unit: str | None) -> None:
        self._field = field
        self._unit = unit
        self._has_texts = False
        self.skipped = 0
        self.first_skipped: str | None = None

    @property
    def shown_unit(self) -> str:
        """Describes in what form the timestamps were."""
        forms = [*(["as dates"] if self._has_texts else []), *([_NAMES[self._unit]] if self._unit else [])]
        return " and ".join(forms)

    def millis(self, value: object, where: str) -> int | None:
        """Returns a timestamp in milliseconds, rounded down; None: it is missing.

        Raises:
            SourceError: If the value is no timestamp.
        """
        if value is None:
            self.skipped += 1
            self.first_skipped = self.first_skipped or where
            return None
        try:
            timestamp = self._read(value)
            if abs(timestamp) > _MOST_MILLIS:
                raise ValueError(value)
            return timestamp
        except (ValueError, OverflowError) as error:
            raise SourceError(
                f"the field {self._field} is no timestamp",
                given=short_repr(value),
                expected="a number since 1970, or a date and time as in ISO 8601",
                where=where,
            ) from error

    def _read(self, value: object) -> int:
        if isinstance(value, str):
            value = _parsed(value)
        if isinstance(value, bool):
            raise ValueError(value)
        if isinstance(value, (int, float)):
            return self._number(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if not isinstance(value, datetime):
            raise ValueError(value)
        self._has_texts = True
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return (moment - _EPOCH) // timedelta(milliseconds=1)

    def _number(self, value: float) -> int:
        if not math.isfinite(value):
            raise ValueError(value)
        if self._unit is None:
            self._unit = next(unit for unit, largest in _LARGEST.items() if abs(value) < largest)
        if isinstance(value, int):
            return value * 1000 if self._unit == "s" else value // {"ms": 1, "us": 1000, "ns": 1_000_000}[self._unit]
        # Fractions of seconds as floats are exact to the microsecond in this century, and are rounded to it.
        return round(value * UNITS[self._unit]) // 1000
