"""Starts PyFlink in a process and a Python of its own, and takes its results."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.check import Outcome
from benchmarks.data import ROOT, Dataset
from benchmarks.errors import MeasurementError
from benchmarks.measure import Timing
from benchmarks.memory import PeakMemory, tree_mib
from benchmarks.problems import Problem

__all__ = ["PyFlinkRun", "run_program", "run_pyflink"]

# Any in this module: Arrow tables; pyarrow ships no types.

_SCRIPT = Path(__file__).with_name("pyflink_windows.py")
_TIMEOUT_SECONDS = 1_800
_INTERVAL_SECONDS = 0.5
_WARM_UP_SHARE = 10  # a tenth of the input

_COLUMNS: Mapping[Problem, tuple[str, ...]] = {
    "tumbling": ("sensor", "window_end", "mean"),
    "sliding": ("sensor", "window_end", "mean"),
    "sessions": ("sensor", "first_at", "window_end", "n", "mean"),
    "lateness": ("sensor", "window_end", "n", "mean"),
    "count": ("sensor", "first_at", "n", "mean"),
    "top": ("sensor", "window_end", "top"),
    "chained": ("sensor", "window_end", "peak"),
}
_TYPES: Mapping[str, Any] = {"sensor": pa.string(), "mean": pa.float64(), "peak": pa.float64(), "top": pa.string()}


@dataclass(frozen=True, slots=True)
class PyFlinkRun:
    """What PyFlink gave.

    Attributes:
        outcome: The results.
        timing: The time of its last job, the start of the job included.
        start_seconds: The time of a job over one reading: what the start and the end of a job take.
        memory: The peak of its processes, as that of a driver: thread mode has no workers. None without /proc.
        version: Of Flink and of its Python.
    """

    outcome: Outcome
    timing: Timing
    start_seconds: float
    memory: PeakMemory | None
    version: str


def run_pyflink(problem: Problem, dataset: Dataset, python: str) -> PyFlinkRun:
    """Run the problem over the same readings, as text.

    Args:
        problem: The problem.
        dataset: The input.
        python: The Python of an environment that has apache-flink.

    Raises:
        MeasurementError: If the program failed.
    """
    texts = _as_text(dataset)
    with tempfile.TemporaryDirectory(prefix="windrow-bench-") as scratch:
        results, late = Path(scratch, "results"), Path(scratch, "late")
        command = [python, str(_SCRIPT), problem, *map(str, texts), str(results), str(late)]
        output, peak = run_program(command, Path(scratch))
        figures = json.loads(output.splitlines()[-1])
        outcome = Outcome(_table(problem, results), _lines(late).count(b"\n") if problem == "lateness" else None)
    return PyFlinkRun(
        outcome,
        Timing(None, (figures["seconds"],), dataset.spec.rows),
        figures["start_seconds"],
        PeakMemory(peak, 0, 0) if peak else None,
        f"PyFlink {figures['flink']}, Python {figures['python']}",
    )


def _as_text(dataset: Dataset) -> tuple[Path, Path, Path]:
    """The readings as one file of text, in order of arrival, the first of them, and the very first; made once."""
    folder = ROOT / "text"
    folder.mkdir(parents=True, exist_ok=True)
    whole, begin, one = (folder / f"{dataset.spec.name}{end}.csv" for end in ("", "-begin", "-one"))
    newest = (dataset.path / "_complete.json").stat().st_mtime
    if not (one.exists() and one.stat().st_mtime > newest):
        batches = range(dataset.spec.batches + 1)
        table = pa.concat_tables([part for batch in batches for part in dataset.tables(batch)])
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
        pyarrow.csv.write_csv(table, whole, options)
        pyarrow.csv.write_csv(table.slice(0, len(table) // _WARM_UP_SHARE), begin, options)
        pyarrow.csv.write_csv(table.slice(0, 1), one, options)
    return whole, begin, one


def run_program(command: list[str], scratch: Path) -> tuple[str, float]:
    """Run a program of Flink's Python, without this Python's settings; what it logs goes into the folder.

    Returns:
        The output of the program, and the peak of its memory in MiB.

    Raises:
        MeasurementError: If the program failed.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    log = scratch / "log"
    peak = 0.0
    ended = threading.Event()

    def sample() -> None:
        nonlocal peak
        while not ended.wait(_INTERVAL_SECONDS):
            peak = max(peak, tree_mib(process.pid))

    with (
        log.open("wb") as errors,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            output, _ = process.communicate(timeout=_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise MeasurementError(f"PyFlink took more than {_TIMEOUT_SECONDS} seconds") from None
        finally:
            ended.set()
            sampler.join()
    if process.returncode or not output.strip():
        lines = log.read_text(errors="replace").splitlines()
        causes = [line for line in lines if "Error" in line or line.startswith("Caused by")]
        raise MeasurementError(f"PyFlink ended with {process.returncode}: {'; '.join((causes or lines)[-3:])}")
    return output, peak


def _lines(folder: Path) -> bytes:
    # Without checkpoints files may keep the names of unfinished ones: all of the folder is read.
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.endswith(".crc")]
    return b"".join([file.read_bytes() for file in files])


def _table(problem: Problem, folder: Path) -> Any:
    names = _COLUMNS[problem]
    table = pyarrow.csv.read_csv(
        io.BytesIO(_lines(folder)),
        read_options=pyarrow.csv.ReadOptions(column_names=names),
        convert_options=pyarrow.csv.ConvertOptions(column_types={name: _TYPES.get(name, pa.int64()) for name in names}),
    )
    if "top" not in names:
        return table
    values = pc.split_pattern(table["top"], " ").cast(pa.list_(pa.float64()))
    return table.set_column(table.column_names.index("top"), "top", values)
