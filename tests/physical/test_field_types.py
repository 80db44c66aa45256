"""Every aggregate takes columns of every type of field that it takes in Python, where elements have columns at all."""

from __future__ import annotations

import dataclasses
import enum
import uuid
from collections.abc import Callable, Set
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from tests.columnar.rows import OF_ONE, folded
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.aggregates import DeclaredAggregate
from windrow.errors import InvalidArgumentError
from windrow.sinks import CollectSink
from windrow.sources import DataFrameSource, ParquetFileSource, Source
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.operators.topology import Topology
from windrow_spark.lowering import physical_plan

# Any in this module: fields, elements and results are of every type.


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Inner:
    number: int


VALUES: dict[str, tuple[Any, Any]] = {
    "bool": (bool, True),
    "int": (int, 3),
    "float": (float, 1.5),
    "str": (str, "a"),
    "bytes": (bytes, b"a"),
    "Decimal": (Decimal, Decimal("1.50")),
    "datetime": (datetime, datetime(2024, 2, 1, tzinfo=UTC)),
    "date": (date, date(2024, 2, 1)),
    "timedelta": (timedelta, timedelta(seconds=1)),
}
CALLED = {"str": "texts", "bytes": "bytes", "Decimal": "decimals", "timedelta": "time spans"}

OF_NUMBERS = {
    *("mean", "variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop"),
    *("approx_quantile", "approx_quantiles"),
}
ADDED, TEXTS = ("sum", "mean"), ("str", "bytes")
"""What the plan refuses: sums of texts."""

COLUMNS: dict[str, Set[str]] = {
    **dict.fromkeys(("bool", "int", "float"), OF_ONE.keys()),
    **dict.fromkeys(("str", "bytes", "datetime", "date"), OF_ONE.keys() - OF_NUMBERS - {"sum"}),
    **dict.fromkeys(("Decimal", "timedelta"), OF_ONE.keys() - OF_NUMBERS),
}
"""What runs on columns. Whatever is not here, the aggregate itself refuses."""


def record_of(field: Any) -> Any:
    return dataclasses.make_dataclass("Record", [("key", str), ("at", int), ("value", field)])


def form(field: Any, aggregate: DeclaredAggregate[Any, Any, Any], source: Callable[[Any], Source[Any]]) -> str:
    stream = (
        from_source(source(record_of(field)))
        .assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda r: r.at)
        .key_by(lambda r: r.key)
        .window(TumblingEventTimeWindows.of(timedelta(seconds=5)))
        .aggregate(aggregate)
    )
    (form,) = physical_plan(Topology(Pipeline("plan", stream.sink_to(CollectSink())).steps)).forms().values()
    return str(form)


def parquet(record: Any) -> Source[Any]:
    return ParquetFileSource("never read", record)


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("name", OF_ONE)
@pytest.mark.parametrize("kind", VALUES)
def test_the_table(kind: str, name: str, optional: bool) -> None:
    field, value = VALUES[kind]
    function = OF_ONE[name](lambda r: r.value)
    if name in ADDED and kind in TEXTS:
        with pytest.raises(InvalidArgumentError, match=rf"{name} adds numbers up, and its selector takes a text"):
            form(field | None if optional else field, function, parquet)
        return
    told = form(field | None if optional else field, function, parquet)
    if name in COLUMNS[kind]:
        assert told == "columns, partially aggregated before the exchange"
        return
    assert told.endswith(f"not on columns: {name} of {CALLED.get(kind, 'times')}")
    with pytest.raises(InvalidArgumentError, match=r"aggregate of numbers got something else"):
        folded(function, [record_of(field)("key", 0, value)])


def test_the_table_has_all_aggregates() -> None:
    facts = {"key", "window_start", "window_end"}
    functions = {name for name in agg.__all__ if name[0].islower()}
    assert {*OF_ONE} == functions - facts - {"recognise", "combine", "into"}


REFUSED: dict[str, tuple[Any, str]] = {
    "Enum": (Color, "Record.value is a Color"),
    "IntEnum": (Level, "Record.value is a Level"),
    "UUID": (uuid.UUID, "Record.value is a UUID"),
    "list": (list[int], "Record.value is a list[int]"),
    "tuple": (tuple[int, str], "Record.value is a tuple[int, str]"),
    "dict": (dict[str, int], "Record.value is a dict[str, int]"),
    "record": (Inner, "Record.value is a Inner"),
    "time": (time, "this type has no column form"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_elements_with_fields_that_have_to_be_looked_at(kind: str) -> None:
    field, reason = REFUSED[kind]
    assert form(field, agg.count(), parquet).endswith(f"not on columns: {reason}")


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ((38, 18), "columns, partially aggregated before the exchange"),
        ((9, 2), "value is a decimal(9,2) in the DataFrame, and columns are (38,18)"),
    ],
)
def test_decimals_of_a_dataframe_keep_their_digits(kind: tuple[int, int], told: str) -> None:
    from pyspark.sql.types import DecimalType, LongType, StringType, StructField, StructType

    schema = StructType(
        [StructField("key", StringType()), StructField("at", LongType()), StructField("value", DecimalType(*kind))]
    )
    # Any: a DataFrame as far as the plan looks at it.
    frame: Any = SimpleNamespace(isStreaming=True, schema=schema)
    found = form(Decimal, agg.sum(lambda r: r.value), lambda record: DataFrameSource(frame, record))
    assert found.endswith(told)
