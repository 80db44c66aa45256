from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

import pytest

from tests.codecs.samples import Colour, Defaults, Options, Place, Reading
from windrow.errors import SourceError
from windrow_runtime.codecs.csv import CsvDecoder, CsvRow
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import CsvRecords


def decoder_of(annotation: object, header: list[str]) -> CsvDecoder:
    return CsvDecoder(record_type(annotation), header)


def decoded(annotation: object, header: list[str], cells: list[str], text: str = "") -> object:
    return decoder_of(annotation, header).decode(CsvRow(1, text, cells))


@dataclass
class Row:
    name: str
    at: datetime
    ok: bool
    ratio: float
    colour: Colour
    note: str | None
    tags: list[int]
    place: Place | None


HEADER = ["place", "name", "at", "ok", "ratio", "colour", "note", "tags", "ignored"]
CELLS = ['{"x": 1, "y": 2}', "", "2024-01-01T00:00:00Z", "TRUE", "-1.5e1", "red", "", "[1, 2]", "?"]


def test_cells_become_values() -> None:
    assert decoded(Row, HEADER, CELLS) == Row(
        "", datetime(2024, 1, 1, tzinfo=UTC), True, -15.0, Colour.RED, None, [1, 2], Place(1.0, 2.0)
    )


def test_an_empty_cell_takes_the_default() -> None:
    assert decoded(Defaults, ["name", "size", "maybe"], ["a", "", ""]) == Defaults("a", 3, [], None, 1.5)
    assert decoded(Options, ["size", "name"], ["", "a"]) == {"name": "a"}


@pytest.mark.parametrize(
    ("annotation", "header", "row", "expected"),
    [
        (int, ["value"], ["+7"], 7),
        (tuple[str, int | None], ["_2", "_1"], ["", "a"], ("a", None)),
        (int | None, ["other"], ["x"], None),
        (float, ["value"], ["Infinity"], float("inf")),
        (None, ["value"], [""], None),
    ],
    ids=count(),
)
def test_elements_that_are_no_records(annotation: object, header: list[str], row: list[str], expected: object) -> None:
    assert decoded(annotation, header, row) == expected


@pytest.mark.parametrize(
    ("place", "cell", "field", "reason"),
    [
        (1, "", "Reading.at", "an empty cell in a required field"),
        (1, "1.0", "Reading.at", "expected int, not str '1.0'"),
        (1, "1_0", "Reading.at", "expected int, not str '1_0'"),
        (1, str(2**63), "Reading.at", "does not fit 64 bits"),
        (2, "warm", "Reading.celsius", "expected float, not str 'warm'"),
        (2, "1e999", "Reading.celsius", "out of range"),
    ],
)
def test_a_malformed_cell(place: int, cell: str, field: str, reason: str) -> None:
    row = ["a,b", "1", "2.5"]
    row[place] = cell
    record = decoded(Reading, ["sensor", "at", "celsius"], row, "as it was; read\r\n")
    assert isinstance(record, MalformedValue)
    assert record.raw == "as it was; read"
    error = record.error()
    assert error.where == field
    assert reason in error.message


@pytest.mark.parametrize("row", [["a", "1"], ["a", "1", "2.5", "4"], []], ids=len)
def test_a_row_of_another_width(row: list[str]) -> None:
    record = decoded(Reading, ["sensor", "at", "celsius"], row)
    assert isinstance(record, MalformedValue)
    assert record.reason == f"{len(row)} cells in a row of 3 columns"


@pytest.mark.parametrize(
    ("text", "raws"),
    [
        ('a;"1"\n', ['a;"1"']),
        ('"a;1\nb;2\n"c;x";3\n', ['"a;1', "b;2", '"c;x";3']),
        ('"a;1\nb;\n"\r\n"c;4', ['"a;1\nb;\n"', '"c;4']),
        ("\r\n x ; y \r", [" x ; y "]),
    ],
    ids=count(),
)
def test_a_malformed_record_is_what_was_read(text: str, raws: list[str]) -> None:
    records = CsvRecords(record_type(Reading), "utf-8", ";", header=False)
    found = [record for _, record in records.read("x", io.BytesIO(text.encode()))]
    assert [record.raw for record in found if isinstance(record, MalformedValue)] == raws


def test_json_in_a_cell_may_be_malformed() -> None:
    row = list(CELLS)
    row[7] = "[1,"
    record = decoded(Row, HEADER, row)
    assert isinstance(record, MalformedValue)
    assert record.field == "Row.tags"
    assert "not JSON" in record.reason


def test_faults_of_the_header_are_listed_together() -> None:
    with pytest.raises(SourceError) as caught:
        decoder_of(Reading, ["sensor", "sensor"])
    assert "sensor: two columns of this name" in str(caught.value)
    assert "at: no such column" in str(caught.value)
    assert "celsius: no such column" in str(caught.value)
    assert caught.value.hint == "correct the header, or give the fields defaults"


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        (["sensor;at;celsius"], "delimiter=';'"),
        (["sensor\tat"], "delimiter='\\t'"),
        (["roof", "12", "1.5"], "header=False"),
        (["roof"], "header=False"),
    ],
)
def test_a_header_without_any_column_of_the_type_has_a_hint(header: list[str], hint: str) -> None:
    with pytest.raises(SourceError) as caught:
        decoder_of(Reading, header)
    assert str(caught.value.hint).endswith(hint)
