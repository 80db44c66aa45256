"""Data frames of pandas, polars and DuckDB as sources, and as results, in the interpreter."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from windrow import DataStream, DecimalType, OutputTag, Pipeline, from_arrow, from_collection
from windrow.distribution import install_hint
from windrow.errors import InvalidArgumentError, MalformedRecordError, SourceError, UnsupportedOperationError
from windrow.sinks import CollectSink
from windrow.sources import ArrowSource, MalformedRecord
from windrow_runtime.local import LocalRunner, PipelineResult

# Any in this module: pyarrow has no types, and derived ones are unknown to a type checker.

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


def rows_of(data: Any, **options: Any) -> list[dict[str, Any]]:
    return [dataclasses.asdict(row) for row in from_arrow(data, **options).collect()]


FRAMES: dict[str, Any] = {
    "polars": pl.DataFrame({"zone": ["a", "b"], "price": [1.5, 2.5], "riders": [1, None]}),
    "pandas": pd.DataFrame({"zone": ["a", "b"], "price": [1.5, 2.5], "riders": pd.array([1, None], "Int64")}),
    "DuckDB": duckdb.sql("SELECT * FROM (VALUES ('a', 1.5::DOUBLE, 1), ('b', 2.5, NULL)) AS t(zone, price, riders)"),
    "pyarrow": pa.table({"zone": ["a", "b"], "price": [1.5, 2.5], "riders": [1, None]}),
    "a record batch": pa.record_batch({"zone": ["a", "b"], "price": [1.5, 2.5], "riders": [1, None]}),
}


@pytest.mark.parametrize("library", FRAMES)
def test_rows_of_every_library_are_elements_with_a_derived_type(library: str) -> None:
    stream = from_arrow(FRAMES[library])
    kind: Any = stream.element_type
    assert kind.__name__ == "Row"
    types = {field.name: field.type for field in dataclasses.fields(kind)}
    assert types == {"zone": str, "price": float, "riders": int | None}
    first, second = stream.collect()
    assert type(first) is kind
    assert repr(first) == "Row(zone='a', price=1.5, riders=1)"
    assert (second.zone, second.price, second.riders) == ("b", 2.5, None)
    assert "  : Row" in Pipeline("p", stream.print()).explain()


def test_equal_columns_have_one_type_and_others_another() -> None:
    first, second = (from_arrow(pl.DataFrame({"n": [number]})) for number in (1, 2))
    other = from_arrow(pl.DataFrame({"n": ["a"]}))
    assert first.element_type is second.element_type
    assert first.union(second).element_type is first.element_type
    assert other.element_type != first.element_type
    kinds: list[Any] = [first.element_type, other.element_type]
    assert len({kind.__module__ for kind in kinds}) == 2


COLUMNS: dict[str, tuple[Any, Any, list[Any]]] = {
    "small ints": (pa.array([1, 2], pa.uint8()), int, [1, 2]),
    "floats": (pa.array([1.5, None], pa.float32()), float | None, [1.5, None]),
    "bools": (pa.array([True, False]), bool, [True, False]),
    "texts by views": (pa.array(["a", None], pa.string_view()), str | None, ["a", None]),
    "large texts": (pa.array(["a", "b"], pa.large_string()), str, ["a", "b"]),
    "categories": (pa.array(["a", None]).dictionary_encode(), str | None, ["a", None]),
    "bytes": (pa.array([b"a", b"b"], pa.binary(1)), bytes, [b"a", b"b"]),
    "dates": (pa.array([NOON.date()] * 2, pa.date64()), dt.date, [NOON.date()] * 2),
    "moments": (pa.array([NOON, None], pa.timestamp("ms", "Asia/Tokyo")), dt.datetime | None, [NOON, None]),
    "spans": (pa.array([dt.timedelta(1)] * 2), dt.timedelta, [dt.timedelta(1)] * 2),
    "decimals": (
        pa.array([decimal.Decimal("1.50")] * 2, pa.decimal128(10, 2)),
        Annotated[decimal.Decimal, DecimalType(10, 2)],
        [decimal.Decimal("1.50")] * 2,
    ),
    "nulls": (pa.nulls(2), type(None), [None, None]),
    "runs": (pa.RunEndEncodedArray.from_arrays([2], ["a"]), str, ["a", "a"]),
    "lists": (pa.array([[1, None], None]), list[int | None] | None, [[1, None], None]),
    "lists of lists of a size": (
        pa.array([[[1, 2]], []], pa.list_(pa.list_(pa.int64(), 2))),
        list[list[int]],
        [[[1, 2]], []],
    ),
    "maps": (pa.array([[("a", 1)], []], pa.map_("string", "int64")), dict[str, int], [{"a": 1}, {}]),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_a_column_has_the_type_of_its_values(case: str) -> None:
    column, kind, values = COLUMNS[case]
    stream = from_arrow(pa.table({"value": column}))
    (field,) = dataclasses.fields(stream.element_type)  # type: ignore[arg-type]  # it is a dataclass
    assert field.type == kind
    assert [row.value for row in stream.collect()] == values


def test_structs_are_records_with_nulls_of_their_own() -> None:
    """A null of the struct is none of its fields."""
    frame = pl.DataFrame({"from_place": [{"lat": 1.5, "name": None}, None]})
    stream = from_arrow(frame)
    (field,) = dataclasses.fields(stream.element_type)  # type: ignore[arg-type]  # it is a dataclass
    place = field.type.__args__[0]  # type: ignore[union-attr]  # it may be None
    assert place.__name__ == "FromPlace"
    assert {each.name: each.type for each in dataclasses.fields(place)} == {"lat": float, "name": type(None)}
    assert [row.from_place and row.from_place.lat for row in stream.collect()] == [1.5, None]


def test_categories_and_enums_of_polars_are_texts() -> None:
    kinds: dict[str, Any] = {"category": pl.Categorical, "level": pl.Enum(["low", "high"])}
    frame = pl.DataFrame({"category": ["a", None], "level": ["low", "high"]}, schema=kinds)
    assert rows_of(frame) == [{"category": "a", "level": "low"}, {"category": None, "level": "high"}]


def test_no_rows_have_a_type_as_well() -> None:
    assert rows_of(pl.DataFrame({"n": [1], "texts": [["a"]]}).clear()) == []


def test_an_index_of_pandas_is_a_column_if_it_has_a_name() -> None:
    frame = pd.DataFrame({"n": [1, 2, 3]})
    assert rows_of(frame[frame.n > 1]) == [{"n": 2}, {"n": 3}]
    assert rows_of(frame.set_index(pd.Index(["a", "b", "c"], name="key"))[:1]) == [{"n": 1, "key": "a"}]


@dataclass(frozen=True)
class At:
    at: dt.datetime


def test_clocks_without_a_zone_need_one() -> None:
    frame = pl.DataFrame({"at": [dt.datetime(2026, 3, 1, 13)]})
    for kind in (None, At):
        given: Any = (frame,) if kind is None else (frame, kind)
        (row,) = from_arrow(*given, timezone="Europe/Berlin").collect()
        assert row.at == NOON
        with pytest.raises(SourceError, match="the source may say timezone="):
            from_arrow(*given).collect()
    with pytest.raises(InvalidArgumentError, match="Nowhere"):
        from_arrow(frame, At, timezone="Nowhere")


@dataclass(frozen=True)
class Price:
    price: float


def test_a_null_of_a_later_batch_is_in_the_type_and_a_flag_alone_is_not() -> None:
    flags = {"a": True, "b": True, "c": False}
    schema = pa.schema([pa.field(name, pa.int64(), nullable=flag) for name, flag in flags.items()])
    batches = [pa.record_batch([[number], [1], [2]], schema=schema) for number in (1, 2, None)]
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    row: Any = from_arrow(reader, batch_size=1).element_type
    kinds = {field.name: field.type for field in dataclasses.fields(row)}
    assert kinds == {"a": int | None, "b": int, "c": int}


def test_a_missing_number_of_pandas_is_none() -> None:
    frame = pd.DataFrame({"price": [1.5, float("nan")]})
    assert rows_of(frame) == [{"price": 1.5}, {"price": None}]
    with pytest.raises(MalformedRecordError, match="price"):
        from_arrow(frame, Price).collect()
    malformed = OutputTag("malformed", MalformedRecord)
    (record,) = from_arrow(frame, Price, on_malformed=malformed).get_side_output(malformed).collect()
    assert record.origin == "Arrow data of a DataFrame, row 1"


class Spaced(TypedDict("Spaced", {"unit price": float})):
    """Any names are keys."""


@pytest.mark.parametrize(
    ("data", "given"),
    [
        (pl.DataFrame({"unit price": [1.5], "class": [2], "n": [3]}), r"'unit price', 'class'"),
        (pa.table([[1], [2]], names=["n", "n"]), "'n'"),
        (pa.table({}), "no column"),
    ],
    ids=["names", "twice", "none"],
)
def test_columns_need_names_of_fields(data: Any, given: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"(?s)given: +{given}\n.*where: .*test_data_frames\.py:\d+"):
        from_arrow(data)


def test_a_given_type_may_have_any_names() -> None:
    assert from_arrow(pl.DataFrame({"unit price": [1.5]}), Spaced).collect() == [{"unit price": 1.5}]


def test_columns_without_a_type_of_elements_are_named() -> None:
    frame = pl.DataFrame({"n": [1], "time": [dt.time(1)], "days": [{"first": dt.time(1)}]})
    with pytest.raises(InvalidArgumentError, match=r"given: +time: time64\[ns\], days\.first: time64\[ns\]\n"):
        from_arrow(frame)

    @dataclass(frozen=True)
    class Numbered:
        n: int

    assert from_arrow(frame, Numbered).collect() == [Numbered(1)]


def test_without_pyarrow_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from windrow import from_arrow\n"
        "class Frame:\n    def __arrow_c_stream__(self, requested_schema=None): ...\n"
        "try: from_arrow(Frame())\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "UnsupportedOperationError the type of the rows is derived by pyarrow",
        "  given:    Arrow data of a Frame, without pyarrow",
        "  expected: pyarrow, or a record type",
        "  where:    <string>:5",
        f"  hint:     {install_hint('spark')}",
    ]


@dataclass(frozen=True)
class Result:
    zone: str
    riders: int | None
    paid: bool | None
    whole: int
    at: dt.datetime
    marks: dict[str, int]


RESULTS = [Result("a", 2**60 + 1, None, 1, NOON, {"x": 1}), Result("b", None, True, 2, NOON, {})]


def run(stream: DataStream[Any]) -> tuple[PipelineResult, CollectSink[Any]]:
    sink = CollectSink[Any]()
    return LocalRunner().run(Pipeline("p", stream.sink_to(sink))), sink


def test_results_are_a_data_frame_of_pandas() -> None:
    result, sink = run(from_collection(RESULTS))
    frame = result.to_pandas(sink)
    assert type(frame) is pd.DataFrame
    assert list(map(str, frame.dtypes)) == ["object", "Int64", "boolean", "int64", "datetime64[us, UTC]", "object"]
    assert frame["riders"][0] == 2**60 + 1
    assert frame["riders"][1] is pd.NA
    assert frame["paid"].tolist() == [pd.NA, True]
    assert frame["marks"].tolist() == [{"x": 1}, {}]


LARGE = 2**53 + 1


@dataclass(frozen=True)
class Inner:
    n: int | None
    numbers: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class WithoutMaps:
    numbers: list[int | None]
    flags: list[bool | None] | None
    inner: Inner
    maybe: Inner | None
    many: list[Inner]
    deep: list[list[int | None]]
    plain: list[int]


@dataclass(frozen=True)
class Nested(WithoutMaps):
    counts: dict[str, int | None]


def test_ints_beside_none_stay_ints_at_all_depths() -> None:
    inner = Inner(LARGE, (None, LARGE))
    values = [
        Nested(
            *([LARGE, None], [True, None], inner, inner, [Inner(None), inner], [[None, LARGE]], [LARGE]),
            counts={"a": LARGE, "b": None},
        ),
        Nested([], None, Inner(None), None, [], [[], [LARGE]], [], counts={}),
    ]
    result, sink = run(from_collection(values))
    frame = result.to_pandas(sink)
    record = {"n": LARGE, "numbers": [None, LARGE]}
    nothing: dict[str, object] = {"n": None, "numbers": []}
    assert [row.tolist() for row in frame["numbers"]] == [[LARGE, None], []]
    assert frame["flags"][0].tolist() == [True, None]
    assert frame["flags"][1] is None
    assert frame["counts"].tolist() == [{"a": LARGE, "b": None}, {}]
    assert frame["inner"].tolist() == [record, nothing]
    assert frame["maybe"].tolist() == [record, None]
    assert [row.tolist() for row in frame["many"]] == [[nothing, record], []]
    assert [row.tolist() for row in frame["deep"]] == [[[None, LARGE]], [[], [LARGE]]]
    assert frame["plain"][0].dtype == "int64"
    polars = result.to_polars(sink)
    assert polars["numbers"].to_list() == [[LARGE, None], []]
    assert polars["inner"].to_list() == [record, nothing]
    assert polars["deep"].to_list() == [[[None, LARGE]], [[], [LARGE]]]
    # Frames come back as the same elements; pandas has no type for an empty map.
    assert from_arrow(polars.drop("counts"), WithoutMaps).collect() == [
        WithoutMaps(**{name: value for name, value in vars(each).items() if name != "counts"}) for each in values
    ]


def test_results_are_a_data_frame_of_polars() -> None:
    result, sink = run(from_collection(RESULTS))
    frame = result.to_polars(sink)
    assert type(frame) is pl.DataFrame
    assert frame.drop("marks").rows() == [("a", 2**60 + 1, None, 1, NOON), ("b", None, True, 2, NOON)]
    assert frame.schema["at"] == pl.Datetime("us", "UTC")
    assert frame["marks"].to_list() == [{"x": 1}, {}]


def test_elements_without_fields_and_no_elements_are_frames_too() -> None:
    result, sink = run(from_collection([3, 1]))
    assert result.to_pandas(sink)["value"].tolist() == result.to_polars(sink)["value"].to_list() == [3, 1]
    result, sink = run(from_collection(RESULTS[:0], Result))
    assert result.to_pandas(sink).shape == result.to_polars(sink).shape == (0, 6)
    assert list(result.to_pandas(sink)) == result.to_polars(sink).columns


def test_frames_go_round() -> None:
    frame = pl.DataFrame({"zone": ["a", "b", "a"], "price": [1.5, None, 2.5]})
    result, sink = run(from_arrow(frame))
    assert result.to_polars(sink).equals(frame)
    result, sink = run(from_arrow(result.to_pandas(sink)))
    assert result.to_polars(sink).equals(frame)


@pytest.mark.parametrize(("call", "extra"), [("pandas", "spark"), ("polars", "polars"), ("arrow", "spark")])
def test_a_missing_library_is_named_with_its_extra(call: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result, sink = run(from_collection(RESULTS))
    monkeypatch.setitem(sys.modules, "pyarrow" if call == "arrow" else call, None)
    with pytest.raises(UnsupportedOperationError, match=rf"hint: +{re.escape(install_hint(extra))}"):
        getattr(result, f"to_{call}")(sink)


@pytest.mark.parametrize("call", ["to_pandas", "to_polars"])
def test_a_frame_is_made_of_a_sink_of_the_pipeline(call: str) -> None:
    result, _ = run(from_collection(RESULTS))
    with pytest.raises(InvalidArgumentError, match="the sink is not part of the pipeline"):
        getattr(result, call)(CollectSink[int]())
    unknown, sink = run(from_collection([1]).map(lambda number: [each + 0 for each in (number, number)][-1]))
    with pytest.raises(InvalidArgumentError, match=r"call returns\(Type\) before sink_to"):
        getattr(unknown, call)(sink)


def test_a_source_may_be_made_of_data_alone() -> None:
    source = ArrowSource[Any](pl.DataFrame({"n": [1]}))
    assert source.record_type is from_arrow(pl.DataFrame({"n": [2]})).element_type
