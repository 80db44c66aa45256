"""JSON lines as columns are what reading them line by line gives: elements, and malformed records with their places."""

from __future__ import annotations

import gzip
import json
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict
from unittest.mock import Mock
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.budget import examples
from windrow.sources import JsonFileSource
from windrow_runtime.codecs.arrow import json_columns
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.arrow.json_columns import JsonBlocks
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.text_files import LineRecords
from windrow_runtime.codecs.text_sizes import TextSizes
from windrow_runtime.connectors.files.formats import file_reader
from windrow_runtime.connectors.files.text_blocks import TextBlockReader, text_block_reader
from windrow_runtime.inputs.batches import SourceBatch, elements_of
from windrow_runtime.inputs.text_rows import TextRows, without_elements
from windrow_spark.connectors.files.scanner import SparkLines, _decode_lines

# Any in this module: elements of every type.


class Reading(NamedTuple):
    sensor: str
    at: int
    celsius: float


@dataclass
class Everything:
    flag: bool
    number: int
    ratio: float
    text: str
    moment: datetime
    day: date


@dataclass
class Maybe:
    flag: bool | None
    number: int | None
    ratio: float | None
    text: str | None
    moment: datetime | None
    day: date | None


@dataclass(kw_only=True, frozen=True)
class Defaults:
    number: int = 7
    text: str | None = "none"
    ratio: float | None


class Named(msgspec.Struct, rename="camel"):
    first_name: str
    last_at: datetime | None = None


TYPES = [Reading, Everything, Maybe, Defaults, Named]


SMALL = TextSizes(block=2_000, together=300, alone=0)
"""Files have several blocks, of several pieces, and blocks are read as columns however few lines are good."""


def reader_of(kind: type, zone: ZoneInfo | None = None, sizes: TextSizes = SMALL) -> TextBlockReader:
    found = text_block_reader(JsonFileSource("never read", kind, timezone=zone))
    assert isinstance(found, TextBlockReader), found
    assert isinstance(found.records, LineRecords)
    records = replace(found.records, sizes=sizes)
    return TextBlockReader(records, partial(JsonBlocks, records))


def assert_read_alike(
    data: bytes, kind: type, zone: ZoneInfo | None = None, parts: int = 1, name: str = "x", sizes: TextSizes = SMALL
) -> int:
    """Columns and elements are those of the other reader; returns how many elements came as columns."""
    reader, plain = reader_of(kind, zone, sizes), file_reader(JsonFileSource("never read", kind, timezone=zone))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_bytes(data)

        def read(one: Any) -> Iterator[Any]:
            return chain.from_iterable(one.read(str(file), part, parts) for part in range(parts))

        wanted = SourceBatch()
        for batch in map(elements_of, read(plain)):
            wanted.add(batch)
        found: list[TextRows] = list(read(reader))
        decoded = SourceBatch()
        aside = SourceBatch()
        for rows in found:
            decoded.add(elements_of(rows))
            aside.add(without_elements(rows))
        indices = range(len(wanted.values))
        assert [*map(decoded.origin, indices)] == [*map(wanted.origin, indices)]
    # repr tells 0.0 from -0.0 and 1 from 1.0.
    assert list(map(repr, decoded.values)) == list(map(repr, wanted.values))
    assert list(map(type, decoded.values)) == list(map(type, wanted.values))
    assert decoded.malformed == aside.malformed == wanted.malformed
    assert aside.values == []
    columns = pa.Table.from_batches([batch.columns() for batch in found], encode_batch([], reader.record_type).schema)
    columns.validate(full=True)
    assert list(map(repr, columns.to_pylist())) == list(
        map(repr, pa.Table.from_batches([encode_batch(wanted.values, reader.record_type)]).to_pylist())
    )
    return sum(batch.rows.num_rows for batch in found)


