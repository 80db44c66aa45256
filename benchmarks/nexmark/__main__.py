"""Runs a query of Nexmark over a folder of data: ``python -m benchmarks.nexmark --data DIR --query q5 --out DIR``.

With ``--measure`` it runs queries beside native Spark SQL and Flink SQL; ``--measure --help`` shows its options.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.nexmark.streams import Streams
from windrow import Pipeline

QUERIES: Final = tuple(f"q{number}" for number in range(23))


def query_of(name: str) -> Callable[[Streams, Path], Pipeline]:
    """The function that makes the pipeline of a query."""
    found: Callable[[Streams, Path], Pipeline] = importlib.import_module(f"benchmarks.nexmark.queries.{name}").query
    return found


def run(pipeline: Pipeline, engine: str) -> None:
    """Runs a pipeline until its sources are drained."""
    if engine == "local":
        from windrow_runtime.local import LocalRunner

        LocalRunner().run(pipeline)
        return
    from windrow_runtime.spark import SparkRunner

    SparkRunner().run(pipeline)


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--measure" in given:
        # Without it a query of the interpreter needs no Spark.
        from benchmarks.nexmark.measuring.command import measure

        given.remove("--measure")
        return measure(given)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the streams")
    parser.add_argument("--query", choices=QUERIES, required=True, help="the query")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the result")
    parser.add_argument("--engine", choices=("local", "spark"), default="local", help="where to run it")
    options = parser.parse_args(given)
    options.out.mkdir(parents=True, exist_ok=True)
    run(query_of(options.query)(Streams(options.data.resolve()), options.out.resolve()), options.engine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
