"""Files of a checkpoint that somebody rewrote: a run reads what was written, or refuses the checkpoint."""

from __future__ import annotations

import json
import random
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.spark.checkpoints.archives import KEPT, archives, unpack
from windrow.errors import CheckpointError, IncompatibleStateError, WindrowError
from windrow_runtime.metrics.reports import PipelineProgress, StepProgress
from windrow_runtime.metrics.step_metrics import StepMetrics
from windrow_runtime.operators.topology import Topology
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_file import StoredFile
from windrow_spark.checkpoint.stored_plan import Parallelism, StoredPlan, resume
from windrow_spark.clock import BatchClock, ClockFiles, TrackerNote
from windrow_spark.clock_keeper import ClockKeeper
from windrow_spark.exchange.facts import OPEN_WINDOWS
from windrow_spark.lowering import physical_plan, time_of
from windrow_spark.progress import ProgressKeeper, WatchedStep
from windrow_spark.sinks.batch_reports import SpooledResults
from windrow_spark.storage.values import StateCodec

PAGED = next(archive for archive in archives() if archive.name.startswith("paged-"))
# How many batches the clock makes differs from one run to the next.
with tarfile.open(PAGED) as files:
    NEWEST = max(int(Path(name).name) for name in files.getnames() if name.startswith("spark/offsets/"))
WATCHED = WatchedStep("step", "window", has_windows=True, has_timers=True)

# Any in this module: what JSON holds.
VALUES: list[Any] = [None, True, -1, 0, 3, 2**63, -(10**30), 0.5, float("inf"), float("nan"), "", "x", [], {}, [[]]]
TEXTS = ["", "null", "NaN", "1e999", "9" * 5_000, "[" * 100_000, '{"a":' * 100_000, "{", "v1", "\x00", "²", "\ud800"]


@pytest.fixture(scope="module")
def topology(tmp_path_factory: pytest.TempPathFactory) -> Topology:
    plan, _ = KEPT["paged"].whole(tmp_path_factory.mktemp("plan"), "")
    return Topology(plan.steps)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint of a plan whose time windrow keeps, with all that a run writes beside Spark's files."""
    unpack(PAGED, tmp_path)
    checkpoint = Checkpoint.at(tmp_path)
    checkpoint.newest_batch.note(NEWEST)
    checkpoint.progress_file.unlink()  # which is of the plan's own steps
    held(checkpoint, 0, 5)
    for batch in range(1, NEWEST + 1):
        held(checkpoint, batch, 0)
    return tmp_path


def held(checkpoint: Checkpoint, batch: int, windows: int) -> PipelineProgress:
    """The report on a batch that opened some windows, which notes what the state holds."""
    keeper = ProgressKeeper([WATCHED], checkpoint.progress_file)
    return keeper.end_batch(batch, [("step", OPEN_WINDOWS, windows)], ended=False, parts={})


Batches = tuple[str, list[BatchClock]]


def read(folder: Path, topology: Topology) -> tuple[StoredPlan, Batches]:
    """What a run reads before it starts Spark's query, and the driver behind the newest batch."""
    plan = physical_plan(topology)
    stored = resume(Checkpoint.at(folder), plan, time_of(plan, own_clock=False), Parallelism(None, None, 1))
    return stored, read_batches(folder, topology, plan.state_ids)


def read_batches(folder: Path, topology: Topology, state_ids: Mapping[str, str]) -> Batches:
    """The same without the plan."""
    checkpoint = Checkpoint.at(folder)
    checkpoint.check_whole(len(topology.sources), stateful=bool(topology.keyed))
    checkpoint.clear_leftovers()
    clock = ClockFiles(checkpoint.clock_folder, state_ids)
    times = [clock.read(batch) for batch in range(NEWEST - 2, NEWEST + 1)]
    clock.file(NEWEST + 1).path.unlink(missing_ok=True)
    ClockKeeper(clock, topology, None, StateCodec()).end_batch(NEWEST, [], ended=True)
    return checkpoint.query_id(), [*times, clock.read(NEWEST + 1)]


def refused(reading: Callable[[], object], expected: object) -> WindrowError | None:
    """The error of somebody who reads a file; None: what was read is what is expected."""
    try:
        found = reading()
    except (CheckpointError, IncompatibleStateError) as error:
        return error
    assert found == expected
    return None


def rewritten(content: str, chance: random.Random) -> str:
    """The text of a file, changed in one place: a value of its JSON, or anything."""
    if chance.random() < 0.5:
        first, last = sorted(chance.choices(range(len(content) + 1), k=2))
        return content[:first] + chance.choice(TEXTS) + content[chance.choice([first, last]) :]
    lines = content.splitlines()
    # Spark writes a JSON text into each line behind the first one, windrow one text behind it.
    number = chance.randrange(len(lines)) if lines[0] == "v1" else 1
    ours = lines[0].startswith("windrow")
    try:
        value = json.loads("\n".join(lines[1:]) if ours else lines[number])
    except (ValueError, IndexError):
        return content.replace(lines[0], chance.choice(TEXTS))
    changed = json.dumps(_changed(value, chance))
    return "\n".join([*lines[:number], changed, *([] if ours else lines[number + 1 :])])


def _changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, (dict, list)) and value and chance.random() < 0.9:
        copy: Any = value.copy()
        place = chance.choice(list(copy) if isinstance(copy, dict) else range(len(copy)))
        if chance.random() < 0.2:
            del copy[place]
        else:
            copy[place] = _changed(copy[place], chance)
        return copy
    return chance.choice(VALUES)