NUMBERS = st.sampled_from(
    [
        *("0", "-0", "-0.0", "0.0", "-0e1", "1", "-1", "1.0", "1e3", "1E5", "1e-400", "-1e-400", "1e308", "1e309"),
        *("-1e400", "5e-324", "2.5e-324", "0.1", "123456789.123456789", "9007199254740993", "9007199254740992.5"),
        *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
        *("18446744073709551616", "12345678901234567890123", "01", "+1", ".5", "1.", "1.e3", "0x10", "1_0", "NaN"),
        *("Infinity", "-Infinity", "Inf", "-Inf", "nan", "inf", "null", "true", "false", "True", "1e", "1e+", "-"),
        *("--1", "1.7976931348623157e308", "1.7976931348623159e308", "4.35"),
    ]
) | st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
MOMENTS = st.sampled_from(
    [
        *("2024-01-01 12:30:00+00", "2024-01-01T12:30Z", "2024-01-01T12:30:00.0000000Z", "20240101T123000Z"),
        *("2024-01-01T12:30:00.000000000-05", "2024-01-01T12Z", "2024-W01-1T12:00Z", "2024-01-01 12:30:00 +0000"),
        *("2024-02-29T12:00:00Z", "2023-02-29T12:00:00Z", "2024-01-01 00:00:00+02:00", "2024-01-01t00:00:00z"),
        *("2024-01-01T00:00:00", "2024-01-01T00:00:00.1Z", "2024-01-01T00:00:00.123456-11:30", "2024-01-01"),
        *("2024-01-01T00:00:00.1234567Z", "2024-01-01T24:00:00Z", "2024-01-01T23:59:60Z", "2024-01-01T00:00:00+24:00"),
        *("2024-01-01T00:00:00+0200", "2024-01-01T00:00:00+02", "2024-01-01T00:00:00-00:00", "2024-01-01T00:00Z"),
        *("0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "0000-01-01T00:00:00Z"),
        *("9999-12-31T23:59:59-01:00", "1900-02-29T00:00:00Z", "2000-02-29T00:00:00Z", "2024-01-01T00:00:00.Z"),
        *(" 2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z\\n", "2024-13-01T00:00:00Z", "2024-04-31T00:00:00Z"),
        *("1969-12-31T23:59:59.999999Z", "2024-01-01T00:00:00,5Z", "20240101T000000Z", "2024-W01-1T00:00:00Z"),
    ]
) | st.from_regex(
    r"[0-9]{4}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-5][0-9]:[0-6][0-9]"
    r"(\.[0-9]{0,9})?([Zz]|[+-][0-2][0-9]:?[0-6][0-9])?",
    fullmatch=True,
)
DAYS = st.sampled_from(
    ["2024-02-29", "2023-02-29", "0001-01-01", "0000-01-01", "9999-12-31", "2024-1-1", "20240101", "2024-04-31", ""]
)
TEXTS = st.sampled_from(
    [
        *("a", "", "é", "\u2028", "\x7f", "\x85", "😀", "\\ud83d\\ude00", "\\ud83d", "\\ude00", "\\ud83d\\u0041"),
        *("\\ude00\\ud83d", "\\u0000", "\\u00e9", "\\n", "\\/", "\\x", "\\", "\x01", "\t", "\x00", "{", "}", "NaN"),
        *(": NaN", ",Infinity", '\\"', "\\u00", "\\U0041", "\ufeff", "\ufffe", "\\ufffe", "}\\n{"),
    ]
) | st.text(st.characters(exclude_characters='"\\\n\r', exclude_categories=["Cs"]), max_size=5)
VALUES = st.one_of(
    NUMBERS,
    MOMENTS.map('"{}"'.format),
    DAYS.map('"{}"'.format),
    TEXTS.map('"{}"'.format),
    st.sampled_from(
        ["[]", "{}", "[1, {}]", '{"a": [NaN]}', '{"a": "\\ud800"}', "[1,]", "[[", '"NaN"', '"Infinity"', '"-Infinity"']
    ),
    st.sampled_from(['"inf"', "/*c*/1", "1//c", "", '"a" "b"', '"a', "'a'", "[1 2]", "{'a': 1}", '{"a" 1}', "}", "]"]),
)
SPACES = st.sampled_from(["", "", "", " ", "\t", "\x0b", "\xa0", "\x0c", "\x1c"])
GAPS = st.sampled_from([*["\n"] * 12, "\r\n", "\r", "\n\n", " \n", "\n \t\n", "\n\x0b\n", "", " ", ","])


FITTING = {
    "bool": st.sampled_from(["true", "false"]),
    "int": st.integers(-(2**63), 2**63 - 1).map(str),
    "float": st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers(-(2**70), 2**70).map(str),
    "str": st.text(max_size=5).map(json.dumps) | st.sampled_from(['"a"', '"sensor-1"', '"é"']),
    "datetime": st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))])).map(
        lambda at: json.dumps(at.isoformat())
    ),
    "date": st.dates().map(lambda day: json.dumps(day.isoformat())),
}


