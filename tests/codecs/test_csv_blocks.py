"""CSV files read in blocks hold the elements, malformed records and warnings that the plain reader finds."""

from __future__ import annotations

import gzip
import typing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from tests.budget import examples
from tests.codecs.samples import Event, Options, Place, Positive, Reading
from windrow.errors import SourceError
from windrow.sources import CsvFileSource
from windrow_runtime.codecs.arrow import csv_blocks
from windrow_runtime.codecs.arrow.csv_blocks import CsvBlocks
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import CsvRecords
from windrow_runtime.codecs.text_sizes import TextSizes
from windrow_runtime.connectors.files.formats import TextReader
from windrow_runtime.connectors.files.lines import text_records
from windrow_runtime.connectors.files.text_blocks import TextBlockReader, text_block_reader
from windrow_runtime.inputs.batches import SourceBatch, elements_of


@dataclass(frozen=True)
class Defaults:
    name: str
    note: str | None = None
    tag: str = "?"


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("csv")


SMALL = TextSizes(block=96, longest_row=400, alone=0)
"""Texts of a few rows have several blocks, and these are read as columns however few rows are good."""


def found_by(reader: TextReader | TextBlockReader, file: Path) -> tuple[object, bool]:
    """Returns what a reader gives for a file, or its error, and whether all of it came as columns.

    The elements are texts, which tell negative zeros from zeros.
    """
    found = SourceBatch()
    one_by_one: list[SourceBatch] = []
    try:
        for batch in reader.read(str(file)):
            if isinstance(batch, SourceBatch):
                found.add(batch)
                one_by_one.append(batch)
                continue
            found.add(SourceBatch(*batch.decode()))
            one_by_one += [rows for _, rows in batch.plain]
            # The columns hold the same elements, in the order of the rows.
            assert repr(decode_batch(batch.columns(), batch.record_type)) == repr(batch.decode()[0])
    except SourceError as error:
        return str(error), False
    only_columns = not any(rows.values or rows.malformed for rows in one_by_one)
    return (repr(found.values), found.malformed, found.unmatched), only_columns


def origins_by(reader: TextReader | TextBlockReader, file: Path) -> list[str | None]:
    batch = SourceBatch()
    for portion in reader.read(str(file)):
        batch.add(elements_of(portion))
    return [batch.origin(index) for index in range(len(batch.values))]


def agree(
    folder: Path,
    data: bytes,
    annotation: object = Reading,
    delimiter: str = ",",
    *,
    header: bool = True,
    zone: typing.Any = None,
) -> bool:
    """Returns whether a file came as columns, read as one block, in which the number of rows does not matter."""
    file = folder / "x"
    file.write_bytes(data)
    records = CsvRecords(record_type(annotation).in_timezone(zone), "utf-8", delimiter, header)
    assert csv_blocks.row_by_row(records) is None
    plain, _ = found_by(TextReader(records), file)
    only_columns = False
    for sizes in (TextSizes(), SMALL, replace(SMALL, block=1 << 20, longest_row=1 << 20)):
        sized = replace(records, sizes=sizes)
        reader = TextBlockReader(sized, partial(CsvBlocks, sized))
        found, only_columns = found_by(reader, file)
        assert found == plain
        # Columns tell the line of a row, or the file alone where a row may have several lines.
        if isinstance(found, tuple):
            places = zip(origins_by(reader, file), origins_by(TextReader(records), file), strict=True)
            assert all(place in {by_row, str(file)} for place, by_row in places)
    return only_columns


GOOD = ["a,1,2.5", "b,-7,1e3", '"c",3,4', '"d,""e""",5,"6"', '"f\ng",7,8', "ä,9,0.1", "h,10,-0.0"]
ODD = [
    "", "a", "a,1", "a,1,2,3", "a,,2", ",1,2", "a,1.5,2", "a,1,inf", "a,1,NaN", "a,1,9007199254740993",
    "a,1,-9007199254740994", "a,1,590295810358705700000", "a,1,9007199254740993.0", f"a,1,1{'0' * 400}", "a,+1,2", " ",
    '""', '"",1,2', "\ufeffa,1,2", 'a,1,"2', '"a,1,2', 'a"b,1,2', 'a,1,5"', '"a"b,1,2', '"a\nb"c,1,2', '"', '"""',
    '"a""', "a\0,1,2", 'x,"\n\n\n",1', "\r",
]  # fmt: skip
LINES = st.sampled_from([*GOOD * 3, *ODD])
ENDS = st.sampled_from([*["\n"] * 6, "\r\n", "\r\n", "\r"])


