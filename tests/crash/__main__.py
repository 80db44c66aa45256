"""Kills a pipeline with SIGKILL at random moments, starts it again, and compares what it wrote in the end."""

from __future__ import annotations

import argparse
import math
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyarrow import csv

from tests.crash.batches import give_next, given, taken, write_taken
from tests.crash.elsewhere import SYSTEMS, Elsewhere, Here
from tests.crash.follower import Follower
from tests.crash.pipeline import (
    ELSEWHERE,
    MODES,
    PLANS,
    SPANS,
    TWO_SOURCES,
    Event,
    Pane,
    Span,
    Total,
    build,
    delta_table,
    iceberg_folder,
    write_input,
)
from tests.crash.starts import await_moment, end_of, kill, log_end, started
from tests.support.iceberg import table_in
from windrow import Pipeline, from_source
from windrow.panes import Change
from windrow.sinks import CollectSink
from windrow.sources import JsonFileSource, ParquetFileSource
from windrow_runtime.local import LocalRunner

_T = TypeVar("_T")
Record: TypeAlias = Total | Event | Span | Pane

_FILES_AHEAD = 24  # a file is a batch, and a start is killed long before it has done so many
_FILES_AT_END = 2  # for the start that is not killed
_BATCHES = 3.0  # seconds: so long after its first batch a start is killed at the latest
_STARTING = 8.0  # seconds: about what it takes to the first batch
_ONE_IN = 6  # kills comes while a start is only starting
_AT_FILES = 3  # every third of the other kills comes when a file appears
_PROGRESS = 0.75  # of the kills come after new batches at least; else they all hit the same one
_GIVEN = 0.5  # of the kills between batches are as if they came while Spark begins the next one
_LIMIT = 300.0  # seconds to the first batch at most


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=3, help="how often to kill (default 3)")
    parser.add_argument("--seed", type=int, default=1, help="chooses the moments (default 1)")
    parser.add_argument("--plan", choices=PLANS, default=PLANS[0], help="the pipeline (default %(default)s)")
    parser.add_argument("--on", choices=SYSTEMS, help="where all files are, instead of a folder of this machine")
    options = parser.parse_args()
    if options.on is not None and options.plan not in ELSEWHERE:
        parser.error(f"--on takes one of the plans {', '.join(ELSEWHERE)}")
    # Whoever ends this process ends the pipeline with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="windrow-crash-") as folder:
        chance = random.Random(options.seed)
        if options.on is None:
            return run(Path(folder), options.kills, chance, options.plan)
        with Elsewhere.opened(options.on, Path(folder).name) as elsewhere:
            return run(Path(folder), options.kills, chance, options.plan, elsewhere)


@dataclass(frozen=True)
class Moment:
    """The moment at which a start is killed: some seconds after its beginning, or after its first batch.

    Or ``at_file``: when a reader finds another file behind that batch, so that others of the batch are missing, or
    nobody has noted that it is done.
    """

    seconds: float
    after_batch: bool
    at_file: bool = False

    def __str__(self) -> str:
        if self.at_file:
            return "at a file behind its first batch"
        return f"{self.seconds:.2f} s after its {'first batch' if self.after_batch else 'beginning'}"


def run(folder: Path, kills: int, chance: random.Random, plan: str = PLANS[0], elsewhere: Here | None = None) -> int:
    """Run on Spark with kills, and a reader beside; then undisturbed in the interpreter.

    All files of the run are here, or elsewhere.

    Returns:
        0 if the outputs are equal, also as the reader took them, and no file of theirs changed, and the kills came
        where there was something to lose; else 1.
    """
    place = elsewhere or Here(str(folder))
    with Follower(place, folder / "followed") as follower:
        code = _run(folder, kills, chance, plan, place, follower)
    if code != 0:
        return code
    for fault in follower.faults:
        print(fault)
    for database in (folder / "out").glob("*.db"):
        shutil.copy(database, folder / "followed" / "out")
    if Path(delta_table(folder / "out")).exists():
        shutil.copytree(delta_table(folder / "out"), delta_table(folder / "followed" / "out"))
        # The catalog names the files of the table where they are.
        shutil.copytree(iceberg_folder(folder / "out"), iceberg_folder(folder / "followed" / "out"), dirs_exist_ok=True)
    differences = _differences(written(folder / "out", plan), written(folder / "followed" / "out", plan))
    print(f"a reader beside took {follower.files} files, in {follower.looks} looks")
    return 1 if follower.faults or differences else 0


