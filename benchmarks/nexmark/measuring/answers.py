"""Equality of results with the reference's answers, as multisets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb

from benchmarks.errors import WrongResultError
from benchmarks.nexmark.measuring.data import Data
from benchmarks.nexmark.reference.answers import answer, connect

__all__ = ["answer_types", "check", "check_text", "result_files"]

# The values of folders, for results that lie in folders by their day and minute alone.
_OF_FOLDERS: Final = {"dt": "dt=([^/]*)", "hm": "hm=([^/]*)"}

_BOUNDS: Final = ("window_start", "window_end")
_TIME: Final = "TIMESTAMP"


def result_files(folder: Path) -> list[str]:
    """The Parquet files below a folder, but those that engines keep for themselves."""
    return [
        str(file)
        for file in sorted(folder.rglob("*.parquet"))
        if not any(part[0] in "_." for part in file.relative_to(folder).parts)
    ]


def check(query: str, data: Data, out: Path) -> int:
    """Compare the Parquet files below a folder with the answer.

    Returns:
        How many rows there are.

    Raises:
        WrongResultError: If a row is missing, doubled or another one.
    """
    with duckdb.connect() as database:
        files = result_files(out)
        found = database.read_parquet(files, filename=True, hive_partitioning=False) if files else None
        return _compare(database, found, _answers(database, query, data))


def check_text(query: str, data: Data, out: Path) -> int:
    """Compare CSV files without header, which have the columns of the answer in its order; else as :func:`check`.

    Times of windows are texts such as ``2026-03-01 06:59:50.000``.
    """
    with duckdb.connect() as database:
        # Flink may leave files their hidden names if it makes no checkpoints.
        files = [str(file) for file in sorted(out.rglob("*")) if file.is_file() and file.suffix != ".crc"]
        types = {name: kind for name, kind in answer_types(query, data).items() if name not in _OF_FOLDERS}
        found = None
        if any(Path(file).stat().st_size for file in files):
            found = database.read_csv(
                files,  # type: ignore[arg-type]  # DuckDB's types do not know that it takes several
                header=False,
                columns=types,
                delimiter=",",
                quotechar="",
                filename=True,
                hive_partitioning=False,
            )
            times = ", ".join(f"epoch_ms({name}) AS {name}" for name, kind in types.items() if kind == _TIME)
            if times:
                found = found.select(f"* REPLACE ({times})")
        return _compare(database, found, _answers(database, query, data))


def answer_types(query: str, data: Data) -> dict[str, str]:
    """The columns of an answer with their types in SQL, those of the bounds of windows as times."""
    with duckdb.connect() as database:
        answers = _answers(database, query, data)
        types = zip(answers.columns, map(str, answers.types), strict=True)
        return {name: _TIME if name in _BOUNDS else kind for name, kind in types}


def _answers(database: duckdb.DuckDBPyConnection, query: str, data: Data) -> duckdb.DuckDBPyRelation:
    return database.read_parquet(str(_right(query, data)))


def _compare(
    database: duckdb.DuckDBPyConnection, found: duckdb.DuckDBPyRelation | None, answers: duckdb.DuckDBPyRelation
) -> int:
    """Compare as multisets; floats have nine digits, as the reference says."""
    if found is None:
        if len(answers):
            raise WrongResultError(f"no rows were written, {len(answers):,} are right")
        return 0
    given = {
        column: f"replace(regexp_extract(filename, '{pattern}', 1), '%3A', ':')"
        for column, pattern in _OF_FOLDERS.items()
        if column in answers.columns and column not in found.columns
    }
    unequal = {*found.columns, *given} - {"filename"} ^ {*answers.columns}
    if unequal:
        raise WrongResultError(f"not in both the result and the answer: columns {', '.join(sorted(unequal))}")
    floats = {name for name, kind in zip(answers.columns, answers.types, strict=True) if kind == "DOUBLE"}
    for relation, name, values in ((found, "found", given), (answers, "answers", {})):
        columns = [values.get(column, column) for column in answers.columns]
        texts = [f"format('{{:.9g}}', {column})" if column in floats else column for column in columns]
        relation.select(", ".join(texts)).create_view(name)
    missing, wrong = (
        _count(database, f"FROM (FROM {one} EXCEPT ALL FROM {other}) SELECT count(*)")
        for one, other in (("answers", "found"), ("found", "answers"))
    )
    if missing or wrong:
        raise WrongResultError(f"of {len(answers):,} rows {missing:,} are missing, and {wrong:,} others are there")
    return len(answers)


def _count(database: duckdb.DuckDBPyConnection, sql: str) -> int:
    row = database.sql(sql).fetchone()
    assert row is not None
    return int(row[0])


def _right(query: str, data: Data) -> Path:
    """The answer as a file, made once."""
    file = data.path / "answers" / f"{query}.parquet"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        with connect(data.path) as database:
            unfinished = file.with_suffix(".unfinished")
            answer(database, query).write_parquet(str(unfinished))
        unfinished.rename(file)
    return file
