"""Kills a pipeline while rows of PostgreSQL are staged, moved or dropped: ``python -m tests.crash.staged``.

The stream is killed some times, and ends undisturbed. Each row has to be in the table once, and no staged one is left.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg

from tests.crash.starts import await_moment, end_of, log_end, started
from tests.outputs.postgres import PASSWORD, running_server
from tests.support.files import put
from windrow import Pipeline, from_source
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import DatabaseSink
from windrow.sources import JsonFileSource
from windrow.state import ReducingStateDescriptor
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_spark.run_limits import USUAL_LIMITS
from windrow_sql.database.output import LIMITS
from windrow_sql.database.spark_writer import DatabaseSparkWriter

# Any: rows as the driver gives them.

_FILES = 30  # a batch each, more than all starts together take
_ROWS = 2_000
_DELAY = 0.5  # seconds at most from the table of a batch to the kill: about what staging and moving take
_SECONDS = 300.0


class Read(NamedTuple):
    key: str
    number: int


class RunningTotal(KeyedProcessFunction[str, Read, Read]):
    """Says the sum of a key's numbers at each of them."""

    _SUM = ReducingStateDescriptor("sum", lambda a, b: a + b)

    def process_element(self, value: Read, context: KeyedProcessContext[str]) -> Sequence[Read]:
        total = context.get_state(self._SUM)
        total.add(value.number)
        return [Read(value.key, total.get() or 0)]


def build(folder: Path, url: str, prefix: str) -> Pipeline:
    reads = from_source(JsonFileSource(folder / "in", Read, files_per_batch=1))
    totals = reads.key_by(lambda read: read.key).process(RunningTotal())
    return Pipeline(
        "staged",
        reads.sink_to(DatabaseSink(url, f"{prefix}_reads")),
        totals.sink_to(DatabaseSink(url, f"{prefix}_totals", key="key")),
        totals.sink_to(DatabaseSink(url, f"{prefix}_every")),
    )


class ImpatientRunner(SparkRunner):
    """A runner that soon takes over what a process has left that was killed."""

    _limits = replace(USUAL_LIMITS, lease_seconds=4)


def child(folder: Path, url: str) -> None:
    """What the process that is killed does."""
    DatabaseSparkWriter.limits = replace(LIMITS, sent_elements=10, part_bytes=4_000)
    ImpatientRunner(checkpoint=folder / "checkpoint").run(build(folder, url, "stream"))


def run(socket: Path, folder: Path, kills: int, chance: random.Random) -> int:
    """Run a stream whose process is killed several times.

    Returns:
        How many kills came while there was a table of a batch; -1 if rows are missing, wrong or there twice.
    """
    url = f"postgresql://windrow:{quote(PASSWORD, safe='')}@/postgres?host={socket}"
    for number in range(_FILES):
        reads = [Read(f"k{chance.randrange(40)}", chance.randrange(100)) for _ in range(_ROWS)]
        put(folder / "in", f"{number:02}", reads, second=number)
    within = 0
    with psycopg.connect(url, autocommit=True) as connection:

        def found(query: str) -> list[Any]:
            return connection.execute(query).fetchall()

        def staged() -> set[str]:
            return {name for (name,) in found("SELECT relname FROM pg_class WHERE relname LIKE 'windrow\\_staged%'")}

        def has_more(left: set[str]) -> bool:
            return bool(staged() - left)

        for number in range(1, kills + 1):
            left, seconds = staged(), chance.uniform(0, _DELAY)
            with started(folder, "tests.crash.staged", ["--child", str(folder), url]) as process:
                await_moment(process, folder, partial(has_more, left), "table of a batch", _SECONDS)
                code = end_of(process, seconds)
            if code != -signal.SIGKILL:
                print(f"a start ended with exit code {code} before it was killed\n{log_end(folder)}")
                return -1
            within += bool(staged())
            print(f"kill {number}, {seconds:.2f} s after a table was made; left: {len(staged())}", flush=True)
        with started(folder, "tests.crash.staged", ["--child", str(folder), url]) as process:
            code = end_of(process, _SECONDS)
        if code != 0:
            print(f"the last start failed with exit code {code}\n{log_end(folder)}")
            return -1
        LocalRunner().run(build(folder, url, "local"))
        for table in ("reads", "totals", "every"):
            rows, expected = (sorted(found(f"TABLE {name}_{table}")) for name in ("stream", "local"))
            print(f"{table}: {len(rows)} rows, expected {len(expected)}", flush=True)
            if rows != expected:
                return -1
        if staged():
            print(f"left: {staged()}")
            return -1
    return within


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.staged", description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="how often to kill (default 10)")
    parser.add_argument("--seed", type=int, default=1, help="chooses the moments (default 1)")
    options = parser.parse_args()
    with running_server() as socket, tempfile.TemporaryDirectory(prefix="windrow-staged-") as folder:
        return 0 if run(socket, Path(folder), options.kills, random.Random(options.seed)) > 0 else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main())
