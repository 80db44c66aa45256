"""Sinks that note the newest batch."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable

from tests.support.files import put
from tests.support.iceberg import iceberg_sink, table_in
from windrow import Pipeline, from_source
from windrow.connectors import CustomSink
from windrow.sinks import DatabaseSink, DeltaSink, JsonFileSink, Sink
from windrow.sources import JsonFileSource

__all__ = ["FORMS", "Noted", "Number", "give", "numbers_in", "pipeline_of", "sink_in"]

FORMS = ("table", "delta", "iceberg", "files", "custom")


class Number(NamedTuple):
    n: int


class Noted(CustomSink[Number]):
    """A file of lines, each of which has a batch's number and its elements: the last one is the newest batch."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def lines(self) -> list[list[int]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def newest_batch(self) -> int | None:
        return max((batch for batch, *_ in self.lines()), default=None)

    def write(self, batch: int, rows: Sequence[Number]) -> None:
        if batch != self.newest_batch():
            with self.file.open("a") as file:
                file.write(f"{json.dumps([batch, *(row.n for row in rows)])}\n")


def give(folder: Path, number: int) -> None:
    """Gives the source a file with one number, which becomes a batch."""
    put(folder / "in", number, [Number(number)], second=number)


def sink_in(folder: Path, form: str) -> Sink[Number]:
    """The sink of a form that writes in a folder."""
    sinks: Mapping[str, Sink[Number]] = {
        "table": DatabaseSink(f"sqlite:///{folder}/test.db", "numbers"),
        "delta": DeltaSink(folder / "delta"),
        "iceberg": iceberg_sink(folder),
        "files": JsonFileSink(folder / "files"),
        "custom": Noted(folder / "noted"),
    }
    return sinks[form]


def pipeline_of(folder: Path, *sinks: Sink[Number]) -> Pipeline:
    numbers = from_source(JsonFileSource(folder / "in", Number, files_per_batch=1))
    return Pipeline("marked", *(numbers.sink_to(sink) for sink in sinks))


def numbers_in(folder: Path, form: str) -> list[int]:
    """What the sink of a form has written, in order."""
    if form == "table":
        with closing(sqlite3.connect(folder / "test.db")) as connection:
            return sorted(n for (n,) in connection.execute("SELECT n FROM numbers"))
    if form == "delta":
        found: list[int] = DeltaTable(folder / "delta").to_pyarrow_table().column("n").to_pylist()
        return sorted(found)
    if form == "iceberg":
        found = table_in(folder).scan().to_arrow().column("n").to_pylist()
        return sorted(found)
    if form == "custom":
        return sorted(n for _, *numbers in Noted(folder / "noted").lines() for n in numbers)
    lines = (file.read_text(encoding="utf-8") for file in (folder / "files").glob("*.json"))
    return sorted(int(line.strip('{"n: }')) for text in lines for line in text.splitlines())
