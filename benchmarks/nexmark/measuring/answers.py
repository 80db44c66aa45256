"""Equality of results with the reference's answers, as multisets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb

from benchmarks.errors import WrongResultError
from benchmarks.nexmark.measuring.data import Data
from benchmarks.nexmark.reference.answers import answer, connect

__all__ = ["check", "result_files"]

# The values of folders, for results that lie in folders by their day and minute alone.
_OF_FOLDERS: Final = {"dt": "dt=([^/]*)", "hm": "hm=([^/]*)"}


def result_files(folder: Path) -> list[str]:
    """The Parquet files below a folder, but those that engines keep for themselves."""
    return [
        str(file)
        for file in sorted(folder.rglob("*.parquet"))
        if not any(part[0] in "_." for part in file.relative_to(folder).parts)
    ]


def check(query: str, data: Data, out: Path) -> int:
    """Compare the Parquet files below a folder with the answer; floats have nine digits, as the reference says.

    Returns:
        How many rows there are.

    Raises:
        WrongResultError: If a row is missing, doubled or another one.
    """
    right = _right(query, data)
    files = result_files(out)
    with duckdb.connect() as database:
        answers = database.read_parquet(str(right))
        if not files:
            if len(answers):
                raise WrongResultError(f"no rows were written, {len(answers):,} are right")
            return 0
        found = database.read_parquet(files, filename=True, hive_partitioning=False)
        given = {
            column: f"replace(regexp_extract(filename, '{pattern}', 1), '%3A', ':')"
            for column, pattern in _OF_FOLDERS.items()
            if column in answers.columns and column not in found.columns
        }
        unequal = {*found.columns, *given} - {"filename"} ^ {*answers.columns}
        if unequal:
            raise WrongResultError(f"not in both the result and the answer: columns {', '.join(sorted(unequal))}")
        floats = {name for name, kind in zip(answers.columns, answers.types, strict=True) if kind == "DOUBLE"}
        values = {name: given.get(name, name) for name in answers.columns}
        texts = [f"format('{{:.9g}}', {values[name]})" if name in floats else values[name] for name in values]
        right_texts = [f"format('{{:.9g}}', {name})" if name in floats else name for name in values]
        found.select(", ".join(texts)).create_view("found")
        answers.select(", ".join(right_texts)).create_view("answers")
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
