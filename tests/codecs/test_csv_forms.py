"""Null texts, truth values and numbers of CSV, by the options of the source."""

from __future__ import annotations

import math
from dataclasses import dataclass, make_dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from windrow import from_source
from windrow.errors import InvalidArgumentError, MalformedRecordError
from windrow.sources import CsvFileSource

# Any in this module: elements of every type.


TYPES: dict[str, Any] = {"flag": bool, "n": int, "ratio": float, "price": Decimal, "name": str}


def row_of(column: str) -> type:
    """A record with a field of a type, which may be null."""
    return make_dataclass("Row", [("x", str), (column, TYPES[column] | None, None)], frozen=True)


def read(folder: Path, text: str, kind: Any, **options: Any) -> list[Any]:
    (folder / "x.csv").write_text(text)
    return from_source(CsvFileSource(folder, kind, **options)).collect()


TRUTHS = {"true_values": ("true", "t", "yes", "1"), "false_values": ("false", "F", "no", "0")}
GERMAN = {"decimal": ",", "thousands": ".", "delimiter": ";"}


@pytest.mark.parametrize(
    ("column", "cell", "options", "expected"),
    [
        *(("flag", cell, TRUTHS, True) for cell in ("t", "T", "Yes", "1", "TRUE")),
        *(("flag", cell, TRUTHS, False) for cell in ("f", "F", "NO", "0", "false")),
        *(("ratio", cell, {"float_names": True}, math.inf) for cell in ("inf", "+Inf", "INFINITY", "Infinity")),
        ("ratio", "-inf", {"float_names": True}, -math.inf),
        ("ratio", "1.5", {"float_names": True}, 1.5),
        *(("n", cell, {"integral_floats": True}, 1000) for cell in ("1000.0", "1e3", "1000", "1000.", "+1000.00")),
        *(("n", cell, GERMAN, 1234567) for cell in ("1.234.567", "1234567")),
        *(("ratio", cell, GERMAN, -1234.5) for cell in ("-1.234,5", "-1234,50", "-1,2345e3")),
        ("ratio", ",5", GERMAN, 0.5),
        ("price", "1.234,50", GERMAN, Decimal("1234.50")),
        ("n", "1 234", {"thousands": " "}, 1234),
        ("n", "12,34,567", {"thousands": ",", "delimiter": ";"}, 1234567),
        *(("n", cell, {"nulls": ("", "NA", "\\N")}, None) for cell in ("", "NA", "\\N", '"NA"')),
        *(("name", cell, {"nulls": ("", "NA", "\\N")}, None) for cell in ("NA", "\\N")),
        *(("name", cell, {"nulls": ("", "NA")}, text) for cell, text in (('"NA"', "NA"), ('""', ""), ("na", "na"))),
    ],
)
def test_forms_of_cells(tmp_path: Path, column: str, cell: str, options: dict[str, Any], expected: object) -> None:
    separator = options.get("delimiter", ",")
    (row,) = read(tmp_path, f"x{separator}{column}\ny{separator}{cell}\n", row_of(column), **options)
    assert repr(getattr(row, column)) == repr(expected)


def test_nan(tmp_path: Path) -> None:
    rows = read(tmp_path, "x,ratio\n1,nan\n1,-NAN\n1,NaN\n", row_of("ratio"), float_names=True)
    assert len(rows) == 3
    assert all(math.isnan(row.ratio) for row in rows)


@pytest.mark.parametrize(
    ("column", "cell", "options"),
    [
        *(("flag", cell, {}) for cell in ("t", "yes", "1")),
        *(("ratio", cell, {}) for cell in ("inf", "nan", "1,5")),
        *(("n", cell, {}) for cell in ("1.0", "NA")),
        *(("n", cell, {"integral_floats": True}) for cell in ("1.5", "1e99", "1e999999999", "1E999999999999999999999")),
        *(("ratio", cell, GERMAN) for cell in ("1.5", "1,5,5", "1.23,4", "abc", ",", "x")),
        ("price", "1.5", GERMAN),
        ("n", "1.0", GERMAN),
        ("flag", "true", {"true_values": ("t",)}),
        ("n", "", {"nulls": ("NA",)}),
    ],
)
def test_cells_in_other_forms_are_malformed(tmp_path: Path, column: str, cell: str, options: dict[str, Any]) -> None:
    options = {"delimiter": ";", **options}
    with pytest.raises(MalformedRecordError, match=rf"Row\.{column}"):
        read(tmp_path, f"x;{column}\ny;{cell}\n", row_of(column), **options)


@dataclass(frozen=True)
class Needed:
    n: int
    name: str
    size: int = 7


def test_null_is_the_default_or_malformed(tmp_path: Path) -> None:
    assert read(tmp_path, "n,name,size\n1,,NA\n", Needed, nulls=("", "NA")) == [Needed(1, "")]
    for cells in ("NA,a,1", "1,NA,1"):
        with pytest.raises(MalformedRecordError, match="the null text 'NA' in a required field"):
            read(tmp_path, f"n,name,size\n{cells}\n", Needed, nulls=("", "NA"))


@pytest.mark.parametrize(
    "options",
    [
        {"nulls": "NA"}, {"nulls": 5}, {"nulls": (None,)}, {"partitions": 5}, {"decimal": ".."}, {"thousands": "."},
        {"thousands": "1"}, {"header": "no"}, {"float_names": 1}, {"integral_floats": None},
        {"true_values": ("x",), "false_values": ("X",)},
    ],
    ids=str,
)  # fmt: skip
def test_options_that_are_none(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        CsvFileSource("x", Needed, **options)


@pytest.mark.parametrize("nulls", [("NA",), ("", "NA"), ("NA", "-")])
def test_null_texts_in_quotes_are_texts(tmp_path: Path, nulls: tuple[str, ...]) -> None:
    kind: Any = row_of("name")
    rows = read(tmp_path, 'x,name\na,"NA"\nb,NA\n', kind, nulls=nulls)
    assert [row.name for row in rows] == ["NA", None]


def test_an_empty_cell_that_is_no_null_says_so(tmp_path: Path) -> None:
    with pytest.raises(MalformedRecordError, match="an empty cell, which is not among nulls"):
        read(tmp_path, "x,n\na,\n", row_of("n"), nulls=("NA",))