@st.composite
def lines_of(draw: st.DrawFn, kind: type) -> str:
    """An object, which mostly fits the type."""
    record = reader_of(kind).record_type
    cells: list[tuple[str, str]] = []
    for column in record.columns:
        odd = draw(st.integers(0, 30))
        if odd == 0:
            cells.append((column.column, draw(VALUES)))
        elif odd == 1:
            cells += [(column.column, draw(VALUES)), (column.column, draw(FITTING[column.type.kind.value]))]
        elif odd == 2:
            cells.append((column.column, "null"))
        elif odd > 3:
            cells.append((column.column, draw(FITTING[column.type.kind.value])))
    if not draw(st.integers(0, 9)):
        cells.append((draw(st.sampled_from(["other", "Text", "", "a\\u0062", "\\ud800"]) | TEXTS), draw(VALUES)))
    if not draw(st.integers(0, 9)):
        cells = draw(st.permutations(cells))
    space = draw(SPACES) if not draw(st.integers(0, 9)) else draw(st.sampled_from(["", " "]))
    body = f",{space}".join(f'"{name}":{space}{value}' for name, value in cells)
    text = f"{{{body}}}"
    if not draw(st.integers(0, 15)):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(["", "\x00", "{", "}", '"', ",", "\n", "\r"])) + text[at + 1 :]
    return f"{space}{text}{space}" if not draw(st.integers(0, 9)) else text


@pytest.mark.parametrize("kind", TYPES)
@examples(60)
@given(data=st.data())
def test_columns_are_what_lines_give(kind: type, data: st.DataObject) -> None:
    lines = data.draw(st.lists(lines_of(kind), max_size=12))
    text = "".join(line + data.draw(GAPS) for line in lines)
    given_bytes = text.encode("utf-8", "surrogatepass")
    if not data.draw(st.integers(0, 9)):
        at, odd = data.draw(st.integers(0, len(given_bytes))), st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80"])
        given_bytes = given_bytes[:at] + data.draw(odd) + given_bytes[at:]
    if not data.draw(st.integers(0, 9)):
        given_bytes = b"\xef\xbb\xbf" + given_bytes
    assert_read_alike(given_bytes, kind, parts=data.draw(st.sampled_from([1, 1, 3])))


@st.composite
def alike_lines(draw: st.DrawFn, kind: type) -> list[str]:
    """Lines with the same keys and spaces, whose values mostly fit the type."""
    columns = draw(st.permutations(reader_of(kind).record_type.columns))
    kinds = [(column.column, column.type.kind.value) for column in columns]
    if not draw(st.integers(0, 3)):
        kinds.append((draw(st.sampled_from(["other", "é", "Text"])), draw(st.sampled_from(["str", "str", "int"]))))
    spaces = [draw(st.sampled_from(["", " "])) for _ in range(4)]
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 8))):
        values = [draw(VALUES if not draw(st.integers(0, 60)) else FITTING[kind]) for _, kind in kinds]
        members = [f'"{name}"{spaces[0]}:{spaces[1]}{value}' for (name, _), value in zip(kinds, values, strict=True)]
        lines.append("{" + f"{spaces[2]},{spaces[3]}".join(members) + "}")
    return lines


@pytest.mark.parametrize("kind", [Reading, Everything, Named])
@examples(60)
@given(data=st.data())
def test_lines_written_alike(kind: type, data: st.DataObject) -> None:
    assert_read_alike("\n".join(data.draw(alike_lines(kind))).encode("utf-8", "surrogatepass"), kind)


@examples(100)
@given(st.lists(st.one_of(NUMBERS, TEXTS, st.text("0123456789+-.eEx _,", max_size=6)), min_size=1, max_size=4))
def test_numbers_of_lines_written_alike(values: list[str]) -> None:
    lines = [f'{{"sensor":"a","at":{value},"celsius":2.5}}' for value in values]
    lines += [f'{{"sensor":"a","at":1,"celsius":{value}}}' for value in values]
    for line in lines:
        assert_read_alike(line.encode("utf-8", "surrogatepass"), Reading)
    assert_read_alike("\n".join(lines).encode("utf-8", "surrogatepass"), Reading)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["dense", "spaced"])
def test_lines_that_programs_write_are_all_read_as_columns(separators: tuple[str, str]) -> None:
    first = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [
        Everything(
            n % 3 == 0, n - 50, (n - 50) / 7 * 10.0 ** (n % 5), f"{n * 37} é,:{{}}", first + timedelta(seconds=n / 8),
            first.date() + timedelta(days=n),
        )
        for n in range(100)
    ]  # fmt: skip
    lines = [json.dumps(vars(row), default=str, separators=separators, ensure_ascii=False) for row in rows]
    assert assert_read_alike("\n".join(lines).encode(), Everything) == 100


