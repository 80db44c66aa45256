from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DecimalType, DoubleType, FloatType, IntegerType, StructType, TimestampNTZType

from tests.codecs.samples import Defaults, Event, Everything, Place, Reading, Trip
from tests.codecs.spark_types import LONG, RAW, TEXT, struct
from windrow.errors import SourceError
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_spark.spark_schema import as_stored, check_spark_schema, spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = [Reading, Everything, Trip, Event, int, str | None, tuple[str, int], list[Place], dict[str, int | None]]


@pytest.mark.parametrize("annotation", TYPES, ids=str)
@pytest.mark.spark
def test_arrow_and_spark_agree(spark: SparkSession, annotation: object) -> None:
    kind = record_type(annotation)
    schema = spark.createDataFrame([], spark_ddl(kind)).schema
    assert to_arrow_schema(schema, timezone="UTC").equals(arrow_schema(kind))
    check_spark_schema(schema, kind)


def test_the_schema_as_text() -> None:
    assert spark_ddl(record_type(Trip)) == (
        "`id` BIGINT, `at` TIMESTAMP, `fare` DOUBLE, `paid` BOOLEAN, `note` STRING, "
        "`stops` ARRAY<STRUCT<`x`: DOUBLE, `y`: DOUBLE, `name`: STRING>>, `counts` MAP<STRING, BIGINT>, "
        "`pair` STRUCT<`_1`: BIGINT, `_2`: STRING>, `colour` STRING, `level` BIGINT"
    )


def test_widening_and_missing_optional_columns_fit() -> None:
    check_spark_schema(struct(celsius=FloatType(), at=IntegerType(), sensor=TEXT, other=TEXT), record_type(Reading))
    check_spark_schema(struct(name=TEXT), record_type(Defaults))


@dataclass
class Outer:
    inner: list[Place]
    n: int


def test_all_faults_are_listed() -> None:
    schema = struct(inner=ArrayType(struct(x=TEXT, Y=DoubleType())), n=TimestampNTZType(), m=LONG)
    with pytest.raises(SourceError) as caught:
        check_spark_schema(schema, record_type(Outer))
    text = str(caught.value)
    assert "Outer.inner[].x: expected float (DOUBLE), not STRING" in text
    assert "Outer.inner[].y: no such column; expected float (there is 'Y': names differ in case)" in text
    assert "Outer.n: expected int (BIGINT), not TIMESTAMP_NTZ" in text


def test_two_columns_of_one_name() -> None:
    with pytest.raises(SourceError, match="2 columns of this name"):
        check_spark_schema(StructType().add("value", LONG).add("value", LONG), record_type(int))


@pytest.mark.spark
def test_spark_reads_what_the_codec_writes(spark: SparkSession) -> None:
    kind = record_type(Outer)
    values: list[object] = [Outer([Place(1.0, 2.0, "a"), Place(3.0, 4.0)], 1), Outer([], 2)]
    frame = spark.createDataFrame(
        [
            {"inner": [{"x": 1.0, "y": 2.0, "name": "a"}, {"x": 3.0, "y": 4.0, "name": None}], "n": 1},
            {"inner": [], "n": 2},
        ],
        schema=spark_ddl(kind),
    )
    check_spark_schema(frame.schema, kind)
    (batch,) = frame.toArrow().combine_chunks().to_batches()
    assert decode_batch(batch, kind) == values
    written = frame.mapInArrow(
        lambda batches: (encode_batch(decode_batch(b, kind), kind) for b in batches), frame.schema
    )
    assert sorted(map(str, written.collect())) == sorted(map(str, frame.collect()))


def test_columns_that_spark_would_not_widen_are_read_as_they_are() -> None:
    there = struct(
        a=LONG, b=IntegerType(), c=ArrayType(RAW), d=DecimalType(20, 0), e=DecimalType(10, 2), f=struct(x=LONG)
    )
    double = DoubleType()
    of_f = struct(x=double, y=TEXT)
    wanted = struct(a=double, b=LONG, c=ArrayType(TEXT), d=LONG, e=DecimalType(38, 18), new=TEXT, f=of_f)
    read = as_stored(there, wanted)
    assert read.simpleString() == (
        "struct<a:bigint,b:bigint,c:array<binary>,d:decimal(20,0),e:decimal(38,18),new:string,"
        "f:struct<x:bigint,y:string>>"
    )
