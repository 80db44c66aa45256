"""A table of types and adapters: a value goes through an adapter as an equal one, or an error names its field.

A row of ``ADAPTERS`` writes records and returns what comes back of their field ``x``.
"""

from __future__ import annotations

import json
import math
import sqlite3
import typing
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.outputs.outputs import output_of
from tests.outputs.postgres import PASSWORD
from tests.support.iceberg import iceberg_sink, table_in
from windrow import Pipeline, from_arrow, from_dataframe, from_source
from windrow.errors import WindrowError
from windrow.kafka import AvroFormat
from windrow.sinks import CollectSink, CsvFileSink, DatabaseSink, DeltaSink, JsonFileSink, ParquetFileSink
from windrow.sources import CollectionSource, CsvFileSource, JsonFileSource, ParquetFileSource
from windrow_kafka.registry.values import RegisteredReader, RegisteredWriter, registered_type
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: values of every type, and libraries without types.

MICRO: Final = timedelta(microseconds=1)
EAST, WEST = timezone(timedelta(hours=1)), timezone(-timedelta(hours=1))
LAST: Final = datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)

EXACT: Final[list[tuple[Any, Any]]] = [
    (int, 2**63 - 1), (int, -(2**63)), (int, np.int64(5)), (int, np.uint8(200)), (int | None, 2**53 + 1),
    (float, 0.1), (float, -0.0), (float, math.inf), (float, 5e-324), (float, 1.7976931348623157e308),
    (float, 3), (float, 2**53), (float, np.float32(0.1)), (float, 2.0**63),
    (bool, True), (bool, np.bool_(False)),
    (str, ""), (str, "é\U0001f600\u2028"), (str, 'a,"b"\r\n;\\N'), (str, "null"), (str, " a "),
    (bytes, b""), (bytes, b"\xff\0a"),
    (Decimal, Decimal("-1.5")), (Decimal, Decimal("12345678901234567890.123456789012345678")),
    (Decimal, Decimal("1E+3")),
    (datetime, LAST), (datetime, datetime(1, 1, 1, tzinfo=UTC)), (datetime, datetime(1970, 1, 1, tzinfo=UTC) - MICRO),
    (datetime, datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=45)))),
    (datetime, pd.Timestamp("2026-01-01T00:00:00.000001Z")),
    (date, date(1, 1, 1)), (date, date(9999, 12, 31)),
    (uuid.UUID, uuid.UUID(int=7)),
    (int | None, None), (str | None, None), (datetime | None, None),
    (list[int], [2**53 + 1, -1]), (list[int | None], [None, 2**53 + 1]), (list[float], [0.1, 2]),
    (list[str], ["", "é"]),
    (dict[str, int], {"a": 2**53 + 1, "": 0}), (dict[str, int | None], {"a": None, "b": 2**53 + 1}),
    (tuple[int, str], (2**53 + 1, "a")),
]  # fmt: skip

REFUSED: Final[list[tuple[Any, Any]]] = [
    # too large
    (int, 2**63), (int, -(2**63) - 1), (int, np.uint64(2**63)), (int | None, 2**64), (float, 10**400),
    (list[int], [1, 2**63]), (dict[str, int], {"a": 2**63}), (tuple[int, str], (2**63, "a")),
    # outside of the years of Python in UTC
    (datetime, datetime(1, 1, 1, tzinfo=EAST)), (datetime, datetime.max.replace(tzinfo=WEST)),
    (datetime | None, datetime(1, 1, 1, tzinfo=EAST)), (list[datetime], [datetime(1, 1, 1, tzinfo=EAST)]),
    # too fine
    (float, 2**53 + 1), (float | None, -(2**53) - 1), (list[float], [2**53 + 1]), (dict[str, float], {"a": 2**53 + 1}),
    (datetime, pd.Timestamp("2026-01-01T00:00:00.000000001Z")),
    (list[datetime], [pd.Timestamp(1, unit="ns", tz="UTC")]),
    # wrong branch
    (int, 1.5), (int, 1.0), (int, True), (int, "5"), (int, Decimal(5)),
    (float, "1"), (float, True), (float, Decimal(1)),
    (bool, 1), (bool, "true"), (str, b"a"), (str, 1), (bytes, "a"), (Decimal, 1.5), (Decimal, 1), (uuid.UUID, "a"),
    (datetime, datetime(2026, 1, 1)), (datetime, 0), (datetime, date(2026, 1, 1)), (date, LAST), (str, "\ud800"),
    (list[int], ["1"]), (list[int], (1,)), (list[str], ["\ud800"]), (dict[str, int], {"\ud800": 1}),
    (dict[str, int], {1: 1}), (tuple[int, str], (1,)), (tuple[int, str], ("a", 1)),
    # null
    (int, None), (str, None), (float, None), (datetime, None), (list[int], [None]), (dict[str, int], {"a": None}),
]  # fmt: skip