@examples(90)
@given(
    header=st.sampled_from(
        [
            "sensor,at,celsius", "sensor,at,celsius", "celsius,x,at,sensor", "sensor,at", '"sensor",at,"celsius"',
            '"x\ny",at,sensor,celsius', 'x",at', "", '"', "\ufeffsensor,at,celsius", '\ufeff"sensor",at,celsius',
        ]
    ),
    lines=st.lists(st.tuples(LINES, ENDS), max_size=14),
    has_end=st.booleans(),
    raw=st.lists(
        st.tuples(
            st.integers(0, 200), st.sampled_from([b"\xff", b"\xc3", b'"', b"\n", b"\r", b",", b"\0", b"\xed\xa0\x80"])
        ),
        max_size=2,
    ),
)  # fmt: skip
def test_rows_of_all_kinds_are_read_as_by_the_plain_reader(
    folder: Path, header: str, lines: list[tuple[str, str]], has_end: bool, raw: list[tuple[int, bytes]]
) -> None:
    text = "".join(line + end for line, end in [(header, "\n"), *lines])
    data = (text if has_end else text[:-1]).encode()
    for place, put in raw:
        data = data[:place] + put + data[place:]
    agree(folder, data)
    agree(folder, data, header=False)


@examples(70)
@given(st.text(st.sampled_from('"",;a1\n\n\r '), max_size=150), st.sampled_from(",; 1"))
@example('a,"b\n', ",")
def test_texts_of_any_shape_are_read_as_by_the_plain_reader(folder: Path, text: str, delimiter: str) -> None:
    for annotation in (tuple[str, int | None], str):
        agree(folder, text.encode(), annotation, delimiter, header=False)
    header = "_2;_1;x\n".replace(";", delimiter)
    agree(folder, (header + text).encode(), tuple[str | None, int | None], delimiter)


@pytest.mark.parametrize("sign", ["", "-", "+"])
def test_large_floats_are_read_as_by_the_plain_reader(folder: Path, sign: str) -> None:
    texts = [
        "9007199254740993.0", "9007199254740992.0", "9007199254740991.5", "1e17", "9" * 40, "12345e9", "1e400", "1.e5",
    ]  # fmt: skip
    for text in texts:
        agree(folder, f"sensor,at,celsius\na,1,{sign}{text}\nb,2,1.5\n".encode())


@pytest.mark.parametrize(
    "text",
    [
        "", "\ufeff", "sensor,at,celsius", "sensor,at,celsius\n", "sensor,at,celsius\n" + "a,1,2\n" * 60,
        "sensor,at,celsius\n" + "a,1,2\n" * 30 + "a,x,2\n" + "b,1,2\n" * 30,
        "sensor,at,celsius\n" + '"a\n",1,2\n' * 30 + 'a",1,2\n' + '"b\n",1,2\r\n' * 30 + '"',
        "sensor,at,celsius\n" + "a,1,2\n" * 30 + '"a,1,2\n' + "b,1,2\n" * 300,
        "sensor,at,celsius\n" + "a,1,2\n" * 3 + '"' + "a\n" * 300 + '",1,2\n' + "b,1,2\n" * 300,
        "sensor,at,celsius\r" + "a,1,2\r" * 300, '"' + "a\n" * 300 + '",at,sensor,celsius\n' + "x,1,a,2\n" * 30,
        '"' + "a\n" * 300,
    ],
    ids=count(),
)  # fmt: skip
def test_files_of_many_blocks(folder: Path, text: str) -> None:
    agree(folder, text.encode())


def test_a_large_file(folder: Path) -> None:
    rows = [f"{'ä' if i % 1000 == 7 else 'a'}{i},{i},{i / 8}\n" for i in range(40_000)]
    rows[12_345] = "b,1,x\n"
    rows[23_456] = '"c\n,1",2,3\n'
    rows[34_567] = 'd",1,2\n'
    data = "".join(["sensor,at,celsius\n", *rows]).encode()
    records = CsvRecords(record_type(Reading), "utf-8", ",", header=True)
    reader = TextBlockReader(records, partial(CsvBlocks, records))
    for name, content in (("x", data), ("x.gz", gzip.compress(data))):
        (folder / name).write_bytes(content)
        assert found_by(reader, folder / name)[0] == found_by(TextReader(records), folder / name)[0]
    by_row = [batch for rows in reader.read(str(folder / "x")) for _, batch in rows.plain]
    # The rows from the broken quote on, and the one that does not fit.
    assert sum(len(batch.values) + len(batch.malformed) for batch in by_row) == 1_000 + 1


def test_a_header_that_lacks_fields_is_warned_of(folder: Path) -> None:
    for header, row in (("name,nte", "a,b"), ("name,tag", "a,b"), ("name,tag,tag", "a,b,c")):
        agree(folder, "\n".join([header, *[row] * 600, ""]).encode(), Defaults)


@pytest.mark.parametrize(
    ("annotation", "options", "reason"),
    [
        (Reading, {}, None),
        (Positive, {}, "Positive has a __post_init__"),
        (Reading, {"encoding": "cp1252"}, "the encoding is cp1252"),
        (Reading, {"delimiter": "§"}, "the delimiter '§' is more than a byte"),
        (Reading, {"delimiter": "\0"}, "the delimiter '\\x00' is more than a byte"),
        (Reading, {"nulls": ("NA",)}, "the source has options for null texts, truth values or numbers"),
        (list[int], {}, "value is a list[int]"),
        (Event, {}, "Event.tag_list is a list[str]"),
        (Options, {}, "Options.size may be absent"),
        (tuple[int, Place], {}, "tuple[int, tests.codecs.samples.Place]._2 is a Place"),
    ],
    ids=count(),
)
def test_some_files_are_read_row_by_row(
    annotation: typing.Any, options: dict[str, typing.Any], reason: str | None
) -> None:
    source = CsvFileSource("x", annotation, **options)
    reader = text_block_reader(source)
    assert reader == reason if reason is not None else isinstance(reader, TextBlockReader)
    assert isinstance(text_records(source), CsvRecords)


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
ENDS_OF_ALL_KINDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\n \n"])