@pytest.mark.parametrize(
    "pattern", ["plan", "clock/*", "newest-batch", f"spark/offsets/{NEWEST}", "spark/sources/*/*", "spark/metadata"]
)
def test_a_rewritten_file_is_refused_or_read_as_it_was(
    folder: Path, topology: Topology, tmp_path_factory: pytest.TempPathFactory, pattern: str
) -> None:
    state_ids = physical_plan(topology).state_ids

    def reading() -> object:
        return read(folder, topology) if pattern == "plan" else read_batches(folder, topology, state_ids)

    expected = reading()
    chance, found = random.Random(pattern), Counter[str]()
    for file in sorted(folder.glob(pattern)):
        whole = file.read_bytes()
        for _ in range(40):
            content = rewritten(whole.decode(), chance)
            file.write_bytes(content.encode(errors="surrogatepass"))
            error = refused(reading, expected)
            found["read" if error is None else "refused"] += 1
            assert error is None or (error.where and error.hint)
            file.write_bytes(whole)
    # Of these two files Spark itself reads the most.
    assert found["refused"] > (0 if pattern in {"spark/metadata", f"spark/offsets/{NEWEST}"} else 10)


def test_rewritten_statistics_stop_no_run(folder: Path) -> None:
    checkpoint, chance = Checkpoint.at(folder), random.Random(1)
    file = checkpoint.progress_file
    assert held(checkpoint, NEWEST + 1, 2).steps["step"].open_windows == 7
    whole = file.read_bytes()
    for _ in range(100):
        Path(file).write_bytes(rewritten(whole.decode(), chance).encode(errors="surrogatepass"))
        assert checkpoint.description() is not None
        assert held(checkpoint, NEWEST + 1, 2).steps["step"].open_windows in {7, None}


@pytest.mark.parametrize("lost", [["newest-batch"], ["newest-batch", "progress"], ["newest-batch", "clock"]])
def test_what_is_left_tells_that_batches_have_run(folder: Path, topology: Topology, lost: list[str]) -> None:
    for name in ("spark", *lost):
        part = folder / name
        shutil.rmtree(part) if part.is_dir() else part.unlink()
    with pytest.raises(CheckpointError, match="it is gone, and batches have run") as caught:
        read(folder, topology)
    assert (folder / "spark/offsets") in Path(str(caught.value.where)).parents


def test_a_file_of_another_batch_is_refused(folder: Path, topology: Topology) -> None:
    shutil.copy(folder / f"clock/{NEWEST - 1}", folder / f"clock/{NEWEST}")
    with pytest.raises(CheckpointError, match="the file was changed"):
        read(folder, topology)


@pytest.mark.parametrize("time", [2**63, -(2**63) - 1, 10**30, 1.5, "1", True])
@pytest.mark.parametrize(
    "clock",
    [
        lambda time: BatchClock(watermarks={"step": time}),
        lambda time: BatchClock(previous={"step": time}),
        lambda time: BatchClock(now=time),
        lambda time: BatchClock(trackers={"step": (time, False, None, "")}),
        lambda time: BatchClock(trackers={"step": (0, False, time, "")}),
    ],
    ids=["watermark", "previous", "now", "tracker", "last active"],
)
def test_a_time_beyond_64_bits_is_refused(tmp_path: Path, clock: Callable[[Any], BatchClock], time: Any) -> None:
    files = ClockFiles(tmp_path)
    files.write(1, clock(time))
    with pytest.raises(CheckpointError, match="damaged") as caught:
        files.read(1)
    assert caught.value.where == str(tmp_path / "1")


@pytest.mark.parametrize("time", [-(2**63), 2**63 - 1])
def test_the_first_and_the_last_time_are_read(tmp_path: Path, time: int) -> None:
    files, tracker = ClockFiles(tmp_path), (time, True, time, "")
    note: TrackerNote = tracker
    clock = BatchClock({"step": time}, {"step": time}, now=time, ended=True, trackers={"step": note})
    files.write(1, clock)
    assert files.read(1) == clock


def test_rewritten_counts_and_reports_of_connect_are_refused(tmp_path: Path) -> None:
    results = SpooledResults(tmp_path, StateCodec())
    results.clear()
    report = PipelineProgress(3, 120, 1_000, False, {"a": StepProgress(records_in=1, watermark=-5, lag_ms=7)})
    results.report(report)
    results.put(3, {}, StepMetrics({"a": {"late": 2**70}}), Counter())
    assert results.latest_report() == report
    assert results.metrics().counters == {"a": {"late": 2**70}}
    (folder,) = tmp_path.iterdir()
    chance = random.Random(2)
    for name, reading in (("report-3", results.latest_report), ("counts", results.metrics)):
        whole, expected = (folder / name).read_bytes(), reading()
        found = []
        for _ in range(100):
            (folder / name).write_bytes(rewritten(whole.decode(), chance).encode(errors="surrogatepass"))
            error = refused(reading, expected)
            assert error is None or error.where == str(folder / name)
            found.append(error)
        assert found.count(None) < 20


def test_what_json_cannot_hold_is_not_written(tmp_path: Path) -> None:
    file = StoredFile(tmp_path / "a", dict[str, float])
    with pytest.raises(ValueError, match="Out of range float"):
        file.write({"a": float("nan")})
    assert file.read() is None


def test_the_number_of_a_batch_is_read_as_it_was_written(tmp_path: Path) -> None:
    note = Checkpoint.at(tmp_path).newest_batch
    assert note.batch() == -1
    note.note(7)
    note.note(3)
    assert note.batch() == 7
    for content in ("9" * 5_000, "²", "-1", "1 2", "", "7", Path(note.path).read_text().replace("7", "8")):
        Path(note.path).write_text(content)
        with pytest.raises(CheckpointError, match="the file was changed"):
            note.batch()
