"""What batches collected and counted: how much is kept of it, and what is read of the files that others can write."""

from __future__ import annotations

import pickle
import struct
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from windrow.errors import CheckpointError, UnsupportedOperationError
from windrow.functions import Distribution
from windrow_runtime.metrics.step_metrics import StepMetrics
from windrow_spark.exchange.classes import state_codec
from windrow_spark.exchange.rows import dump_values
from windrow_spark.sinks.batch_reports import Results, SpooledResults
from windrow_spark.storage.packed import encode, packed
from windrow_spark.storage.values import StateCodec

STEP: Final = "p.1.window"
EXECUTED: Final[list[str]] = []
CODEC: Final = StateCodec()


class Unknown:
    """No plan names it."""


def spooled(folder: Path) -> SpooledResults:
    results = SpooledResults(folder / "results", CODEC)
    results.clear()
    return results


def memory(_: Path) -> Results:
    return Results()


KINDS: Final = pytest.mark.parametrize("make", [memory, spooled])


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def put(results: Results, batch: int, *values: object, late: int = 0) -> None:
    """A batch with one sink, number 3, that takes these values."""
    results.put(batch, {3: list(values)}, StepMetrics({STEP: {"late": late}} if late else {}), Counter())


@KINDS
def test_a_batch_that_is_run_again_replaces_its_own(make: Callable[[Path], Results], tmp_path: Path) -> None:
    results = make(tmp_path)
    put(results, 4, "a", late=1)
    put(results, 5, "b", late=10)
    put(results, 5, "c", date(2026, 11, 22), late=20)
    assert results.collected(3) == ["a", "c", date(2026, 11, 22)]
    assert results.collected(7) == []
    assert results.metrics().counters == {STEP: {"late": 21}}
    put(results, 5)
    assert results.collected(3) == ["a"]
    assert results.metrics().counters == {STEP: {"late": 1}}
    put(results, 6, "d")
    put(results, 6, "d", late=300)
    put(results, 7)
    counted = StepMetrics({STEP: {"late": 1000}, "p.2": {"seen": 2}})
    results.put(11, {3: ["e"], 4: [1, 2]}, counted, Counter({"p.3.sink": 4}))
    assert results.collected(3) == ["a", "d", "e"]
    assert results.collected(4) == [1, 2]
    assert results.metrics().counters == {STEP: {"late": 1301}, "p.2": {"seen": 2}}
    results.put(11, {3: ["e"], 4: [1, 2]}, counted, Counter({"p.3.sink": 5}))
    results.put(12, {}, StepMetrics(), Counter({"p.3.sink": 2}))
    assert results.written() == {"p.3.sink": 7}
    assert results.metrics().counters == {STEP: {"late": 1301}, "p.2": {"seen": 2}}


@KINDS
def test_gauges_have_the_newest_value_and_histograms_all_values(
    make: Callable[[Path], Results], tmp_path: Path
) -> None:
    results = make(tmp_path)

    def put_metrics(batch: int, gauge: float, *values: float) -> None:
        recorded = Distribution((1.0, 2.0))
        for value in values:
            recorded.record(value)
        results.put(batch, {}, StepMetrics({}, {STEP: {"size": gauge}}, {STEP: {"seconds": recorded}}), Counter())

    put_metrics(1, 9.0, 0.5, 1.5)
    put_metrics(2, 4.0, 7.0)
    put_metrics(2, 5.0, 8.0)  # the batch runs again
    put(results, 3, "a", late=1)
    metrics = results.metrics()
    assert metrics.gauges == {STEP: {"size": 5.0}}
    assert metrics.histograms == {STEP: {"seconds": Distribution((1.0, 2.0), [1, 1, 1], 10.0, 0.5, 8.0)}}
    assert metrics.counters == {STEP: {"late": 1}}


