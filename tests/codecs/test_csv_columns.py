"""Blocks of CSV rows as columns hold what the plain reader reads, or are declined."""

from __future__ import annotations

import io
import typing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from tests.codecs.samples import Reading
from windrow_runtime.codecs.arrow.csv_blocks import CsvColumns, end_of_regular_rows
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.text_files import CsvRecords


@dataclass
class Row:
    name: str
    note: str | None
    flag: bool
    maybe_flag: bool | None
    number: int
    maybe_number: int | None
    ratio: float
    maybe_ratio: float | None
    at: datetime
    maybe_at: datetime | None
    day: date
    maybe_day: date | None


class Texts(typing.NamedTuple):
    a: str
    b: str | None
    c: str = "?"
    d: str | None = None


class Pair(TypedDict):
    n: int
    x: float | None


def columns_of(kind: RecordType, header: list[str], delimiter: str = ",") -> CsvColumns:
    return CsvColumns(CsvRecords(kind, "utf-8", delimiter, header=True), header)


def read_plainly(annotation: object, block: bytes, delimiter: str, zone: typing.Any = None) -> list[object]:
    kind = record_type(annotation).in_timezone(zone)
    return [value for _, value in CsvRecords(kind, "utf-8", delimiter, header=False).read("x", io.BytesIO(block))]


def read_by_columns(
    annotation: object, block: bytes, delimiter: str = ",", zone: typing.Any = None
) -> list[object] | None:
    kind = record_type(annotation).in_timezone(zone)
    columns = columns_of(kind, [column.column for column in kind.columns], delimiter)
    assert columns.is_able
    is_regular = end_of_regular_rows(block, delimiter, whole=True) == len(block)
    read = columns.read(block) if is_regular else None
    return decode_batch(read.columns, kind) if read is not None and not read.plain else None


def agree(annotation: object, block: bytes, delimiter: str = ",", zone: typing.Any = None) -> bool:
    """Returns whether a block was read as columns; if so, it holds the plain elements, to the last bit."""
    found = read_by_columns(annotation, block, delimiter, zone)
    if found is None:
        return False
    # The texts tell negative zeros and types from each other.
    assert repr(found) == repr(read_plainly(annotation, block, delimiter, zone))
    return True


WORDS = [
    "", '""', "a", '"a"', '"a,b"', '"a;b"', '"a""b"', '""""', '"a\nb"', '"\r\n"', '"\r"', "ä", '"ä"', " ", " a ",
    "\ufeff", 'a"', '"a', '"a"b', ' "a"', '"a" ', 'a""', '"""', '"a"""', '"\n', "'a'", "a\0", "\\", "NULL", "null",
    "#a", "\t", "\x1c", "\u2028",
]  # fmt: skip
NUMBERS = [
    "0", "-0", "+7", "7", "-7", "007", "0" * 19 + "7", "0" * 20 + "7", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "0x1f", " 7", "7 ", "1_0", "\u0661", "--1", "-", "", '"7"', '""',
    "1e3", "1.0",
]  # fmt: skip
RATIOS = [
    "0.1", "-0.0", "+1.5", ".5", "5.", "-.5", "1e3", "1E-3", "1.e+3", "1e999", "-1e999", "1e-999", "5e-324", "2.5e-324",
    "0.1000000000000000055511151231257827", "9007199254740993", "123456789012345678901234567890",
    "1.7976931348623157e308", "NaN", "nan", "inf", "-inf", "Infinity", "-Infinity", "0x1p3", "1_0.5", " 1.5", "1.5 ",
    ".", "1e", "e1", "1d", "", '""', '"1.5"',
]  # fmt: skip
FLAGS = ["true", "false", "TRUE", "False", "tRuE", "1", "0", "t", "yes", " true", "", '""', '"true"', "\uff54rue"]
TIMES = [
    "2026-01-31T12:00:00Z", "2026-01-31 12:00:00Z", "2026-01-31t12:00:00z", "2026-01-31T12:00:00.5Z",
    "2026-01-31T12:00:00.123456Z", "2026-01-31T12:00:00.1234567Z", "2026-01-31T12:00:00", "2026-01-31T12:00:00.25",
    "2026-01-31T12:00:00+01:30", "2026-01-31T12:00:00-0130", "2026-01-31T12:00:00+01", "2026-01-31T12:00:00+24:00",
    "2026-01-31T12:00:00+01:60", "2026-01-31", "2026-01-31T12", "2026-01-31T12:00Z", "2026-01-31T24:00:00Z",
    "2026-01-31T12:00:60Z", "2026-02-29T12:00:00Z", "", '""', "0000-12-31T23:00:00-02:00", "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-01:00", " 2026-01-31T12:00:00Z",
    "2026-01-31T12:00:00 Z", '"2026-01-31T12:00:00Z"', "20260131T120000Z",
]  # fmt: skip
DAYS = [
    "2026-01-31", "2024-02-29", "2026-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "20260131", "2026-1-31",
    " 2026-01-31", "2026-01-31 ", "2026-01-31T00:00:00", "", '""', '"2026-01-31"', "-2026-01-31", "12026-01-31",
]  # fmt: skip
BY_FIELD = [WORDS, WORDS, FLAGS, FLAGS, NUMBERS, NUMBERS, RATIOS, RATIOS, TIMES, TIMES, DAYS, DAYS]
WHOLE = ["a", "", "true", "FALSE", "7", "-8", "2.5", "1e-7", "2026-01-31T12:00:00Z", "", "2026-01-31", "2024-02-29"]
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\n \n"])
ZONES = st.sampled_from([None, UTC])
DELIMITERS = st.sampled_from([",", ",", ";", "\t", " ", "|", "1", "."])


