"""Compute Nexmark's reference answers with DuckDB: `answers.py DATA OUT [--only q5,q7] [--format jsonl|parquet]`.

Writes OUT/qN.jsonl (or .parquet) for each query, with sorted rows; with `-` as OUT prints JSON lines. The SQL is in
queries/qN.sql.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import duckdb

QUERIES = Path(__file__).resolve().parent / "queries"
NAMES = [f"q{n}" for n in range(23)]
TABLES = ("person", "auction", "bid", "side_input")


def connect(data: Path) -> duckdb.DuckDBPyConnection:
    """A database with the streams below `data` as views."""
    database = duckdb.connect()
    for table in TABLES:
        database.read_parquet(str(data / table / "*.parquet")).create_view(table)
    return database


def answer(database: duckdb.DuckDBPyConnection, query: str) -> duckdb.DuckDBPyRelation:
    sql = (QUERIES / f"{query}.sql").read_text()
    return database.sql(f"FROM ({sql}\n) ORDER BY ALL")


def selected(only: str | None) -> list[str]:
    """The queries that a list such as `q5,q7` names; all without one."""
    names = only.split(",") if only else NAMES
    if unknown := [name for name in names if name not in NAMES]:
        sys.exit(f"unknown queries {unknown}; there are q0 to q22")
    return names


def print_json_lines(result: duckdb.DuckDBPyRelation) -> None:
    columns = result.columns
    for row in result.fetchall():
        print(json.dumps(dict(zip(columns, row, strict=True))))


def write(result: duckdb.DuckDBPyRelation, path: Path, form: str) -> None:
    quoted = str(path).replace("'", "''")
    result.query("result", f"COPY result TO '{quoted}' (FORMAT {form})")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compute the reference answers of the Nexmark queries.")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", help="folder to write, or - to print")
    parser.add_argument("--only", help="queries, separated by commas")
    parser.add_argument("--format", choices=["jsonl", "parquet"], default="jsonl")
    args = parser.parse_args()
    database = connect(args.data)
    for query in selected(args.only):
        result = answer(database, query)
        if args.out == "-":
            print_json_lines(result)
        else:
            out = Path(args.out)
            out.mkdir(parents=True, exist_ok=True)
            write(result, out / f"{query}.{args.format}", {"jsonl": "json"}.get(args.format, args.format))


if __name__ == "__main__":
    main()