def _run(folder: Path, kills: int, chance: random.Random, plan: str, place: Here, follower: Follower) -> int:
    moments = [
        Moment(chance.uniform(0, _BATCHES), after_batch=True, at_file=number % _AT_FILES == 0)
        for number in range(kills)
    ]
    for number in chance.sample(range(kills), kills // _ONE_IN):
        moments[number] = Moment(chance.uniform(0, _STARTING), after_batch=False)
    moved = 0
    for number, moment in enumerate(moments, 1):
        before = batches(folder)
        write_input(folder / "in", files=before + _FILES_AHEAD)
        code = attempt(folder, place, plan, moment, follower)
        if code != -signal.SIGKILL:
            print(f"start {number} ended with exit code {code} before it was killed, {moment}")
            print(log_end(folder))
            return 1
        done = batches(folder)
        moved += done > before
        within = f"within batch {done}" if batches(folder, "offsets") > done else "between batches"
        if done and within == "between batches" and chance.random() < _GIVEN:
            # A moment of some milliseconds that few kills find.
            place.put_log(folder, give_next(folder / "checkpoint" / "spark", 0, folder / "in"))
            within += ", the next file given"
        print(f"kill {number}, {moment}, {within}: {done} batches committed, {done - before} of them new", flush=True)
    # The last start needs not do all that lies ahead, but for what Spark has noted already.
    spark, sources = folder / "checkpoint" / "spark", range(2 if plan in TWO_SOURCES else 1)
    ahead = max((number for source in sources for number in given(spark, source)), default=-1) + 1
    for file in sorted((folder / "in").iterdir())[ahead + _FILES_AT_END :]:
        file.unlink()
        place.delete(f"in/{file.name}")
    code = attempt(folder, place, plan)
    if code != 0:
        print(f"the last start failed with exit code {code}")
        print(log_end(folder))
        return 1
    place.fetch(folder, "out")
    for source in sources:
        if sorted(chain(*taken(spark, source))) != sorted((folder / "in").iterdir()):
            print(f"not every file was taken once: {taken(spark, source)}")
            return 1
    # The same elements in the same batches, never killed.
    inputs = [folder / f"taken-{source}" for source in sources]
    several = write_taken(spark, inputs)
    LocalRunner().run(build(inputs[0], folder / "undisturbed", plan, other=inputs[-1]))
    expected, found = written(folder / "undisturbed", plan), written(folder / "out", plan)
    equal = not _differences(expected, found)
    verdict = "equal to" if equal else "different from"
    print(
        f"{kills} kills, {moved} of them after new batches, {batches(folder)} batches, {several} of several files: "
        f"{found.total()} records, {verdict} the undisturbed run's"
    )
    if moved < math.ceil(kills * _PROGRESS):
        print(f"too few kills came after new batches: expected {_PROGRESS:.0%} of them")
        return 1
    return 0 if equal else 1


def _differences(expected: Counter[tuple[str, Record]], found: Counter[tuple[str, Record]]) -> int:
    """Prints the rows that are not there as often as they should be; returns how many."""
    missing, unexpected = expected - found, found - expected
    for row in missing:
        print(f"missing: {row}")
    for row in unexpected:
        print(f"unexpected: {row}")
    return missing.total() + unexpected.total()


def attempt(
    folder: Path, place: Here, plan: str, moment: Moment | None = None, follower: Follower | None = None
) -> int:
    """Start the pipeline, and kill it with all its processes.

    Args:
        folder: Where its files are, or are copied to.
        place: Where it reads, writes and keeps its checkpoint.
        plan: Which one.
        moment: When to kill it; None: never.
        follower: The reader beside, whom some moments ask.

    Returns:
        The exit code; -9 if it was killed.

    Raises:
        TimeoutError: If it does no batch.
    """
    place.put(folder, "in")
    arguments = [f"{place.url}/{name}" for name in ("in", "out", "checkpoint")]
    before = batches(folder)

    def has_new_batch() -> bool:
        place.fetch(folder, "checkpoint/spark/commits")
        return batches(folder) != before

    try:
        with started(folder, "tests.crash.child", [*arguments, plan], place.submit_arguments) as child:
            if moment is not None and moment.after_batch:
                await_moment(child, folder, has_new_batch, "batch", _LIMIT)
                if moment.at_file and follower is not None:
                    if not follower.await_file(_LIMIT):
                        raise TimeoutError(f"no file in {_LIMIT:.0f} s\n{log_end(folder)}")
                    return kill(child)
            return end_of(child, None if moment is None else moment.seconds)
    finally:
        place.fetch(folder, *(f"checkpoint/spark/{name}" for name in ("commits", "offsets", "sources")))
        place.fetch(folder, "checkpoint/sources")


def batches(folder: Path, what: str = "commits") -> int:
    """How many batches Spark has noted as done; by their ``offsets``: as begun."""
    notes = (folder / "checkpoint" / "spark" / what).glob("*")
    return max((int(note.name) + 1 for note in notes if note.name.isdigit()), default=0)


def written(output: Path, plan: str = PLANS[0]) -> Counter[tuple[str, Record]]:
    """Everything that a pipeline has written, with where that was."""
    if plan == "columns":
        return _spans(output)
    if plan == "panes":
        return _panes(output)
    if plan in MODES:
        return _totals(output)
    if plan == "partitions":
        return _partitions(output)
    if plan == "interval":
        found = _rows(output, "pairs")
        found.update(("files of pairs", total) for total in _read(output / "pairs", Total))
        found.update(("files of late events", event) for event in _read(output / "late", Event))
        found.update(("files of seconds", total) for total in _read(output / "seconds", Total, JsonFileSource))
        return found
    if plan in {"patterns", "failing", "side_inputs"}:
        return _matches(output)
    if plan == "broadcast":
        found = _rows(output, "found")
        found.update(("files", total) for total in _read(output / "found", Total))
        return found
    sessions, seconds, late = CollectSink[Total](), CollectSink[Total](), CollectSink[Event]()
    all_parquet = plan == "parquet"
    kind = ParquetFileSource if all_parquet else JsonFileSource
    sinks = [
        from_source(kind(output / "sessions", Total)).sink_to(sessions),
        from_source(ParquetFileSource(output / "seconds", Total)).sink_to(seconds),
    ]
    if all_parquet:
        sinks.append(from_source(ParquetFileSource(output / "late", Event)).sink_to(late))
    result = LocalRunner().run(Pipeline("written", *sinks))
    found = Counter() if all_parquet else _rows(output, "sessions", "latest")
    if not all_parquet:
        rows = DeltaTable(delta_table(output)).to_pyarrow_table().to_pylist()
        found.update(("Delta table of sessions", Total(**row)) for row in rows)
        rows = table_in(iceberg_folder(output)).scan().to_arrow().to_pylist()
        found.update(("Iceberg table of sessions", Total(**row)) for row in rows)
    found.update(("files of sessions", total) for total in result.collected(sessions))
    found.update(("files of seconds", total) for total in result.collected(seconds))
    if all_parquet:
        found.update(("files of late events", event) for event in result.collected(late))
    return found


def _rows(output: Path, *tables: str) -> Counter[tuple[str, Record]]:
    """What is in the tables of the database."""
    found: Counter[tuple[str, Record]] = Counter()
    with closing(sqlite3.connect(output / "totals.db")) as connection:
        for table in tables:
            rows = connection.execute(f"SELECT kind, key, value FROM {table}")
            found.update((f"table {table}", Total(*row)) for row in rows)
    return found


def _totals(output: Path) -> Counter[tuple[str, Record]]:
    """The same for the plans with accumulation modes."""
    totals = {folder.name: CollectSink[Total]() for folder in output.iterdir()}
    sinks = [from_source(JsonFileSource(output / name, Total)).sink_to(sink) for name, sink in totals.items()]
    result = LocalRunner().run(Pipeline("written", *sinks))
    found: Counter[tuple[str, Record]] = Counter()
    for name, sink in totals.items():
        found.update((f"files of {name}", total) for total in result.collected(sink))
    return found


def _matches(output: Path) -> Counter[tuple[str, Record]]:
    """The same for the plans with patterns, with side inputs, and with functions that fail."""
    found: Counter[tuple[str, Record]] = Counter()
    for folder in sorted(output.iterdir()):
        kind: type[Total | Event] = Event if folder.name == "late" else Total
        found.update((f"files of {folder.name}", record) for record in _read(folder, kind))
    return found


def _partitions(output: Path) -> Counter[tuple[str, Record]]:
    """What readers of folders of values find, for the plan with partitions."""
    texts = pa.schema([("key", pa.string()), ("kind", pa.string()), ("at", pa.int64()), ("value", pa.int64())])
    folders = ds.partitioning(texts, flavor="hive")
    found: Counter[tuple[str, Record]] = Counter()
    # Where Spark writes files, lines are texts, and CSV has no header.
    column = ds.CsvFileFormat(read_options=csv.ReadOptions(column_names=["at"]))
    late = "csv" if any((output / "late").rglob("*.csv")) else column
    for name, form in (("seconds", "parquet"), ("sessions", "json"), ("late", late)):
        kind = Event if name == "late" else Total
        schema = pa.schema([texts.field(field.name) for field in fields(kind)])
        for row in ds.dataset(output / name, schema, form, partitioning=folders).to_table().to_pylist():
            found[f"files of {name}", kind(**row)] += 1
    return found


def _panes(output: Path) -> Counter[tuple[str, Record]]:
    """What the panes of each window come to, for the plan with panes on columns."""
    found: Counter[tuple[str, Record]] = Counter()
    for folder in sorted(output.iterdir()):
        mode = folder.name.split()[0]
        if mode == "late":
            events = _read(folder, Event)
            found.update((f"files of {folder.name}", event) for event in events)
            continue
        windows: dict[tuple[str | None, int], list[tuple[int, Pane]]] = {}
        for sign, pane in _signed(folder, is_log=mode == "retracting"):
            windows.setdefault((pane.key, pane.end), []).append((sign, pane))
        for (key, end), panes in windows.items():
            if mode == "accumulating":
                last = max((pane for _, pane in panes), key=lambda pane: pane.n)
            else:
                n = sum(sign * pane.n for sign, pane in panes)
                last = Pane(key, end, n, sum(sign * (pane.total or 0) for sign, pane in panes))
            found[f"windows of {folder.name}", last] += 1
    return found


def _signed(folder: Path, *, is_log: bool) -> Iterator[tuple[int, Pane]]:
    """The panes in a folder of files; -1 with those that a log withdraws, and 1 with others."""
    if is_log:
        for change in _read(folder, Change[Pane]):
            yield (-1 if change.kind.value.startswith("-") else 1), change.value
    else:
        for pane in _read(folder, Pane):
            yield 1, pane


def _read(
    folder: Path, element: type[_T], kind: type[ParquetFileSource[_T] | JsonFileSource[_T]] = ParquetFileSource
) -> Sequence[_T]:
    sink = CollectSink[_T]()
    pipeline = Pipeline("written", from_source(kind(folder, element)).sink_to(sink))
    return LocalRunner().run(pipeline).collected(sink)


def _spans(output: Path) -> Counter[tuple[str, Record]]:
    """The same for the plan on columns."""
    late, spans = CollectSink[Event](), {name: CollectSink[Span]() for name in SPANS}
    sinks = [from_source(ParquetFileSource(output / name, Span)).sink_to(sink) for name, sink in spans.items()]
    sinks.append(from_source(ParquetFileSource(output / "late", Event)).sink_to(late))
    result = LocalRunner().run(Pipeline("written", *sinks))
    found: Counter[tuple[str, Record]] = Counter()
    for name, sink in spans.items():
        found.update((f"files of {name}", span) for span in result.collected(sink))
    found.update(("files of late events", event) for event in result.collected(late))
    return found


if __name__ == "__main__":
    sys.exit(main())
