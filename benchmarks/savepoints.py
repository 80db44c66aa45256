"""Times a savepoint and what begins from it: ``python -m benchmarks.savepoints``.

Each key keeps 200 bytes that do not compress: in a window on columns, and as the state of a process function. A run
that has read them stops, a savepoint is taken, and a run with another number of partitions begins from it, of the same
plan and of one with an aggregate or a step more. The seconds of a restore go up to the end of its first batch.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.errors import MeasurementError
from benchmarks.memory import ResidentPeak
from windrow import KeyedStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import ParquetFileSink
from windrow.sources import ParquetFileSource
from windrow.state import ValueStateDescriptor
from windrow.windows import TumblingEventTimeWindows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["main", "measure"]

_BYTES: Final = 200
_ROWS_OF_BATCH: Final = 250_000
_FILES_OF_BATCH: Final = 2
_START: Final = 1_700_000_000_000
_PARTITIONS: Final = (2, 3)
"""The partitions of the run before the savepoint, and of the runs after it."""


class Note(NamedTuple):
    """An element."""

    key: str
    note: bytes
    at: int


class Kept(NamedTuple):
    """What a window has kept."""

    key: str
    note: bytes | None


class Counted(NamedTuple):
    """What a window has kept, in the plan with one aggregate more."""

    key: str
    note: bytes | None
    notes: int


NOTE: Final = ValueStateDescriptor("note", bytes)


class LastNote(KeyedProcessFunction[str, Note, Kept]):
    """Keeps the last note of each key, and emits those of keys that are asked for by an empty one."""

    def process_element(self, value: Note, context: KeyedProcessContext[str]) -> Iterable[Kept]:
        state = context.get_state(NOTE)
        if value.note:
            state.update(value.note)
            return ()
        return (Kept(value.key, state.value()),)


def _by_key(folder: Path) -> KeyedStream[Note, str]:
    notes = from_source(ParquetFileSource(str(folder), Note, files_per_batch=_FILES_OF_BATCH))
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1))
    return notes.assign_timestamps_and_watermarks(strategy, lambda note: note.at).key_by(lambda note: note.key)


def columns(folder: Path, out: Path, *, grown: bool) -> Pipeline:
    """A window of a day for each key, on columns; grown: with one aggregate more."""
    windows = _by_key(folder).window(TumblingEventTimeWindows.of(timedelta(days=1)))
    sink = ParquetFileSink[object](str(out))
    if grown:
        counted = windows.aggregate(
            agg.into(Counted, key=agg.key(), note=agg.last(lambda note: note.note), notes=agg.count()), name="kept"
        )
        return Pipeline("columns", counted.sink_to(sink))
    kept = windows.aggregate(agg.into(Kept, key=agg.key(), note=agg.last(lambda note: note.note)), name="kept")
    return Pipeline("columns", kept.sink_to(sink))


def objects(folder: Path, out: Path, *, grown: bool) -> Pipeline:
    """The state of a process function for each key; grown: with one step more."""
    by_key = _by_key(folder)
    sinks = [by_key.process(LastNote(), name="kept").sink_to(ParquetFileSink[object](str(out)))]
    if grown:
        sinks.append(by_key.process(LastNote(), name="more").sink_to(ParquetFileSink[object](f"{out}-more")))
    return Pipeline("objects", *sinks)


_PLANS: Final[dict[str, Callable[..., Pipeline]]] = {"columns": columns, "objects": objects}


class _Figures(NamedTuple):
    seconds: float
    workers_mib: float  # of all Python workers and their daemon together
    worker_mib: float  # of the largest one


def measure(spark: SparkSession, folder: Path, name: str, keys: int) -> None:
    """Prints the figures of one form of state."""
    from windrow_runtime.savepoint import take
    from windrow_runtime.spark import SparkRunner

    plan, source = _PLANS[name], folder / "in"
    source.mkdir(parents=True)
    batches = _write(source, keys)
    before, after = _PARTITIONS
    pipeline = plan(source, folder / "out", grown=False)
    running = SparkRunner(spark, checkpoint=folder / "old", partitions=before).start(pipeline)
    running.process_available()
    running.stop()

    saved = folder / "saved"
    figures = {"savepoint": _timed(lambda: take(folder / "old", pipeline, saved, spark=spark))}
    size = sum(file.stat().st_size for file in saved.rglob("*.parquet")) / 2**20
    for what, grown in (("restore", False), ("restore of a grown plan", True)):
        _write_batch(source, batches, range(0, keys, max(1, keys // 500)), text=False)
        batches += 1
        next_plan = plan(source, folder / f"out-{what}", grown=grown)
        runner = SparkRunner(spark, checkpoint=folder / what, savepoint=saved, partitions=after)

        def first_batch(runner: SparkRunner = runner, next_plan: Pipeline = next_plan) -> None:
            running = runner.start(next_plan)
            running.process_available()
            running.stop()

        figures[what] = _timed(first_batch)
    if name == "objects":
        _check(folder / "out-restore", keys)
    for what, (seconds, workers, worker) in figures.items():
        memory = f"workers at most {workers:,.0f} MiB, the largest one {worker:,.0f}"
        print(f"{name}: {keys:,} keys: {what}: {seconds:.1f} s, {memory}", flush=True)
    print(f"{name}: the savepoint has {size:,.0f} MiB, load {os.getloadavg()[0]:.1f}", flush=True)


def _timed(run: Callable[[], object]) -> _Figures:
    began = time.perf_counter()
    with ResidentPeak() as memory:
        run()
    return _Figures(time.perf_counter() - began, memory.peak.workers, memory.peak.worker)


def _write(folder: Path, keys: int) -> int:
    """Writes a note of each key; returns the number of batches."""
    starts = range(0, keys, _ROWS_OF_BATCH)
    for batch, start in enumerate(starts):
        _write_batch(folder, batch, range(start, min(keys, start + _ROWS_OF_BATCH)), text=True)
    return len(starts)


def _write_batch(folder: Path, batch: int, numbers: Sequence[int], *, text: bool) -> None:
    drawn = np.random.default_rng(batch)
    for part in range(_FILES_OF_BATCH):
        mine = numbers[part::_FILES_OF_BATCH]
        notes = [drawn.bytes(_BYTES) if text else b"" for _ in mine]
        table = {
            "key": [f"key-{number:08d}" for number in mine],
            "note": pa.array(notes, pa.binary()),
            "at": [_START + batch * 1_000] * len(mine),
        }
        file = folder / f"{batch:04}-{part}.parquet"
        pq.write_table(pa.table(table), file)
        os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))


def _check(out: Path, keys: int) -> None:
    """Checks that the keys that were asked for had their notes."""
    import pyarrow.dataset as ds

    files = [str(file) for file in out.rglob("*.parquet") if "_windrow" not in file.parts]
    notes = ds.dataset(files).to_table()["note"].to_pylist()
    if len(notes) != len(range(0, keys, max(1, keys // 500))) or any(len(note or b"") != _BYTES for note in notes):
        raise MeasurementError(f"of the keys that were asked for, {len(notes)} answered, and not all with their note")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.savepoints", description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--only", choices=sorted(_PLANS), action="append", help="a form of state (repeatable)")
    options = parser.parse_args(arguments)
    from benchmarks.session import spark_session

    with tempfile.TemporaryDirectory(prefix="windrow-savepoints-") as name, spark_session() as spark:
        for form in options.only or sorted(_PLANS):
            measure(spark, Path(name, form), form, options.keys)
    return 0


if __name__ == "__main__":
    sys.exit(main())
