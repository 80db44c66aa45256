"""CSV files read in blocks hold the elements, malformed records and warnings that the plain reader finds."""

from __future__ import annotations

import gzip
import typing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

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
from windrow_runtime.inputs.batches import SourceBatch


@dataclass(frozen=True)
class Defaults:
    name: str
    note: str | None = None
    tag: str = "?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("csv")


SMALL = TextSizes(block=96, longest_row=400, alone=0)
"""Texts of a few rows have several blocks, and these are read as columns however few rows are good."""


def found_by(reader: TextReader | TextBlockReader, file: Path) -> object:
    """Returns what a reader gives for a file, as texts, which tell negative zeros from zeros, or its error."""
    found = SourceBatch()
    try:
        for batch in reader.read(str(file)):
            found.add(batch if isinstance(batch, SourceBatch) else SourceBatch(*batch.decode()))
            if not isinstance(batch, SourceBatch):
                # The columns hold the same elements, in the order of the rows.
                assert repr(decode_batch(batch.columns(), batch.record_type)) == repr(batch.decode()[0])
    except SourceError as error:
        return str(error)
    return repr(found.values), found.malformed, found.unmatched


def agree(
    folder: Path, data: bytes, annotation: object = Reading, delimiter: str = ",", *, header: bool = True
) -> None:
    file = folder / "x"
    file.write_bytes(data)
    records = CsvRecords(record_type(annotation), "utf-8", delimiter, header)
    assert csv_blocks.row_by_row(records) is None
    plain = found_by(TextReader(records), file)
    for sizes in (TextSizes(), replace(SMALL, block=1 << 20, longest_row=1 << 20), SMALL):
        sized = replace(records, sizes=sizes)
        assert found_by(TextBlockReader(sized, partial(CsvBlocks, sized)), file) == plain


GOOD = ["a,1,2.5", "b,-7,1e3", '"c",3,4', '"d,""e""",5,"6"', '"f\ng",7,8', "ä,9,0.1", "h,10,-0.0"]
ODD = [
    "", "a", "a,1", "a,1,2,3", "a,,2", ",1,2", "a,1.5,2", "a,1,inf", "a,1,NaN", "a,1,9007199254740993",
    "a,1,-9007199254740994", "a,1,590295810358705700000", "a,1,9007199254740993.0", f"a,1,1{'0' * 400}", "a,+1,2", " ",
    '""', '"",1,2', "\ufeffa,1,2", 'a,1,"2', '"a,1,2', 'a"b,1,2', 'a,1,5"', '"a"b,1,2', '"a\nb"c,1,2', '"', '"""',
    '"a""', "a\0,1,2", 'x,"\n\n\n",1', "\r",
]  # fmt: skip
LINES = st.sampled_from([*GOOD * 3, *ODD])
ENDS = st.sampled_from([*["\n"] * 6, "\r\n", "\r\n", "\r"])


@examples(150)
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


@examples(120)
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
        assert found_by(reader, folder / name) == found_by(TextReader(records), folder / name)
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