GOOD = '{"sensor":"a","at":1,"celsius":2.5}'
LINES = [
    "", "{", "[1]", "3", f"{GOOD} {GOOD}", f"{GOOD}{GOOD}", f"{GOOD}\x00}}", f"{GOOD},", f"[{GOOD}]", "}{", "{}",
    "[" * 1_000_000, '{"x":' * 1_000_000,
    '{"sensor":"a","at":1,"celsius":1,"x":' + "[" * 1_000_000 + "]" * 1_000_000 + "}",
    '{"sensor":"a","at":1,"celsius":1,"x":' + "[" * 2_000 + "]" * 2_000 + "}",
    '{"sensor":"a","at":1,"celsius":1,"x":' + "[" * 150 + "]" * 150 + "}",
    '{"sensor":"a","at":1,"celsius":1,"x":' + '{"a":' * 2_000 + "1" + "}" * 2_000 + "}",
    '{"sensor":"a","at":' + "1" * 5_000 + ',"celsius":1}', '{"sensor":"a","at":1,"celsius":' + "1" * 5_000 + "}",
    '{"sensor":"a","at":1,"celsius":1,"x":' + "1" * 5_000 + "}",
    '{"sensor":"a","at":1,"celsius":1,"x":' + "1" * 400 + "}",
    '{"sensor":"a","at":1,"celsius":0.' + "0" * 400 + "1e400}", '{"sensor":"a","at":1,"celsius":1e-' + "9" * 30 + "}",
    '{"sensor":"' + "b" * 100_000 + '","at":1,"celsius":1}', '{"sensor":"a","at":1,"celsius":2,"celsius":1}',
    '{"sensor":"a","at":null,"at":1,"celsius":2}', '{"sensor":"a","at":1,"at":null,"celsius":2}',
    '{"sensor":"a","at":1,"\\u0061t":2,"celsius":2}', '{"sensor":"a","\\u0061t":2,"celsius":2}',
    '{"sensor":"a","at":1,"celsius":2,"x":NaN}', '{"sensor":"a","at":1,"celsius":2,"x":[1,\t-Infinity]}',
    '{"sensor":": NaN","at":1,"celsius":-0}', '{"sensor":"a","at":1,"celsius":-0.0}',
    '{"sensor":"a","at":-0,"celsius":"NaN"}', '{"sensor":"\\ude00","at":1,"celsius":1}',
    '{"sensor":"a","at":1,"celsius":1,"x":"\\ude00"}', '{"sensor":"a","at":1,"celsius":1,"\\ud800":1}',
]  # fmt: skip


@pytest.mark.parametrize("line", LINES, ids=count())
def test_odd_lines_among_good_ones(line: str) -> None:
    text = "\n".join([GOOD, GOOD, line, GOOD]) + "\n"
    assert assert_read_alike(text.encode(), Reading) >= 2
    assert_read_alike(line.encode(), Reading)


def test_lines_that_make_up_for_each_other() -> None:
    """As many objects as lines, but not one in each line."""
    for lines in (
        [f"{GOOD}{GOOD}", "", GOOD],
        [f"{GOOD}{GOOD}", f"{GOOD}\x00}}", GOOD],
        [GOOD[:-1], ',"x":1}', f"{GOOD}{GOOD}"],
        ['{"sensor":"a","at":1,"celsius":1,"x":{}', f'{{"y":1}}}}{GOOD}', f"{GOOD}{GOOD}"],
        ['{"sensor":"}', '{","at":1,"celsius":1}', f"{GOOD}{GOOD}"],
        ['{"sensor":"a","at":1,"celsius":1,"x":[', "{}]}", f"{GOOD}{GOOD}"],
        ['{"sensor":"a","at":1,"celsius":1,"x":{}', ',"y":{}}', f"{GOOD} {GOOD}"],
        [GOOD[:-1], "}", f"{GOOD}\t{GOOD}"],
    ):
        for order in (lines, lines[::-1]):
            assert_read_alike("\n".join([*order, GOOD]).encode(), Reading)


TOKENS = st.sampled_from(
    [
        '{ "sensor" : "a" , "at" : 1 , "celsius" : 2.5 }',
        '{ "x" : [ { } , { } ] , "sensor" : "}" , "at" : 1 }',
        '{ "sensor" : "{" , "at" : 7 , "x" : { } , "celsius" : 1 }',
    ]
).map(str.split)