EITHER: Final[list[tuple[Any, Any]]] = [
    (float, math.nan), (str, "a\0b"), (list[str], ["\0"]), (Decimal, Decimal("1E-19")), (Decimal, Decimal("1E+20")),
    (Decimal, Decimal("NaN")), (Decimal, Decimal("Infinity")), (Decimal, Decimal("1E+200000")),
    (float, np.longdouble(1) / 3), (timedelta, timedelta(days=400, microseconds=1)), (timedelta, -MICRO),
    (timedelta, timedelta.max), (timedelta, timedelta.min),
    (timedelta, pd.Timedelta(1, "ns")), (list[timedelta], [MICRO]), (list[float], [math.nan, -math.inf]),
]  # fmt: skip
"""Values that some adapters hold, and others refuse."""

Adapter = Callable[[Path, Any, Sequence[Any]], list[Any]]


def _written(values: Sequence[Any], kind: Any, sink: Any) -> Any:
    return LocalRunner().run(Pipeline("write", from_source(CollectionSource(values, kind)).sink_to(sink)))


def _of_arrow(_: Path, kind: Any, values: Sequence[Any]) -> list[Any]:
    return decode_batch(encode_batch(values, record_type(kind)), record_type(kind))


def _of_files(sink: Any, source: Any) -> Adapter:
    def read(folder: Path, kind: Any, values: Sequence[Any]) -> list[Any]:
        _written(values, kind, sink(folder / "files"))
        return list(from_source(source(folder / "files", kind)).collect())

    return read


def _of_frames(to_frame: str) -> Adapter:
    def read(_: Path, kind: Any, values: Sequence[Any]) -> list[Any]:
        sink = CollectSink[Any]()
        frame = getattr(_written(values, kind, sink), to_frame)(sink)
        types = typing.get_type_hints(kind)
        if typing.get_origin(types["x"]) is dict:
            # Both libraries have no maps: dicts and lists of structs cannot be told from records.
            cells: list[Any] = frame["x"].to_list()
            pairs: list[Any] = [cell.items() if isinstance(cell, dict) else map(dict.values, cell) for cell in cells]
            return [kind(dict(each), 1) for each in pairs]
        return list(from_arrow(frame, kind).collect())

    return read


def _of_delta(folder: Path, kind: Any, values: Sequence[Any]) -> list[Any]:
    output_of(kind, DeltaSink(folder / "table")).write(0, values)
    rows: pa.Table = DeltaTable(folder / "table").to_pyarrow_table()
    (batch,) = rows.combine_chunks().to_batches()
    return decode_batch(batch, record_type(kind))


def _of_iceberg(folder: Path, kind: Any, values: Sequence[Any]) -> list[Any]:
    output_of(kind, iceberg_sink(folder)).write(0, values)
    rows: pa.Table = table_in(folder).scan().to_arrow()
    (batch,) = rows.combine_chunks().to_batches()
    return decode_batch(batch, record_type(kind))


_FROM_SQLITE: Final[dict[Any, Callable[[Any], Any]]] = {
    bool: bool, Decimal: Decimal, datetime: datetime.fromisoformat, date: date.fromisoformat, uuid.UUID: uuid.UUID,
    timedelta: lambda number: number * MICRO,
}  # fmt: skip


def _of_sqlite(folder: Path, kind: Any, values: Sequence[Any]) -> list[Any]:
    _written(values, kind, DatabaseSink(f"sqlite:///{folder}/a.db", "rows"))
    with closing(sqlite3.connect(folder / "a.db")) as connection:
        return [kind(_of_cell(cell, kind, _FROM_SQLITE), 1) for (cell,) in connection.execute("SELECT x FROM rows")]


def _of_cell(cell: Any, kind: Any, forms: dict[Any, Callable[[Any], Any]]) -> Any:
    """Reads a cell: what has parts is JSON."""
    hint = typing.get_type_hints(kind)["x"]
    if typing.get_origin(hint) in (list, dict, tuple) and cell is not None:
        text = cell if isinstance(cell, str) else json.dumps(cell)
        return JsonDecoder(record_type(list[hint])).decode(f"[{text}]")[0]  # type: ignore[valid-type, index]  # made at run time
    return cell if cell is None else forms.get(hint, lambda plain: plain)(cell)


