"""Fields of any JSON, and of the text of a JSON value, in JSON lines, CSV, Parquet and databases."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, NotRequired, TypedDict, TypeVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from tests.codecs.samples import writers_of
from windrow.errors import InvalidArgumentError
from windrow.formats import JsonValue, RawJson
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.csv import CsvDecoder, CsvEncoder, CsvRow, csv_rows
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.json.encoder import JsonEncoder, JsonLines
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type

# Any in this module: it is what a field says that holds any JSON.

T = TypeVar("T")

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@dataclass(frozen=True)
class Note:
    body: JsonValue
    anything: Any
    many: dict[str, list[JsonValue]]


@dataclass(frozen=True)
class Text:
    body: RawJson
    maybe: RawJson | None
    pairs: dict[str, tuple[int, RawJson]]


class Row(NamedTuple):
    key: str
    body: JsonValue = "nothing"


class Letter(TypedDict):
    body: RawJson


@dataclass(frozen=True)
class Box(Generic[T]):
    content: T


class Level(enum.IntEnum):
    LOW = 1


def decoded(annotation: object, line: str) -> Any:
    return JsonDecoder(record_type(annotation)).decode(line.encode())


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def fault_of(record: object) -> str:
    assert isinstance(record, MalformedValue), record
    return f"{record.field}: {record.reason}"


def read_again(annotation: object, element: object) -> list[object]:
    """What an element becomes by way of JSON, of many JSON lines, of CSV and of columns."""
    kind = record_type(annotation)
    line = JsonEncoder(kind).encode(element)
    assert JsonLines(kind).encode([element, element]) == f"{line}\n{line}\n"
    encoder = CsvEncoder(kind, ",")
    (row,) = csv_rows(iter(encoder.encode(element).splitlines(keepends=True)), ",")
    return [
        JsonDecoder(kind).decode(line.encode()),
        CsvDecoder(kind, encoder.header.split(",")).decode(row),
        *decode_batch(encode_batch([element], kind), kind),
    ]


@examples(100)
@given(VALUES, VALUES, st.dictionaries(st.text(), st.lists(VALUES, max_size=2), max_size=2))
def test_any_json_reads_back(body: Any, anything: Any, many: Any) -> None:
    element = Note(body, anything, many)
    for again in read_again(Note, element):
        # A float may be written as what Python calls an int, and True is no 1.
        assert repr(again) == repr(element)
    written = json.loads(JsonEncoder(record_type(Note)).encode(element))
    assert written == {"body": body, "anything": anything, "many": many}


@examples(100)
@given(VALUES, VALUES, st.dictionaries(st.text(), VALUES, max_size=2), st.sampled_from([None, 2]))
def test_texts_of_json_read_back_as_they_are(body: Any, maybe: Any, pairs: Any, indent: int | None) -> None:
    # A null where a text may be missing is a missing text.
    text = None if maybe is None else RawJson(json.dumps(maybe))
    element = Text(
        RawJson(json.dumps(body, separators=(" ,", " : "))),
        text,
        {key: (1, RawJson(json.dumps(value, ensure_ascii=False))) for key, value in pairs.items()},
    )
    assert read_again(Text, element) == [element] * 3
    of_lines = Text(RawJson(json.dumps(body, indent=indent)), text, {})
    line = JsonEncoder(record_type(Text)).encode(of_lines)
    assert "\n" not in line
    assert json.loads(line)["body"] == body


def test_a_text_keeps_its_spaces_its_digits_and_its_order() -> None:
    line = '{ "pairs" : { "x" : [ 1 , 1E400 ] } , "body" :  {"b": 1.10, "a":[ ]} , "maybe": null, "more": [NaN]}'
    assert fault_of(decoded(Text, line)).startswith("None: not JSON: NaN is no JSON number")
    assert decoded(Text, line.replace("NaN", "")) == Text(
        RawJson('{"b": 1.10, "a":[ ]}'), None, {"x": (1, RawJson("1E400"))}
    )
    assert decoded(Letter, '{"body": null}') == {"body": "null"}
    assert decoded(list[RawJson], '[1 ,"two"]') == ["1", '"two"']
    assert decoded(list[RawJson], "[]") == []


@pytest.mark.parametrize(
    "line",
    [
        '{"body": }', '{"body" 1}', '{"body": 1', '{"body": 1,}', '{"body": 1 "x": 2}', '{body: 1}', '{"body": 1} 2',
        '{"body": [1}', '{"body": 1, "pairs": {"x": [1 2]}}', '{"body": 1, "pairs": {"x": [1, 2}}', "", "{",
    ],
)  # fmt: skip
def test_what_is_no_json_is_told_as_where_no_text_is_asked_for(line: str) -> None:
    fault = fault_of(decoded(Text, line))
    assert fault.startswith("None: not JSON: ")
    assert fault == fault_of(decoded(Row, line))


SIGNS = st.text(st.sampled_from('{}[]",:1 .e-\\a\t'), max_size=20)


@examples(200)
@given(SIGNS | VALUES.map(lambda value: json.dumps(value, indent=1)))
def test_a_text_is_found_where_the_line_is_json_and_nowhere_else(text: str) -> None:
    line = f'{{"more": [{{}}, "}}"] ,"body" : {text} }}'
    found = decoded(Letter, line)
    try:
        expected = json.loads(line)["body"]
    except ValueError as error:
        expected = f"None: not JSON: {error}"
    # The text may have the key again.
    assert (fault_of(found) if isinstance(found, MalformedValue) else json.loads(found["body"])) == expected


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("[1]", "Text"), ('{"body": 1, "pairs": 3}', "pairs"), ('{"body": 1, "pairs": {"x": 1}}', "pairs"),
        ('{"pairs": {}}', "body"), ('{"body": 1, "pairs": {"x": [1, 2, 3]}}', "pairs"),
        ('{"body": 1, "pairs": {"x": [1]}}', "pairs"),
    ],
)  # fmt: skip
def test_other_values_are_malformed_with_their_field(line: str, where: str) -> None:
    assert where in fault_of(decoded(Text, line))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1E400", "out of range"),
        ('"\\ud800"', "surrogate"),
        ('{"\\ud800": 1}', "surrogate"),
        ("[" * 300 + "]" * 300, "200 deep"),
        ("[" * 100_000 + "]" * 100_000, "not JSON: maximum recursion depth"),
    ],
)
def test_values_that_python_cannot_hold_are_malformed(text: str, reason: str) -> None:
    kind = record_type(Row)
    for record in (
        decoded(Row, f'{{"key": "a", "body": {text}}}'),
        CsvDecoder(kind, ["key", "body"]).decode(CsvRow(1, "", ["a", text])),
    ):
        assert reason in fault_of(record)
    faults: list[MalformedValue] = []
    batch = pa.RecordBatch.from_pydict({"key": ["a", "b"], "body": [text, "[2]"]})
    assert decode_batch(batch, kind, faults.append) == [Row("b", [2])]
    assert faults[0].row == 0
    assert reason in fault_of(faults[0])


@pytest.mark.parametrize("text", ["", "{", "nul", "[1] 2", "NaN", "'a'", "\ufeff1"])
def test_a_column_of_texts_that_are_no_json(text: str) -> None:
    batch = pa.RecordBatch.from_pydict({"body": [text]})
    for annotation in (Letter, Row):
        faults: list[MalformedValue] = []
        columns = batch if annotation is Letter else batch.append_column("key", pa.array(["a"]))
        assert decode_batch(columns, record_type(annotation), faults.append) == []
        assert "is not JSON" in fault_of(faults[0])


def test_a_cell_without_a_value() -> None:
    decoder = CsvDecoder(record_type(Row), ["key", "body"])
    assert decoder.decode(CsvRow(1, "", ["a", "null"])) == Row("a", None)
    assert decoder.decode(CsvRow(1, "", ["a", ""])) == Row("a", "nothing")
    encoder = CsvEncoder(record_type(Row), ",")
    assert encoder.encode(Row("a", None)) == "a,null"
    assert encoder.encode(Row("a", "")) == 'a,""""""'
    assert CsvEncoder(record_type(Note), ",").encode(Note(None, 1, {})) == ",1,{}"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ((1, 2), "tuple"),
        (datetime(2026, 1, 1, tzinfo=UTC), "datetime"),
        ({1: 2}, "keys of type str"),
        (float("nan"), "JSON has no NaN"),
        (b"x", "bytes"),
        ("\ud800", "surrogate"),
        ([{"x": {3}}], "set"),
        pytest.param(10**4_500, "an int of 14,949 bits", id="a long int"),
        (nested(201), "200 deep"),
    ],
)
def test_what_json_does_not_have_is_refused_by_sinks(body: Any, reason: str) -> None:
    for write in writers_of(record_type(Row)).values():
        with pytest.raises(InvalidArgumentError, match=rf"{reason}(.|\n)*Row\.body"):
            write(Row("a", body))


def test_subclasses_and_scalars_of_numpy_are_written_as_what_they_are() -> None:
    body: Any = {"a": np.int64(1), "b": np.float64(2.5), "c": Level.LOW, "d": np.bool_(True)}
    assert JsonEncoder(record_type(Row)).encode(Row("k", body)) == ('{"key":"k","body":{"a":1,"b":2.5,"c":1,"d":true}}')


@pytest.mark.parametrize("text", ["", "{", "1 2", "'x'"])
def test_a_text_that_is_no_json_is_refused_by_sinks(text: str) -> None:
    for write in writers_of(record_type(Letter)).values():
        with pytest.raises(InvalidArgumentError, match="is not JSON"):
            write({"body": text})


def test_any_means_any_json_where_it_is_said_and_not_where_nothing_is_said() -> None:
    assert str(record_type(Note).columns[1].type) == "JsonValue"
    assert str(record_type(dict[str, Any]).root) == "dict[str, JsonValue]"
    for annotation in (Any, Box[Any], Box[list[Any]], object, list[object]):
        with pytest.raises(InvalidArgumentError, match=r"\.returns\(Type\)"):
            record_type(annotation)
    with pytest.raises(InvalidArgumentError, match="hash"):
        record_type(set[JsonValue])


def test_what_a_sink_writes_is_read_back_at_the_greatest_depth() -> None:
    assert decoded(Row, JsonEncoder(record_type(Row)).encode(Row("a", nested(200)))) == Row("a", nested(200))


class Optional(TypedDict):
    body: RawJson
    note: NotRequired[JsonValue]


def test_a_key_of_any_json_may_be_missing() -> None:
    kind = record_type(Optional)
    for element in ({"body": "1"}, {"body": "1", "note": None}, {"body": "1", "note": [1]}):
        line = JsonEncoder(kind).encode(element)
        assert JsonDecoder(kind).decode(line.encode()) == element
        (row,) = csv_rows(iter([CsvEncoder(kind, ",").encode(element)]), ",")
        assert CsvDecoder(kind, ["body", "note"]).decode(row) == element
    elements = [{"body": "1", "note": [1]}, {"body": "1"}]
    assert decode_batch(encode_batch(elements, kind), kind) == elements
    with pytest.raises(InvalidArgumentError, match="a column has one null for both"):
        encode_batch([*elements, {"body": "1", "note": None}], kind)