@examples(300)
@given(data=st.data())
def test_objects_that_lines_cut_elsewhere(data: st.DataObject) -> None:
    """Line ends anywhere in a stream of objects: all of them together would be read as objects, as many as lines."""
    objects = data.draw(st.lists(TOKENS, min_size=1, max_size=4))
    tokens = list(chain.from_iterable(objects))
    ends = data.draw(st.lists(st.integers(0, len(tokens)), min_size=len(objects) - 1, max_size=len(objects) + 1))
    after_objects = data.draw(st.booleans())
    text = "".join(("\n" * ends.count(n) + token) for n, token in enumerate(tokens))
    if after_objects:
        text = text.replace("}{", data.draw(st.sampled_from(["}\n{", "} {", "}\r\n{", "}{"])))
    assert_read_alike(text.encode(), Reading)
    assert_read_alike("\n".join([GOOD, GOOD, text, GOOD]).encode(), Reading)


PARTS_TEXTS = st.lists(
    st.sampled_from([GOOD, "\n", "\r", " ", "{", "}", ",", "", '{"sensor":"é","at":2,"celsius":-0.0}']), max_size=4
)


@examples(200)
@given(texts=st.lists(PARTS_TEXTS.map("".join).map(str.encode) | st.just(b"\xff"), max_size=6))
def test_texts_of_a_topic_are_decoded_each_alone(texts: list[bytes]) -> None:
    """Where one has line ends, the others are none the less what each of them is by itself."""
    records = reader_of(Reading).records
    assert isinstance(records, LineRecords)
    columns, others = JsonBlocks(records).read_texts(texts)
    decode = JsonDecoder(records.record_type).decode
    wanted = [decode(text) for number, text in enumerate(texts) if number not in others]
    assert list(map(repr, decode_batch(columns, records.record_type))) == list(map(repr, wanted))
    assert all(isinstance(decode(texts[number]), MalformedValue) for number in others)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", " \n", "\n\n"])
def test_good_lines_are_read_as_columns(end: str, parts: int) -> None:
    text = "".join(f'{{"sensor": "é{n % 7}", "at": {n}, "celsius": {n / 7}}}{end}' for n in range(500))
    columns = assert_read_alike(text.encode(), Reading, parts=parts)
    assert columns > 490 or end == "\r"


