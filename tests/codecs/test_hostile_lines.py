"""Hostile bytes: the readers of text files find each record or its fault, and never fail."""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass
from datetime import datetime

from hypothesis import example, given
from hypothesis import strategies as st

from tests.budget import examples
from windrow_runtime.codecs.csv import csv_rows
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import CsvRecords, LineRecords
from windrow_runtime.connectors.files.formats import lines_before, range_of
from windrow_runtime.connectors.files.systems import MOUNTED


@dataclass(frozen=True)
class Row:
    name: str | None
    at: datetime


PIECES = st.sampled_from(
    [
        *(b"\n", b"\r", b"\r\n", b",", b'"', b'""', b"{", b"}", b"a", b"\x00", b"\\u00e4"),
        *(b"\xff", b"\xc3", b"\xc3\xa4", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
        *(b'{"name": "a", "at": "2026-01-31T12:00:00Z"}', b"a,2026-01-31T12:00:00Z"),
    ]
)
BYTES = st.lists(PIECES, max_size=40).map(b"".join)
ENCODINGS = st.sampled_from(["utf-8", "utf-16", "utf-16-le", "cp1252", "latin-1", "shift_jis", "utf-32"])


@examples(200)
@given(BYTES, ENCODINGS)
@example(b"\xff\xfe", "utf-16")
@example(b"\xff", "utf-16")
@example(b"", "utf-32")
def test_each_record_is_an_element_or_malformed(data: bytes, encoding: str) -> None:
    kind = record_type(Row)
    found = list(LineRecords(kind, encoding, json=True).read("x", io.BytesIO(data)))
    found += CsvRecords(kind, encoding, ",", header=False).read("x", io.BytesIO(data))
    assert all(isinstance(value, (Row, MalformedValue)) for _, value in found)
    assert all(line >= 1 for line, _ in found)


@examples(200)
@given(BYTES)
def test_each_line_of_a_text_is_an_element_or_malformed(data: bytes) -> None:
    found = list(LineRecords(record_type(str), "utf-8", json=False).read("x", io.BytesIO(data)))
    lines = io.TextIOWrapper(io.BytesIO(data.removeprefix(b"\xef\xbb\xbf")), "utf-8", "surrogateescape").readlines()
    assert [line for line, _ in found] == list(range(1, len(lines) + 1))
    for (_, value), line in zip(found, lines, strict=True):
        text = line.removesuffix("\n")
        assert value == text or isinstance(value, MalformedValue)
        assert isinstance(value, MalformedValue) == any("\udc80" <= sign <= "\udcff" for sign in text)


@examples(200)
@given(st.text(st.sampled_from('",a\n\r\x00'), max_size=60))
def test_rows_begin_where_they_are_said_to(text: str) -> None:
    lines = io.StringIO(text, newline="").readlines()
    rows = list(csv_rows(iter(lines), ","))
    at = 1
    for row in rows:
        assert row.line == at
        assert "".join(lines[at - 1 :]).startswith(row.text)
        at += len(io.StringIO(row.text, newline="").readlines())
    assert at == len(lines) + 1


@examples(60)
@given(BYTES, st.integers(2, 5))
@example(b"a\n\xef\xbb\xbfb\nc\n", 3)
def test_parts_of_a_file_are_its_lines(data: bytes, parts: int) -> None:
    records = LineRecords(record_type(str), "utf-8", json=False)
    found: list[tuple[int, object]] = []
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        for part in range(parts):
            with open(file.name, "rb") as opened:
                some = range_of(opened, file.name, part, parts)
                if some is not None:
                    before = lines_before(MOUNTED, file.name, some)
                    lines = records.read(file.name, some, begins=not part)
                    found += ((before + line, value) for line, value in lines)
    assert found == list(records.read("x", io.BytesIO(data)))