@st.composite
def rows_with_one_odd_cell(draw: st.DrawFn) -> str:
    cells = list(WHOLE)
    place = draw(st.integers(0, len(cells) - 1))
    cells[place] = draw(st.sampled_from(BY_FIELD[place]))
    return ",".join(cells)


@given(st.lists(st.tuples(rows_with_one_odd_cell(), ENDS_OF_ALL_KINDS), max_size=4), st.sampled_from([None, UTC]))
def test_cells_of_all_kinds_are_read_as_by_the_plain_reader(
    folder: Path, rows: list[tuple[str, str]], zone: typing.Any
) -> None:
    agree(folder, "".join(row + end for row, end in rows).encode(), Row, header=False, zone=zone)


@pytest.mark.parametrize(
    ("place", "cell"), [(place, cell) for place, cells in enumerate(BY_FIELD) for cell in cells], ids=count()
)
def test_each_odd_cell_is_read_alone(folder: Path, place: int, cell: str) -> None:
    cells = [*WHOLE[:place], cell, *WHOLE[place + 1 :]]
    came_as_columns = agree(folder, f"{','.join(WHOLE)}\n{','.join(cells)}\n".encode(), Row, header=False)
    assert came_as_columns or cell not in (
        "a", '"a"', "7", '"7"', "0.1", "+1.5", "tRuE", "2026-01-31T12:00:00+01:30", "2024-02-29",
    )  # fmt: skip


DELIMITERS = st.sampled_from([",", ",", ";", "\t", " ", "|", "1", "."])


@given(st.text(st.sampled_from('"",;a1\n\r \0\ufeffä'), max_size=40), DELIMITERS)
@example('"a""b","a\r\nb",,""\n', ",")
@example("\n", ",")
def test_texts_with_odd_signs_are_read_as_by_the_plain_reader(folder: Path, text: str, delimiter: str) -> None:
    for annotation in (Texts, tuple[str | None, str], str, int | None):
        agree(folder, text.encode(), annotation, delimiter, header=False)


PIECES = [b"a,", b"b\n", b'"', b"\xff", b"\xc3\xa4", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\0"]


@given(st.lists(st.sampled_from(PIECES), max_size=9))
def test_bytes_that_are_no_characters_are_read_as_by_the_plain_reader(folder: Path, pieces: list[bytes]) -> None:
    agree(folder, b"".join(pieces), tuple[str, str], header=False)


@pytest.mark.parametrize(
    ("annotation", "data"),
    [
        (Reading, b"sensor,at,celsius\na,1,2.5\nb,2,-3\n"),
        (Reading, b'sensor,at,celsius\n"a","1","2.5"\r\n\r\n"b ""c"", d",2,-3\r\n'),
        (Reading, b'sensor,at,celsius\n"a\nb",1,2.5\n,2,3'),
        # Columns that no field takes are checked and not read.
        (Reading, b'?,celsius,at,?,sensor\n"x"" ",2.5,1,\xc3\xa4,a\n,3,2,"\n",b\n'),
        (Texts, 'a,b,c,d\nä,"",c,\n,,"",""\n'.encode()),
        (tuple[str, int | None], b'_1,_2\na,\nb,""\n'),
        (Pair, b"n,x\n1,\n2,3.5\n"),
        (str, b'value\na\n\n""\n b\n'),
        (int | None, b"value\n1\n\n2\n"),
        # A field without a column is None.
        (Defaults, b"tag,name\nt,a\n"),
    ],
    ids=count(),
)
def test_a_file_comes_as_columns(folder: Path, annotation: object, data: bytes) -> None:
    assert agree(folder, data, annotation)


@pytest.mark.parametrize(
    ("annotation", "data"),
    [
        (Reading, b"sensor,at,celsius\na,1\n"),
        (Reading, b"sensor,at,celsius\na,1,2.5,\n"),
        (Reading, b'sensor,at,celsius\na,1,"2.5\n'),
        (Reading, b"sensor,at,celsius\na,,2.5\n"),
        (Reading, b"?,celsius,at,?,sensor\nx,2.5,1,\xff,a\n"),
        (Texts, b"a,b,c,d\na,b,,d\n"),
        (tuple[str, str], b'_1,_2\na,x"y"\n'),
        (Defaults, b"name\na\n"),
        (int | None, b"other\n1\n"),
    ],
    ids=count(),
)
def test_a_file_does_not_come_as_columns(folder: Path, annotation: object, data: bytes) -> None:
    assert not agree(folder, data, annotation)
