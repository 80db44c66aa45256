"""Tables of figures. The figures here are made up, so that ratios are plain to see."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import table
from benchmarks.environment import Environment
from benchmarks.latency import measurement
from benchmarks.measure import Timing
from benchmarks.report import Report
from benchmarks.results import InputResult, Run, SparkWorkloadResult
from benchmarks.run import main
from benchmarks.scale import Scale
from benchmarks.workloads import DECLARED, GENERAL, NATIVE, PYFLINK, SPARK_WORKLOADS, TUNED

ROOT = Path(__file__).parents[2]
FLINK = f"{PYFLINK}: 3,000 rows of text"
WORKLOADS = {workload.name: workload for workload in SPARK_WORKLOADS}


def run(contender: str, seconds: float, rows: int = 1_000, version: str | None = None) -> Run:
    """Two steady batches."""
    first = None if contender == PYFLINK else 3.0
    return Run(contender, 3 * rows, [Timing(first, (seconds, seconds), rows)], [None], [0.0], version)


def report() -> Report:
    where = Environment("2026-01-02T03:04:05+00:00", 2, 0.1, "a processor", "3.11.0", {"pyspark": "4.3.0"}, "r")
    return Report(where, Scale(quick=False, full=False, rounds=1, sink="parquet"))


def result(name: str, *inputs: list[Run], late: int | None = None) -> SparkWorkloadResult:
    sizes = [InputResult(10**power, 1_000, 3, 7, late, runs) for power, runs in enumerate(inputs)]
    return SparkWorkloadResult(WORKLOADS[name], sizes)


def test_a_table_has_ratios_to_those_that_ran(capsys: pytest.CaptureFixture[str]) -> None:
    flink = replace(run(PYFLINK, 10.0, version="PyFlink 2.3.0"), conditions="3,000 rows of text")
    runs = [run(NATIVE, 4.0), run(TUNED, 0.5), run(DECLARED, 1.0), flink]
    report().add_spark(result("lateness-1k", runs, late=4))
    text = capsys.readouterr().out
    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}
    assert "7 windows; 4 readings too late, equal in all contenders" in text
    header = [cell.strip() for cell in rows["contender"].split("|")]
    cells = dict(zip(header, [cell.strip() for cell in rows[DECLARED].split("|")], strict=True))
    assert (cells["rows/s"], cells["x tuned"], cells["x PyFlink"]) == ("1,000", "0.50", "10")
    assert "x folding" not in header
    assert "x native" not in text
    assert f"{PYFLINK}: PyFlink 2.3.0; 3,000 rows of text" in text


def test_who_took_fewer_batches_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    few = replace(run(GENERAL, 0.5), rows=2_000)
    report().add_spark(result("lateness-1k", [run(NATIVE, 0.5), few]))
    text = capsys.readouterr().out
    assert f"{GENERAL}: the same batches, but only 2 of them" in text
    assert f"{NATIVE}: the same batches" not in text


def test_a_series_has_the_cost_of_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    report().add_spark(result("keys", [run(NATIVE, 0.5)], [run(NATIVE, 1.0), run(DECLARED, 2.0)]))
    lines = capsys.readouterr().out.splitlines()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[-4:]]
    assert table[0] == ["keys", f"{NATIVE}, µs", "x first", f"{DECLARED}, µs", "x first"]
    assert table[2] == ["1", "500.00", "1.00", "-", "-"]
    assert table[3] == ["10", "1000.00", "2.00", "2000.00", "1.00"]


def test_one_table_shows_what_the_file_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = report()
    flink = replace(run(PYFLINK, 10.0), conditions="3,000 rows of text")
    made.add_spark(result("tumbling-1k", [run(TUNED, 0.5)], [run(TUNED, 1.0), run(DECLARED, 4.0), flink]))
    made.write_json(tmp_path / "figures.json")
    capsys.readouterr()
    assert table.main([str(tmp_path / "figures.json")]) == 0
    _, _, *lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    title = WORKLOADS["tumbling-1k"].title
    assert rows == [
        [title, "1,000", TUNED, "2,000", "2,000..2,000", "1.00", "-", "3.0", "-"],
        [title, "1,000", TUNED, "1,000", "1,000..1,000", "1.00", "10", "3.0", "-"],
        ["", "", DECLARED, "250", "250..250", "0.25", "2.50", "3.0", "-"],
        ["", "", PYFLINK, "100", "-", "0.10", "1.00", "-", "-"],
    ]


def test_the_readme_has_the_table_of_the_figures() -> None:
    figures = json.loads((ROOT / "benchmarks" / "figures.json").read_text())
    assert table.table(figures) in (ROOT / "benchmarks" / "README.md").read_text(), "python -m benchmarks.table"


def test_an_unknown_workload_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nothing"]) == 2
    assert "no workload begins with nothing; there are tumbling-1k" in capsys.readouterr().err


@pytest.mark.spark
def test_workloads_run_and_their_results_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_QUICK_WARM_SECONDS", "_QUICK_SECONDS"):
        monkeypatch.setattr(measurement, name, 1)
    file = tmp_path / "figures.json"
    chosen = ["--only", "tumbling-1k", "--only", "latency", "--contender", TUNED, "--contender", DECLARED]
    assert main(["--quick", *chosen, "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    (workload,), (latency,) = figures["spark"], figures["sections"]
    (size,) = workload["inputs"]
    assert [run["contender"] for run in size["runs"]] == [TUNED, DECLARED]
    assert [row[0] for row in latency["rows"]] == [TUNED, DECLARED]
