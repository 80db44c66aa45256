"""Prints the figures of ``benchmarks.run --json`` as one Markdown table: ``python -m benchmarks.table figures.json``.

The README beside this file has that table; a test compares the two.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import ratio
from benchmarks.section import markdown_table
from benchmarks.workloads import PYFLINK, TUNED

__all__ = ["main", "table"]

# Any throughout this module: what JSON holds.

HEADER = (
    *("workload", "rows per batch", "contender", "rows/s", "slowest..fastest", "x tuned", "x PyFlink"),
    *("first batch s", "workers MiB"),
)


def table(figures: Any) -> str:
    """All speeds of a file of figures, a row for each contender of each input.

    Every ratio is one of rows a second: to tuned native Spark SQL, and to PyFlink, over the same input.
    """
    return markdown_table(HEADER, [*_rows(figures)])


def _rows(figures: Any) -> Iterator[list[str]]:
    for workload in figures["spark"]:
        for size in workload["inputs"]:
            named = [workload["title"], f"{size['rows_per_batch']:,}"]
            for run in size["runs"]:
                yield [*named, *_cells(run, size["rows_per_batch"])]
                named = ["", ""]


def _cells(run: Any, rows_per_batch: int) -> list[str]:
    speeds = [rows_per_batch / seconds for batches in run["batch_seconds"] for seconds in batches]
    firsts = [seconds for seconds in run["first_batch_seconds"] if seconds is not None]
    memory = [peak["workers"] for peak in run["memory_mib"] if peak is not None]
    # PyFlink has no batches: its steady state is one span of time.
    return [
        run["contender"],
        f"{run['rows_per_second']:,}",
        f"{min(speeds):,.0f}..{max(speeds):,.0f}" if firsts else "-",
        ratio(run["times"].get(TUNED)),
        ratio(run["times"].get(PYFLINK)),
        f"{min(firsts):.1f}" if firsts else "-",
        f"{max(memory):,.0f}" if firsts and memory else "-",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read figures and print their table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table", description=__doc__)
    parser.add_argument("figures", type=Path, help="what benchmarks.run --json wrote")
    print(table(json.loads(parser.parse_args(arguments).figures.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