_TOPICS: Final = map("topic{}".format, count())


def _of_avro(_: Path, kind: Any, values: Sequence[Any]) -> list[Any]:
    value_format = AvroFormat("mock://adapters")
    of_kind = registered_type(value_format, kind)
    # Each type has a subject of its own, as the registry refuses another schema.
    payloads = RegisteredWriter(value_format, of_kind).encode(values, [next(_TOPICS)] * len(values))
    elements = RegisteredReader(value_format, of_kind).values(payloads)
    for each in elements:
        if isinstance(each, MalformedValue):
            raise each.error()
    return elements


ADAPTERS: Final[dict[str, Adapter]] = {
    "Arrow": _of_arrow,
    "Parquet": _of_files(ParquetFileSink, ParquetFileSource),
    "JSON": _of_files(JsonFileSink, JsonFileSource),
    "CSV": _of_files(CsvFileSink, CsvFileSource),
    "pandas": _of_frames("to_pandas"),
    "polars": _of_frames("to_polars"),
    "Delta": _of_delta,
    "Iceberg": _of_iceberg,
    "SQLite": _of_sqlite,
    "Avro": _of_avro,
}


def _kind(annotation: Any) -> Any:
    return typing.NamedTuple("Row", [("x", annotation), ("n", int)])


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, (list, tuple)) and type(value) is type(other):
        return len(value) == len(other) and all(map(_same, value, other))
    is_nan = isinstance(value, float) and isinstance(other, float) and math.isnan(value) and math.isnan(other)
    return is_nan or bool(value == other)


def _fault(adapter: Adapter, folder: Path, case: tuple[Any, Any], *, may_fit: bool, may_fail: bool) -> str | None:
    annotation, value = case
    kind = _kind(annotation)
    try:
        (row,) = adapter(folder, kind, [kind(value, 1)])
    except WindrowError as error:
        names_field = ".x" in f"{error.where} {error}" or "x:" in str(error)
        return None if may_fail and names_field else f"{case} is refused: {error}"
    if not may_fit:
        return f"{case} is not refused: {row}"
    return None if _same(row.x, value) else f"{case}: {row.x!r}"


def _faults(adapter: Adapter, folder: Path) -> str:
    faults: list[str | None] = []
    for may_fit, may_fail, cases in ((True, False, EXACT), (False, True, REFUSED), (True, True, EITHER)):
        for case in cases:
            below = folder / str(len(faults))
            below.mkdir()
            faults.append(_fault(adapter, below, case, may_fit=may_fit, may_fail=may_fail))
    return "\n".join(filter(None, faults))


@pytest.mark.parametrize("name", ADAPTERS)
def test_values_go_through_adapters_as_equal_ones(tmp_path: Path, name: str) -> None:
    assert _faults(ADAPTERS[name], tmp_path) == ""


def test_values_go_through_postgresql_as_equal_ones(tmp_path: Path, postgres: Path) -> None:
    url = f"postgresql://windrow:{quote(PASSWORD, safe='')}@/postgres?host={postgres}"
    tables = map("adapters{}".format, count())

    def through(_: Path, kind: Any, values: Sequence[Any]) -> list[Any]:
        table = next(tables)
        _written(values, kind, DatabaseSink(url, table))
        with psycopg.connect(url) as connection:
            return [kind(_of_cell(cell, kind, {}), 1) for (cell,) in connection.execute(f"SELECT x FROM {table}")]

    assert _faults(through, tmp_path) == ""


@pytest.mark.parametrize("batch", [False, True], ids=["stream", "batch"])
def test_values_go_through_a_dataframe_of_spark_as_equal_ones(spark: SparkSession, batch: bool) -> None:
    fields = [(f"x{number}", annotation) for number, (annotation, _) in enumerate(EXACT)]
    kind: Any = typing.NamedTuple("Wide", fields)  # type: ignore[misc]  # a class that is made at run time
    row = kind(*(value for _, value in EXACT))
    frame = spark.createDataFrame(pa.Table.from_batches([encode_batch([row], record_type(kind))]))
    sink = CollectSink[Any]()
    runner, pipeline = SparkRunner(spark), Pipeline("frames", from_dataframe(frame, kind).sink_to(sink))
    (element,) = (runner.run_batch(pipeline) if batch else runner.run(pipeline)).collected(sink)
    assert [case for case, value in zip(EXACT, element, strict=True) if not _same(value, case[1])] == []
