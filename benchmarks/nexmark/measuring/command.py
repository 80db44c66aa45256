"""The command that measures: ``python -m benchmarks.nexmark --measure``."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import Final

from pyspark.errors import PySparkException

from benchmarks.environment import environment
from benchmarks.errors import MeasurementError, WrongResultError
from benchmarks.nexmark.__main__ import QUERIES
from benchmarks.nexmark.measuring.data import FILES_PER_BATCH, Data, prepare
from benchmarks.nexmark.measuring.flink import FlinkRun, run_flink
from benchmarks.nexmark.measuring.flink_sql import FLINK, NOT_FLINK
from benchmarks.nexmark.measuring.growth import growth_text
from benchmarks.nexmark.measuring.native import NOT_NATIVE
from benchmarks.nexmark.measuring.report import HEADER, Row, summary
from benchmarks.nexmark.measuring.runs import Warmth, compare
from benchmarks.session import spark_session
from windrow.errors import WindrowError

__all__ = ["measure"]

_WARM_EVENTS_PER_BATCH: Final = 8_000
_WARM_BATCHES: Final = 10
_WARM_RUNS: Final = 12


def measure(arguments: Sequence[str]) -> int:
    """Run the queries by all contenders and print a row for each; 1 if a figure is missing that should be there."""
    options = _parse(arguments)
    # Queries in the order that they are asked for, each once.
    names = tuple(dict.fromkeys(options.only)) or QUERIES
    where = environment()
    print(where.text(), flush=True)
    data = prepare(options.events, batches=options.batches)
    print(
        f"{data.events:,} events in {data.batches} batches of {data.events_per_batch:,}, {FILES_PER_BATCH} files of "
        f"each stream a batch; rounds: {options.rounds}\n\n{HEADER}",
        flush=True,
    )
    warm_events = min(_WARM_EVENTS_PER_BATCH, data.events_per_batch)
    warmth = Warmth(prepare(warm_events * _WARM_BATCHES, batches=_WARM_BATCHES), options.warm_up_seconds, _WARM_RUNS)
    rows: list[Row] = []
    failures: list[str] = []
    growths: list[str] = []
    with spark_session() as spark:
        for query in names:
            try:
                speeds = compare(query, data, spark, options.rounds, warmth)
            except (WrongResultError, MeasurementError, WindrowError, PySparkException) as error:
                failures.append(f"{query} has no figures: {error}")
                print(failures[-1], file=sys.stderr, flush=True)
                continue
            flink = None
            try:
                flink = _flink(query, data, options)
            except (WrongResultError, MeasurementError) as error:
                failures.append(f"{query} has no figure of Flink SQL: {error}")
                print(failures[-1], file=sys.stderr, flush=True)
            rows.append(Row(query, speeds["windrow"], speeds.get("native"), flink))
            print(rows[-1].text(), flush=True)
            growths += [growth for name, speed in speeds.items() if (growth := growth_text(query, name, speed, data))]
    print(f"\n{summary(rows)}")
    print(*growths, sep="\n")
    for query in names:
        if query in NOT_NATIVE:
            print(f"{query}: native Spark SQL, not in append mode: {NOT_NATIVE[query]}")
        if options.pyflink is not None and query in NOT_FLINK:
            print(f"{query}: not in Flink SQL: {NOT_FLINK[query]}")
    for failure in failures:
        print(failure)
    return 1 if failures else 0


def _flink(query: str, data: Data, options: argparse.Namespace) -> float | None:
    """The events a second of Flink SQL, if it is wanted and can state the query."""
    if options.pyflink is None or query not in FLINK:
        return None
    runs: list[FlinkRun] = []
    for number in range(options.rounds):
        print(f"... {query}: Flink, round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        runs.append(run_flink(query, data, options.pyflink, durable=options.durable))
        times = f"start {runs[-1].start_seconds:.2f}, then {runs[-1].seconds:.2f}"
        print(f"... {query}: Flink, seconds: {times}", file=sys.stderr, flush=True)
    return sum(run.events for run in runs) / sum(run.seconds for run in runs)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark --measure", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000, help="of all streams together (default 2,000,000)")
    parser.add_argument(
        "--batches", type=int, help="how many there are (default one for 250,000 events); with 40 and more their growth"
    )
    parser.add_argument("--only", action="append", default=[], choices=QUERIES, help="a query to run (repeatable)")
    parser.add_argument("--rounds", type=int, default=2, help="how often each contender runs, in turn (default 2)")
    parser.add_argument(
        "--warm-up-seconds",
        type=float,
        default=20,
        help="how long each contender of a query runs over small batches before (default 20; once at least)",
    )
    parser.add_argument(
        "--pyflink",
        metavar="PYTHON",
        help="the Python of an environment that has apache-flink; without it Flink SQL is left out",
    )
    parser.add_argument(
        "--durable",
        action="store_true",
        help="Flink keeps state in RocksDB, with a checkpoint each second; without it on the heap, without checkpoints",
    )
    options = parser.parse_args(arguments)
    if options.pyflink is not None and shutil.which(options.pyflink) is None:
        parser.error(f"--pyflink: {options.pyflink} is not a program")
    if min(options.rounds, options.events, options.batches or 1) < 1:
        parser.error("--rounds, --events and --batches must be at least 1")
    return options