@st.composite
def rows_with_one_odd_cell(draw: st.DrawFn) -> str:
    cells = list(WHOLE)
    place = draw(st.integers(0, len(cells) - 1))
    cells[place] = draw(st.sampled_from(BY_FIELD[place]))
    return ",".join(cells)


@given(st.lists(st.tuples(rows_with_one_odd_cell(), ENDS), max_size=4), ZONES)
def test_cells_of_all_kinds_are_read_as_by_the_plain_reader(rows: list[tuple[str, str]], zone: typing.Any) -> None:
    agree(Row, "".join(row + end for row, end in rows).encode(), zone=zone)


@pytest.mark.parametrize(
    ("place", "cell"), [(place, cell) for place, cells in enumerate(BY_FIELD) for cell in cells], ids=count()
)
def test_each_odd_cell_is_read_alone(place: int, cell: str) -> None:
    cells = list(WHOLE)
    cells[place] = cell
    block = f"{','.join(WHOLE)}\n{','.join(cells)}\n".encode()
    was_read = agree(Row, block)
    plain = read_plainly(Row, block, ",")
    assert was_read or cell not in (
        "a", '"a"', "7", '"7"', "0.1", "+1.5", "tRuE", "2026-01-31T12:00:00+01:30", "2024-02-29",
    )  # fmt: skip
    assert not was_read or not any(isinstance(value, MalformedRecord) for value in plain)


@given(st.text(st.sampled_from('"",;a1\n\r \0\ufeffä'), max_size=40), DELIMITERS)
@example('"a""b","a\r\nb",,""\n', ",")
@example("\n", ",")
def test_texts_of_any_shape_are_read_as_by_the_plain_reader(text: str, delimiter: str) -> None:
    agree(Texts, text.encode(), delimiter)
    agree(tuple[str | None, str], text.encode(), delimiter)
    agree(str, text.encode(), delimiter)
    agree(int | None, text.encode(), delimiter)


@given(
    st.lists(
        st.sampled_from([b"a,", b"b\n", b'"', b"\xff", b"\xc3\xa4", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\0"]),
        max_size=9,
    )
)
def test_bytes_that_are_no_characters_are_read_as_by_the_plain_reader(pieces: list[bytes]) -> None:
    agree(tuple[str, str], b"".join(pieces))


@pytest.mark.parametrize(
    ("annotation", "block"),
    [
        (Reading, b"a,1,2.5\nb,2,-3\n"),
        (Reading, b'"a","1","2.5"\r\n\r\n"b ""c"", d",2,-3\r\n'),
        (Reading, b'"a\nb",1,2.5\n,2,3'),
        (Texts, 'ä,"",c,\n,,"",""\n'.encode()),
        (tuple[str, int | None], b'a,\nb,""\n'),
        (Pair, b"1,\n2,3.5\n"),
        (str, b'a\n\n""\n b\n'),
        (int | None, b"1\n\n2\n"),
    ],
    ids=count(),
)
def test_a_block_is_read_as_columns(annotation: object, block: bytes) -> None:
    assert agree(annotation, block)


@pytest.mark.parametrize(
    ("annotation", "block"),
    [
        (Reading, b"a,1\n"),
        (Reading, b"a,1,2.5,\n"),
        (Reading, b'a,1,"2.5\n'),
        (Reading, b"a,,2.5\n"),
        (Texts, b"a,b,,d\n"),
        (Reading, b"\xef\xbb\xbfa,1,2.5\n"),
        (tuple[str, str], b'a,x"y"\n'),
    ],
    ids=count(),
)
def test_a_block_is_declined(annotation: object, block: bytes) -> None:
    assert read_by_columns(annotation, block) is None


def test_columns_that_no_field_takes_are_checked_and_not_read() -> None:
    columns = columns_of(record_type(Reading), ["?", "celsius", "at", "?", "sensor"])
    read = columns.read(b'"x"" ",2.5,1,\xc3\xa4,a\n,3,2,"\n",b\n')
    assert read is not None
    assert decode_batch(read.columns, record_type(Reading)) == [Reading("a", 1, 2.5), Reading("b", 2, 3.0)]
    assert columns.read(b"x,2.5,1,\xff,a\n") is None


@dataclass
class Defaults:
    name: str
    note: str | None = None
    size: int | None = None
    tag: str = "?"


def test_fields_without_a_column_are_none_or_the_file_is_not_read_as_columns() -> None:
    columns = columns_of(record_type(Defaults), ["tag", "name"])
    read = columns.read(b"t,a\n")
    assert read is not None
    assert decode_batch(read.columns, record_type(Defaults)) == [Defaults("a", tag="t")]
    assert not columns_of(record_type(Defaults), ["name"]).is_able
    assert not columns_of(record_type(int | None), ["other"]).is_able
