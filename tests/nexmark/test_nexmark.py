"""The queries of Nexmark give the reference's answers, over data of several shapes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import duckdb
import pyarrow.parquet as pq
import pytest

from benchmarks.nexmark.__main__ import QUERIES, main, query_of
from benchmarks.nexmark.reference.answers import answer, connect
from benchmarks.nexmark.streams import Streams
from tests.budget import for_a_night

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GENERATOR: Final = Path(__file__).parents[2] / "benchmarks" / "nexmark" / "reference" / "generate.py"
SHAPES: Final = {
    "bursts": ("--events", "4000", "--seed", "3", "--files", "4"),
    "steady, disordered": (
        *("--events", "3000", "--seed", "4", "--files", "3"),
        *("--bursts", "1", "--disorder-ms", "3000", "--rate", "500"),
    ),
}
ON_SPARK: Final = ("q5", "q6", "q8", "q10")
BOTH_SHAPES: Final = [(shape, query) for shape in SHAPES for query in ON_SPARK]
# One query over each shape; the interpreter takes all queries over both.
ONE_SHAPE: Final = [("bursts", "q6"), ("steady, disordered", "q10")]
# Any in this module: rows have columns of several types.
Rows = Counter[tuple[tuple[str, Any], ...]]


@pytest.fixture(scope="module", params=SHAPES)
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nexmark") / "data"
    subprocess.run([sys.executable, GENERATOR, folder, *SHAPES[request.param]], check=True, capture_output=True)
    return folder


def counted(rows: list[dict[str, Any]]) -> Rows:
    """Rows as a multiset; floats with nine digits, as the reference is compared."""
    return Counter(
        tuple(
            sorted((name, float(f"{value:.9g}") if isinstance(value, float) else value) for name, value in row.items())
        )
        for row in rows
    )


def expected(data: Path, query: str) -> Rows:
    database: duckdb.DuckDBPyConnection = connect(data)
    found = answer(database, query)
    return counted([dict(zip(found.columns, row, strict=True)) for row in found.fetchall()])


def written(out: Path) -> Rows:
    files = [
        file for file in out.rglob("*.parquet") if not any(part[0] in "_." for part in file.relative_to(out).parts)
    ]
    return counted(
        [
            {**row, **in_names(file.relative_to(out))}
            for file in files
            for row in pq.ParquetFile(file).read().to_pylist()
        ]
    )


def in_names(file: Path) -> dict[str, str]:
    """The columns that the names of folders hold, as q10 has some."""
    return {name: unquote(value) for name, is_value, value in (part.partition("=") for part in file.parts) if is_value}


@pytest.mark.parametrize("query", QUERIES)
def test_the_interpreter_gives_the_answers(data: Path, query: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("--data", str(data), "--query", query, "--out", str(out), "--engine", "local")
    assert main(arguments) == 0
    assert written(out) == expected(data, query)


@pytest.mark.spark
@pytest.mark.parametrize(("data", "query"), for_a_night(BOTH_SHAPES, ONE_SHAPE), indirect=["data"])
def test_so_does_spark(data: Path, query: str, tmp_path: Path, spark: SparkSession) -> None:
    from windrow_runtime.spark import SparkRunner

    # Several batches, so that watermarks and state go from one to the next.
    SparkRunner(spark).run(query_of(query)(Streams(data, files_per_batch=1), tmp_path))
    assert written(tmp_path) == expected(data, query)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_short(query: str) -> None:
    make: Callable[..., object] = query_of(query)
    code = Path(sys.modules[make.__module__].__file__ or "").read_text(encoding="utf-8")
    assert len(code.splitlines()) <= 60
