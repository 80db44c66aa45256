"""Runs the benchmarks: ``python -m benchmarks.run``."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from operator import methodcaller
from pathlib import Path

from benchmarks.environment import environment
from benchmarks.errors import MeasurementError, WrongResultError
from benchmarks.interpreter_workloads import INTERPRETER_WORKLOADS, run_interpreter_workload
from benchmarks.report import Report
from benchmarks.scale import Scale
from benchmarks.workloads import LATENCY, SPARK_WORKLOADS

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks and print the tables, each as soon as it is there."""
    options = _parse(arguments)
    names = options.only or [""]
    interpreted = [w for w in INTERPRETER_WORKLOADS if any(w.name.startswith(name) for name in names)]
    on_spark = [w for w in SPARK_WORKLOADS if any(w.name.startswith(name) for name in names)]
    in_real_time = any(LATENCY.startswith(name) for name in names)
    if not interpreted and not on_spark and not in_real_time:
        known = ", ".join([*(w.name for w in SPARK_WORKLOADS), LATENCY, *(w.name for w in INTERPRETER_WORKLOADS)])
        print(f"no workload begins with {' or '.join(names)}; there are {known}", file=sys.stderr)
        return 2
    contenders = {name for workload in on_spark for name in workload.contenders}
    unknown = [
        name for name in options.contender if on_spark and not any(map(methodcaller("startswith", name), contenders))
    ]
    if unknown:
        print(f"no contender begins with {unknown[0]}; there are {'; '.join(sorted(contenders))}", file=sys.stderr)
        return 2
    scale = Scale(
        quick=options.quick,
        full=options.full,
        rounds=options.rounds,
        sink=options.sink,
        contenders=tuple(options.contender),
        pyflink=options.pyflink,
    )
    report = Report(environment(), scale)
    if report.environment.is_busy:
        print(f"The machine is busy: load {report.environment.load}.", file=sys.stderr)
    print(report.head(), flush=True)
    try:
        # Before Spark starts, whose threads would share the core.
        for interpreter_workload in interpreted:
            report.add_interpreter(run_interpreter_workload(interpreter_workload, scale))
            _save(report, options.json)
        if on_spark or in_real_time:
            # The interpreter's workloads run without Spark and without Java.
            from benchmarks.latency.measurement import measure_latency
            from benchmarks.session import spark_session
            from benchmarks.spark_runs import Warm, run_spark_workload, warm_up

            with spark_session() as spark:
                warm_up(spark)
                warm: Warm = set()
                for spark_workload in on_spark:
                    report.add_spark(run_spark_workload(spark_workload, spark, scale, warm))
                    _save(report, options.json)
                if in_real_time:
                    report.add_section(measure_latency(spark, scale))
                    _save(report, options.json)
    except (WrongResultError, MeasurementError) as error:
        print(f"no figures: {error}", file=sys.stderr)
        return 1
    return 0


def _save(report: Report, file: Path | None) -> None:
    """Write what is there, so that a run that is stopped has not been for nothing."""
    if file is not None:
        report.write_json(file)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little input: does everything work?")
    parser.add_argument(
        "--full", action="store_true", help="the largest inputs of the interpreter and the slowest contenders as well"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="run the workloads whose names begin so: tumbling, sessions-1k, records, keys, interpreter, ... "
        "(repeatable)",
    )
    parser.add_argument(
        "--contender",
        action="append",
        default=[],
        metavar="NAME",
        help="run the contenders whose names begin so: native, windrow, hand-written, PyFlink (repeatable)",
    )
    parser.add_argument(
        "--pyflink",
        metavar="PYTHON",
        help="the Python of an environment that has apache-flink; without it PyFlink is left out",
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often each contender runs, in turn (default 1)")
    parser.add_argument(
        "--sink", choices=["parquet", "driver"], default="parquet", help="where results go (default parquet)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.pyflink is not None and shutil.which(options.pyflink) is None:
        parser.error(f"--pyflink: {options.pyflink} is not a program")
    if options.json is not None and not os.access(options.json.resolve().parent, os.W_OK):
        parser.error(f"cannot write {options.json}")
    return options


if __name__ == "__main__":
    sys.exit(main())
