"""Runs the benchmarks: ``python -m benchmarks.run``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.environment import environment
from benchmarks.errors import MeasurementError, WrongResultError
from benchmarks.report import Report
from benchmarks.workloads import (
    INTERPRETER_WORKLOADS,
    SPARK_WORKLOADS,
    Scale,
    run_interpreter_workload,
    run_spark_workload,
    warm_up,
)

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks and print the tables."""
    options = _parse(arguments)
    names = options.only or [""]
    interpreted = [w for w in INTERPRETER_WORKLOADS if any(w.name.startswith(name) for name in names)]
    on_spark = [w for w in SPARK_WORKLOADS if any(w.name.startswith(name) for name in names)]
    if not interpreted and not on_spark:
        known = ", ".join(w.name for w in (*SPARK_WORKLOADS, *INTERPRETER_WORKLOADS))
        print(f"no workload begins with {' or '.join(names)}; there are {known}", file=sys.stderr)
        return 2
    scale = Scale(
        quick=options.quick,
        full=options.full,
        rounds=options.rounds,
        sink=options.sink,
        contenders=tuple(options.contender),
    )
    report = Report(environment(), scale)
    if report.environment.is_busy:
        print(f"The machine is busy: load {report.environment.load}.", file=sys.stderr)
    try:
        # Before Spark starts, whose threads would share the core.
        for interpreter_workload in interpreted:
            report.interpreter.append(run_interpreter_workload(interpreter_workload, scale))
        if on_spark:
            # The interpreter's workloads run without Spark and without Java.
            from benchmarks.session import spark_session

            with spark_session() as spark:
                warm_up(spark)
                for spark_workload in on_spark:
                    report.spark.append(run_spark_workload(spark_workload, spark, scale))
    except (WrongResultError, MeasurementError) as error:
        print(f"no figures: {error}", file=sys.stderr)
        return 1
    print(report.text())
    if options.json is not None:
        report.write_json(options.json)
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little input: does everything work?")
    parser.add_argument("--full", action="store_true", help="10 million elements in the interpreter as well")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="run the workloads whose names begin so: tumbling, tumbling-1k, interpreter, ... (repeatable)",
    )
    parser.add_argument(
        "--contender",
        action="append",
        default=[],
        metavar="NAME",
        help="run the contenders whose names begin so: native, windrow, hand-written (repeatable)",
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="how often each contender runs, in turn (default 1)"
    )
    parser.add_argument(
        "--sink", choices=["parquet", "driver"], default="parquet", help="where results go (default parquet)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.json is not None and not os.access(options.json.resolve().parent, os.W_OK):
        parser.error(f"cannot write {options.json}")
    return options


if __name__ == "__main__":
    sys.exit(main())