def test_good_lines_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one takes longer, and gives the same."""
    text = "".join(
        f'{{"sensor": "a{{}}", "at": {n}, "celsius": {n / 7}, "x": [{{}}, {{"y": 1}}]}}\n' for n in range(500)
    )
    alone = Mock(side_effect=AssertionError("decoded alone"))
    monkeypatch.setattr(json_columns, "_decoded", alone)
    assert assert_read_alike(text.encode(), Reading) == 500
    with pytest.raises(AssertionError, match="decoded alone"):
        assert_read_alike(f"{text}\n{text}".encode(), Reading)


DIFFERENT = [
    "{oops}", "", "xx", '{"at":1}', GOOD.replace("1", "1.5"), GOOD.replace("1", '"1"'), GOOD.replace("1", "null"),
    GOOD.replace(":", ": "), GOOD.replace("2.5", "2.5.5"), GOOD.replace("2.5", "2.5e1"), GOOD.replace("2.5", "-0"),
    GOOD.replace('"a"', '"\\u0041"'), GOOD.replace('"a"', '"\t"'), GOOD.replace('"a"', '"\xe9"'), GOOD[:-1],
    GOOD.replace("1", "99999999999999999999"), GOOD.replace("2.5", "NaN"), GOOD.replace("2.5", "1e999"),
]  # fmt: skip
TEXT, NULL = GOOD.replace("1", '"1"'), GOOD.replace('"a"', "null")
MALFORMED = {0: TEXT, 17: TEXT, 40: "{oops}", 41: "{oops}", 100: NULL, 150: TEXT, 170: "{oops}", 299: TEXT}
SHORT = replace(SMALL, longest_row=10_000)
COUNTED: dict[str, tuple[list[str], TextSizes, int]] = {
    # The lines, the sizes, and how many elements come as columns.
    "malformed lines cost only themselves": ([MALFORMED.get(n, GOOD) for n in range(300)], SMALL, 300 - 8),
    # Five are written otherwise, and hold the same.
    "lines that differ cost only themselves": (
        [*chain.from_iterable([*[GOOD] * 40, other] for other in DIFFERENT), *[GOOD] * 40],
        TextSizes(), 40 * (len(DIFFERENT) + 1) + 5,
    ),
    "every second line malformed": ([GOOD, "{oops}"] * 100, SMALL, 100),
    "one by one where most are malformed": ([GOOD, "{oops}"] * 100, TextSizes(), 0),
    "no JSON at all": (["{oops}"] * 300, SMALL, 0),
    "no field at all": (["{}"] * 300, SMALL, 0),
    "no line ends": (["\r".join([GOOD] * 1_000)], SHORT, 0),
    "a line without an end": ([*[GOOD] * 99, '{"' + "a" * 20_000 + '"', f'{GOOD}"', f'{GOOD}"', GOOD], SHORT, 99),
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTED)
def test_how_many_lines_are_read_as_columns(case: str) -> None:
    lines, sizes, columns = COUNTED[case]
    assert assert_read_alike("\n".join(lines).encode(), Reading, sizes=sizes) == columns


@pytest.mark.parametrize("ends", [True, False])
def test_lines_that_spark_splits(ends: bool) -> None:
    other = [b"", b" ", b"{oops}", b"\xff", b'{"sensor":null,"at":1,"celsius":1}']
    lines = [line for odd in other for line in (GOOD.encode(), odd)] * 20 + [GOOD.encode()] * ends
    names = [f"file:/in/{number}.json" for number in range(len(lines))]
    batch = pa.RecordBatch.from_arrays([pa.array(lines, pa.binary()), pa.array(names)], ["__text", "__file"])
    reader = reader_of(Reading)
    assert isinstance(reader.records, LineRecords)
    (rows,) = SparkLines(reader, "hdfs://x/in")(iter([batch]))
    assert elements_of(rows) == _decode_lines(reader.records, "hdfs://x/in", batch)
    assert rows.columns().num_rows == 100 + ends


def test_compressed_files() -> None:
    data = gzip.compress(f"{GOOD}\n".encode() * 200 + b"{oops}\n" * 200)
    assert assert_read_alike(data, Reading, parts=3, name="x.json.gz") == 200
    assert assert_read_alike(b"", Reading, name="x.json.gz") == 0


@given(st.lists(MOMENTS, min_size=1, max_size=8), st.sampled_from([None, ZoneInfo("Europe/Berlin")]))
@examples(100)
@example(["2024-10-27T02:30:00", "2024-10-27T02:30:00Z"], ZoneInfo("Europe/Berlin"))
def test_moments(texts: list[str], zone: ZoneInfo | None) -> None:
    lines = [f'{{"firstName":"a","lastAt":"{text}"}}' for text in texts]
    assert_read_alike("\n".join(lines).encode(), Named, zone)


class Dated(NamedTuple):
    day: date
    n: int


class Keyed(TypedDict):
    name: str
    size: NotRequired[int]


@dataclass
class Checked:
    number: int

    def __post_init__(self) -> None:
        self.number = abs(self.number)


@dataclass
class Nested:
    values: list[int] = field(default_factory=list)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Keyed, "the keys of Keyed keep the order of the text"),
        (Checked, "Checked has a __post_init__"),
        (Nested, "Nested.values is a list[int]"),
        (int, "int is no record"),
        (tuple[int, str], "tuple[int, str] is no record"),
    ],
)
def test_types_that_are_read_line_by_line(kind: Any, reason: str) -> None:
    assert text_block_reader(JsonFileSource("never read", kind)) == reason


def test_other_encodings_are_read_line_by_line() -> None:
    assert isinstance(text_block_reader(JsonFileSource("never read", Reading, encoding="utf-16")), str)


def test_floats_are_the_nearest_ones() -> None:
    values = [math.nextafter(0.1, 1), 2**53 + 1.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 1e22, 1e23]
    text = "\n".join(f'{{"sensor":"a","at":1,"celsius":{value!r}}}' for value in values)
    # The plain reader tells whether the digits of a large one name it.
    assert assert_read_alike(text.encode(), Reading) == sum(abs(value) < 2**53 for value in values)


def test_an_int_that_python_does_not_make_is_malformed_where_no_field_has_it_too() -> None:
    ones = "1" * 4_301
    line = f'{{"sensor":"a","at":1,"celsius":2.5,"other":{ones}}}'
    dated = f'{{"day":"2024-01-01","n":1,"other":[{ones}]}}'
    assert_read_alike("\n".join([GOOD] * 40 + [line]).encode(), Reading)
    assert_read_alike("\n".join(['{"day":"2024-01-01","n":1}'] * 40 + [dated]).encode(), Dated)
