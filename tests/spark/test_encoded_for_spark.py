"""What Spark's writers get for files in other file systems: lines and columns that windrow encoded."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tests.outputs.every_type import COLUMNS, RECORDS
from windrow.sinks import CsvFileSink, FileSink, JsonFileSink
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.arrow.spark_metadata import SPARK_KEY, spark_metadata
from windrow_runtime.codecs.json.encoder import JsonEncoder
from windrow_runtime.codecs.record_type import record_type
from windrow_spark.columnar.state import dump_rows
from windrow_spark.connectors.files.by_spark import _line_encoder
from windrow_spark.exchange.rows import RowKind, dump_values
from windrow_spark.sinks.unpacking import Unpack

# Any in this module: records of several classes, and pyarrow has no types.


def rows_of(elements: list[Any], annotation: Any, *, in_columns: bool) -> pa.RecordBatch:
    kind = RowKind.OUTPUT_COLUMNS if in_columns else RowKind.OUTPUT
    columns = dump_rows(encode_batch(elements, record_type(annotation)), compress=False) if in_columns else None
    payload = dump_values(elements) if columns is None else columns
    return pa.record_batch([pa.array([int(kind)]), pa.array([bytes(payload)])], names=["kind", "payload"])


def lines_of(sink: FileSink[Any], rows: pa.RecordBatch, annotation: Any) -> list[str]:
    kind = record_type(annotation)
    unpack = Unpack(partial(_line_encoder, sink, kind, None), "a.1.sink", (), kind, makes_lines=True)
    return [line for batch in unpack(iter([rows])) for line in batch.column(0).to_pylist()]


@pytest.mark.parametrize("name", RECORDS)
def test_lines_are_those_of_the_encoder(name: str) -> None:
    elements, annotation = RECORDS[name]
    encode = JsonEncoder(record_type(annotation)).encode
    sink = JsonFileSink[Any]("s3a://bucket/out")
    assert lines_of(sink, rows_of(elements, annotation, in_columns=False), annotation) == list(map(encode, elements))


def test_lines_of_columns_are_those_of_elements() -> None:
    kind = type(COLUMNS[0])
    for sink in (JsonFileSink[Any]("s3a://bucket/out"), CsvFileSink[Any]("s3a://bucket/out")):
        found = [lines_of(sink, rows_of(COLUMNS, kind, in_columns=way), kind) for way in (False, True)]
        assert found[0] == found[1]


def test_sparks_note_in_a_file_says_what_parquet_does_not() -> None:
    types: dict[str, Any] = {}
    for name in ("flat", "nested"):
        noted = json.loads(spark_metadata(record_type(RECORDS[name][1]))[SPARK_KEY])
        types |= {field["name"]: field["type"] for field in noted["fields"]}
    span = "interval day to second"
    assert (types["took"], types["number"], types["at"]) == (span, "long", "timestamp")
    assert types["spans"] == {"type": "array", "elementType": span, "containsNull": True}
    assert types["by_name"]["valueType"] == span
