"""Finds when the results of a window became visible in a sink of files, without a look at it meanwhile.

A rename changes the time at which a file's or folder's own record was changed last (``st_ctime``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["Visible", "files_of_spark", "files_of_windrow", "results_in"]

# Any in this module: Arrow tables; pyarrow ships no types.

Visible: TypeAlias = "Callable[[Path], Iterator[tuple[Path, float]]]"
"""Gives the files in the folder of a sink, each with the time in milliseconds at which it became visible."""

_LOG = "_spark_metadata"
_COMPACT = ".compact"


def files_of_spark(folder: Path) -> Iterator[tuple[Path, float]]:
    """Files of Spark's sink: readers take those that its log names, and a batch of the log is renamed when it is whole.

    A compact entry of the log holds all entries before it as well, whose files were visible before.
    """
    found = [file for file in (folder / _LOG).glob("[0-9]*") if file.name.removesuffix(_COMPACT).isdecimal()]
    known: set[str] = set()
    for entry in sorted(found, key=lambda file: int(file.name.removesuffix(_COMPACT))):
        _, *lines = entry.read_text().splitlines()
        for path in (json.loads(line)["path"] for line in lines):
            if path not in known:
                known.add(path)
                yield Path(unquote(urlsplit(path).path)), _changed_ms(entry)


def files_of_windrow(folder: Path) -> Iterator[tuple[Path, float]]:
    """Files of windrow's sink: each gets its name when all of the batch are whole."""
    for file in folder.glob("[!_.]*.parquet"):
        yield file, _changed_ms(file)


def _changed_ms(path: Path) -> float:
    return path.stat().st_ctime_ns / 1e6


def results_in(folder: Path, visible: Visible) -> tuple[Any, dict[int, float]]:
    """The table of the results so far, and when those of each window were visible, by the end of the window."""
    times: dict[int, float] = {}
    tables: list[Any] = []
    for file, shown in visible(folder):
        table = pq.read_table(file, partitioning=None)
        tables.append(table)
        for end in table["window_end"].unique().to_pylist():
            times[end] = max(shown, times.get(end, 0))
    return (pa.concat_tables(tables) if tables else None), times