def test_what_is_kept_does_not_grow_with_batches_that_collect_nothing() -> None:
    results = Results()
    sizes = []
    for batch in range(1000):
        put(results, batch, late=1)
        sizes.append(len(pickle.dumps(results)))
    # A number may take some bytes more.
    assert sizes[-1] < sizes[1] + 10
    assert results.metrics().counters == {STEP: {"late": 1000}}


def test_files_are_as_many_as_batches_that_collected_something(tmp_path: Path) -> None:
    results = spooled(tmp_path)
    for batch in range(50):
        put(results, batch, *([batch] if batch in {7, 30} else []), late=1)
    assert [file.name for file in files(tmp_path)] == ["counts", "sink-3-batch-30", "sink-3-batch-7"]
    assert results.collected(3) == [7, 30]
    assert results.metrics().counters == {STEP: {"late": 50}}


def test_processes_of_the_server_may_take_turns(tmp_path: Path) -> None:
    results = spooled(tmp_path)
    data = pickle.dumps(results)
    for batch in (1, 2, 2, 3):
        put(pickle.loads(data), batch, batch, late=batch)
    assert results.collected(3) == [1, 2, 3]
    assert results.metrics().counters == {STEP: {"late": 6}}


def test_counts_of_numpy_are_counts(tmp_path: Path) -> None:
    results = spooled(tmp_path)
    counted: list[tuple[str, str, Any]] = [(STEP, "late", np.int64(5))]  # as a user may count
    results.put(0, {}, StepMetrics.of_workers(counted), Counter())
    assert results.metrics().counters == {STEP: {"late": 5}}


def test_a_run_that_was_broken_off_writes_nothing_into_the_next(tmp_path: Path) -> None:
    broken_off = spooled(tmp_path)
    results = spooled(tmp_path)
    with pytest.raises(CheckpointError, match="cannot be read or written"):
        put(broken_off, 3, "a", late=1)
    assert (results.collected(3), results.metrics().counters) == ([], {})


class Attack:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return EXECUTED.append, ("attack",)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Attack()),
        dump_values([Attack()]),
        encode(packed("P", pickle.dumps([Attack()]))),
        CODEC.dumps(["a"])[:-1],
        struct.pack("<iq", 3, -5),
        b"1",
        b"",
    ],
    ids=["a pickle", "a payload", "a pickle in a column", "cut off", "a length", "a byte", "nothing"],
)
@pytest.mark.parametrize("name", ["sink-3-batch-1", "sink-3-batch-9", "counts"])
def test_a_file_of_somebody_else_runs_nothing(name: str, data: bytes, tmp_path: Path) -> None:
    results = spooled(tmp_path)
    put(results, 1, "a", late=1)
    (folder,) = {file.parent for file in files(tmp_path)}
    (folder / name).write_bytes(data)
    EXECUTED.clear()
    with pytest.raises(CheckpointError, match=r"damaged|names a class") as caught:
        # As PipelineResult is made.
        results.collected(3), results.metrics().counters
    assert caught.value.where == str(folder / name)
    assert not EXECUTED


def test_a_collected_value_of_an_unknown_class_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOperationError, match="the plan does not name"):
        put(spooled(tmp_path), 1, Counter, Unknown())
    allowing = SpooledResults(tmp_path / "results", state_codec((), allow_pickled=True))
    allowing.clear()
    put(allowing, 1, Unknown())
    assert list(map(type, allowing.collected(3))) == [Unknown]


def test_half_a_file_of_a_process_that_died_is_not_read(tmp_path: Path) -> None:
    results = spooled(tmp_path)
    put(results, 1, "a", late=1)
    for file in files(tmp_path):
        file.with_name(f"_{file.name}").write_bytes(file.read_bytes()[:-3])
    assert (results.collected(3), results.metrics().counters) == (["a"], {STEP: {"late": 1}})


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    results = spooled(tmp_path)
    put(results, 1, "a", late=1)
    (tmp_path / "results").rename(tmp_path / "elsewhere")
    for read in (lambda: results.collected(3), results.metrics):
        with pytest.raises(CheckpointError, match="cannot be read or written"):
            read()
