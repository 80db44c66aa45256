"""A failed element says where its source read it, through all steps without keys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from windrow import DataStream, OutputTag, from_collection, from_source
from windrow.connectors import CustomSource
from windrow.failures import Failed
from windrow.functions import ProcessContext, ProcessFunction
from windrow.sources import CsvFileSource, FileSource, JsonFileSource, ParquetFileSource

# Any in this module: steps of every kind.

FAILED = OutputTag[Failed[Any]]("failed")
OTHER = OutputTag[Any]("other")
COUNT = 20


@dataclass(frozen=True)
class Row:
    name: str
    value: int


ROWS = [Row(f"row {number}", number) for number in range(COUNT)]
BAD = [4, 9, 14, 19]


def inverse(row: Row) -> Row:
    """Raises for one of five."""
    1 // (row.value % 5 - 4)
    return row


def write_json(file: Path) -> list[str]:
    # Blank lines count, and are no rows; a row that does not fit is left out.
    lines = [json.dumps(asdict(row)) + "\n" * (row.value == 6) for row in ROWS]
    lines.insert(12, '{"name": "no value"}')
    file.write_text("\n".join(lines))
    return [f":{number}" for number in (5, 11, 17, 22)]


def write_csv(file: Path) -> list[str]:
    file.write_text("name,value\n" + "".join(f"{row.name},{row.value}\n" for row in ROWS))
    return [f":{number + 2}" for number in BAD]


def write_parquet(file: Path) -> list[str]:
    pq.write_table(pa.Table.from_pylist([asdict(row) for row in ROWS]), file, row_group_size=6)
    return [f", row {number}" for number in BAD]


Write = Callable[[Path], list[str]]
KINDS: dict[str, tuple[Callable[[Path], FileSource[Row]], Write]] = {
    "json": (lambda folder: JsonFileSource(folder, Row, on_malformed="drop"), write_json),
    "csv": (lambda folder: CsvFileSource(folder, Row), write_csv),
    "parquet": (lambda folder: ParquetFileSource(folder, Row), write_parquet),
}


def origins(failing: DataStream[Any]) -> list[str | None]:
    return [failed.origin for failed in failing.get_side_output(FAILED).collect()]


@pytest.mark.parametrize("name", KINDS)
def test_files_tell_line_or_row(name: str, tmp_path: Path) -> None:
    source, write = KINDS[name]
    files = [tmp_path / f"{number}.{name}" for number in range(2)]
    places = [write(file) for file in files]
    rows = from_source(source(tmp_path)).returns(Row)
    expected = [f"{file}{place}" for file, each in zip(files, places, strict=True) for place in each]
    assert origins(rows.map(inverse, on_error=FAILED)) == expected


class Twice(ProcessFunction[Row, Row]):
    def process_element(self, value: Row, context: ProcessContext) -> Iterator[Row]:
        context.output(OTHER, value)
        yield from [inverse(value)] * (value.value % 3)


def several(rows: Sequence[Row]) -> list[Row]:
    return [inverse(row) for row in rows]


async def later(row: Row) -> Row:
    await asyncio.sleep(0.001 * (row.value % 3))
    return inverse(row)


async def the_same(row: Row) -> Row:
    await asyncio.sleep(0.001 * (row.value % 3))
    return row


def but_three(row: Row) -> Row:
    if row.value == 3:
        raise ValueError(row)
    return row


UPSTREAM: dict[str, Callable[[DataStream[Row]], DataStream[Row]]] = {
    "map": lambda rows: rows.map(lambda row: row),
    "filter": lambda rows: rows.filter(lambda row: row.value != 7),
    "flat_map": lambda rows: rows.flat_map(lambda row: [row] * (row.value % 2 or 3)),
    "map with a policy": lambda rows: rows.map(
        lambda row: row if row.value != 3 else inverse(ROWS[4]), on_error="drop"
    ),
    "filter with a policy": lambda rows: rows.filter(
        lambda row: 1 // (row.value - 3) < 9 != row.value, on_error="drop"
    ),
    "process": lambda rows: rows.process(Twice(), on_error="drop").map(lambda row: Row(row.name, 4)),
    "map_batches": lambda rows: rows.map_batches(several, size=3, on_error="drop").map(lambda row: Row(row.name, 4)),
    "map_async": lambda rows: rows.map_async(the_same, capacity=5, ordered=False),
    "union": lambda rows: rows.filter(lambda row: row.value > 5).union(rows.filter(lambda row: row.value < 9)),
}
STEPS: dict[str, Callable[[DataStream[Row]], Any]] = {
    "map": lambda rows: rows.map(inverse, on_error=FAILED),
    "filter": lambda rows: rows.filter(lambda row: inverse(row).value > 0, on_error=FAILED),
    "flat_map": lambda rows: rows.flat_map(lambda row: [inverse(row)], on_error=FAILED),
    "process": lambda rows: rows.process(Twice(), on_error=FAILED),
    "map_batches": lambda rows: rows.map_batches(several, size=3, on_error=FAILED),
    "map_async": lambda rows: rows.map_async(later, capacity=5, on_error=FAILED),
    "key_by": lambda rows: rows.key_by(inverse, on_error=FAILED),
}


@pytest.mark.parametrize("upstream", UPSTREAM)
@pytest.mark.parametrize("step", STEPS)
def test_the_origin_is_that_of_the_element(upstream: str, step: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    write_csv(file)
    rows = UPSTREAM[upstream](from_source(CsvFileSource(tmp_path, Row)).returns(Row))
    failed = STEPS[step](rows).get_side_output(FAILED).collect()
    assert len(failed) >= 3
    assert all(each.origin == f"{file}:{int(each.element.name.split()[1]) + 2}" for each in failed)


def test_nobody_knows_where_others_come_from(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv")
    rows = from_source(CsvFileSource(tmp_path, Row)).returns(Row)
    aside = rows.process(Twice(), on_error="drop").get_side_output(OTHER).map(lambda row: ROWS[4])
    assert set(origins(aside.map(inverse, on_error=FAILED))) == {None}
    summed = rows.key_by(lambda row: row.name).reduce(lambda a, b: b)
    assert set(origins(summed.map(inverse, on_error=FAILED))) == {None}


class Numbers(CustomSource[int, int]):
    """The numbers below 10."""

    @property
    def is_bounded(self) -> bool:
        return True

    def initial_offset(self, partition: str) -> int:
        return 0

    def latest_offset(self, partition: str) -> int:
        return 10

    def read(self, partition: str, start: int, end: int) -> Iterator[int]:
        yield from range(start, end)


def test_sources_of_ones_own_tell_the_partition_and_collections_nothing() -> None:
    (origin,) = origins(from_source(Numbers()).map(lambda n: 1 // (n - 4), on_error=FAILED))
    assert origin is not None
    assert origin.endswith(" from 0 to 10")
    assert origins(from_collection([4]).map(lambda n: 1 // (n - 4), on_error=FAILED)) == [None]
