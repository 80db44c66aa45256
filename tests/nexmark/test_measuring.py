"""The measurement of Nexmark runs, and gives no figure for a result that is wrong."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from benchmarks.errors import MeasurementError, WrongResultError
from benchmarks.measure import Batch
from benchmarks.nexmark.__main__ import QUERIES
from benchmarks.nexmark.measuring import command
from benchmarks.nexmark.measuring.answers import check, check_text, result_files
from benchmarks.nexmark.measuring.data import Data, prepare
from benchmarks.nexmark.measuring.flink import FlinkRun, run_flink
from benchmarks.nexmark.measuring.flink_sql import FLINK, NOT_FLINK
from benchmarks.nexmark.measuring.native import NATIVE, NOT_NATIVE
from benchmarks.nexmark.measuring.report import Row, summary
from benchmarks.nexmark.measuring.runs import Speed, Timing, run_native, timing_of
from benchmarks.nexmark.reference.answers import answer, connect
from tests.budget import for_a_night

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 5_000
# Every measurement checks its answers: these are the forms of state that differ most.
NATIVE_TESTED = for_a_night(["q4", "q5", "q8", "q9", "q10", "q11", "q16", "q19"], ["q16"])


@pytest.mark.spark
def test_a_table_of_queries(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # Figures are not looked at, so that little warming up will do.
    monkeypatch.setattr(command, "_WARM_BATCHES", 2)
    queries = for_a_night(["q0", "q12"], ["q12"])
    options = ["--events", str(EVENTS), "--rounds", "1", "--warm-up-seconds", "0"]
    options += [option for query in queries for option in ("--only", query)]
    assert command.measure(options) == 0
    output = capsys.readouterr().out
    rows = [line.split("|")[1:-1] for line in output.splitlines() if line.startswith("| q")]
    assert [row[0].strip() for row in rows] == ["query", *queries]
    for row in rows[1:]:
        windrow, native, ratio = (float(cell.replace(",", "")) for cell in row[2:5])
        assert ratio == pytest.approx(windrow / native, abs=0.01)
    assert "x native Spark SQL: median" in output


@pytest.mark.spark
@pytest.mark.parametrize("query", NATIVE_TESTED)
def test_native_spark_gives_the_answers(query: str, spark: SparkSession, tmp_path: Path) -> None:
    data = prepare(EVENTS)
    run_native(query, data, spark, tmp_path)
    assert check(query, data, tmp_path / "out") > 0


def test_each_query_is_stated_or_has_a_reason() -> None:
    assert sorted([*NATIVE, *NOT_NATIVE]) == sorted([*FLINK, *NOT_FLINK]) == sorted(QUERIES)


def written(data: Data, out: Path, sql: str) -> Path:
    """A result that some SQL makes of the bids."""
    out.mkdir()
    with duckdb.connect() as database:
        database.read_parquet(str(data.path / "bid" / "*.parquet")).create_view("bid")
        database.sql(sql).write_parquet(str(out / "rows.parquet"))
    return out


def test_a_wrong_result_is_told(tmp_path: Path) -> None:
    data = prepare(EVENTS)
    right = "SELECT auction, price FROM bid WHERE auction % 123 = 0"
    rows = check("q2", data, written(data, tmp_path / "right", right))
    assert rows > 1
    wrong = {
        "1 are missing, and 0 others": f"{right} LIMIT {rows - 1}",
        "0 are missing, and 1 others": f"{right} UNION ALL (SELECT auction, price FROM bid LIMIT 1)",
        f"{rows} are missing, and {rows} others": "SELECT auction, price + 1 AS price FROM bid WHERE auction % 123 = 0",
        "columns bidder": "SELECT auction, bidder, price FROM bid WHERE auction % 123 = 0",
    }
    for number, (message, sql) in enumerate(wrong.items()):
        with pytest.raises(WrongResultError, match=message):
            check("q2", data, written(data, tmp_path / str(number), sql))
    with pytest.raises(WrongResultError, match="no rows"):
        check("q2", data, tmp_path / "none")


def test_text_is_compared_as_well(tmp_path: Path) -> None:
    data = prepare(EVENTS)
    window = "date_time // 10000 * 10000"
    sql = (
        f"SELECT bidder, count(*), strftime(epoch_ms({window}), '%Y-%m-%d %H:%M:%S'), epoch_ms({window} + 10000) "
        "FROM bid GROUP BY ALL"
    )
    out = tmp_path / "out"
    out.mkdir()
    with duckdb.connect() as database:
        database.read_parquet(str(data.path / "bid" / "*.parquet")).create_view("bid")
        database.sql(sql).write_csv(str(out / ".part-0.inprogress"), header=False)
    assert check_text("q12", data, out) > 1
    (out / "more").write_text("1,1,2026-03-01 06:59:50,2026-03-01 07:00:00\n")
    with pytest.raises(WrongResultError, match="0 are missing, and 1 others"):
        check_text("q12", data, out)
    with pytest.raises(WrongResultError, match="no rows"):
        check_text("q12", data, tmp_path / "none")


def test_files_of_engines_are_no_results(tmp_path: Path) -> None:
    for name in ("_temporary/a.parquet", ".b.parquet", "dt=1/c.parquet", "d.txt"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    assert result_files(tmp_path) == [str(tmp_path / "dt=1" / "c.parquet")]


def test_the_first_batch_and_the_closing_one_are_left_out() -> None:
    data = Data(Path(), events=3_000, batches=3)
    batches = [Batch(number, 1, 2.0 + number, 100.0 + 10 * number) for number in range(3)]
    idle, closing = Batch(3, 0, 1.0, 130.0), Batch(4, 1, 7.0, 140.0)
    expected = Timing(2_000, steady=3.0 + 4.0, to_the_end=150.0 - 110.0, batches=tuple(batches))
    assert timing_of([*batches, idle, closing], data, 150.0) == expected
    assert timing_of(batches, data, 150.0) == expected
    for others in (batches[:2], [*batches, closing, Batch(5, 1, 1.0, 160.0)]):
        with pytest.raises(MeasurementError, match="batches had input"):
            timing_of(others, data, 170.0)


def speed(steady: float, to_the_end: float) -> Speed:
    return Speed([Timing(1_000, steady, to_the_end)] * 2)


def test_ratios_are_those_of_the_time_that_counts() -> None:
    steady = Row("q0", speed(1, 5), speed(2, 5))
    at_the_end = Row("q18", speed(1, 5), speed(2, 20), flink=100)
    alone = Row("q6", speed(1, 5), None)
    assert (steady.to_native, at_the_end.to_native, alone.to_native) == (2, 4, None)
    assert (steady.to_flink, at_the_end.to_flink) == (None, 2)
    cells = [cell.strip() for cell in at_the_end.text().split("|")]
    assert cells[1:-1] == ["q18", "to the end", "200", "50", "4.00", "2.00", "100", "2.00"]
    assert summary([steady, at_the_end, alone]).splitlines() == [
        "x native Spark SQL: median 3.00, lowest 2.00 (q0), of 2 queries",
        "x Flink SQL: median 2.00, lowest 2.00 (q18), of 1 query",
    ]


def flink_of(folder: Path, figures: dict[str, list[float]], answer: str = "") -> str:
    """A program in place of a Python with Flink: it keeps the jobs, gives these figures, and writes this answer."""
    folder.mkdir()
    program = folder / "python"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib, shutil, sys\n"
        f"shutil.copy(sys.argv[2], {str(folder / 'jobs.json')!r})\n"
        "out = pathlib.Path(sys.argv[2]).parent / 'whole'\n"
        "out.mkdir()\n"
        f"(out / 'part').write_text({answer!r})\n"
        f"print(json.dumps({figures!r}))\n"
    )
    program.chmod(0o755)
    return str(program)


def categories(data: Data) -> str:
    """The answer of q4 as Flink writes it."""
    with connect(data.path) as database:
        return "".join(f"{category},{mean!r}\n" for category, mean in answer(database, "q4").fetchall())


def test_the_time_of_flink_is_that_of_the_job_behind_the_warm_up(tmp_path: Path) -> None:
    data = prepare(EVENTS)
    figures = {"start_seconds": [3.0, 0.5, 0.25], "seconds": [9.0, 2.0, 7.0]}
    right = categories(data)
    python = flink_of(tmp_path / "right", figures, right)
    assert run_flink("q4", data, python) == FlinkRun(data.events, seconds=2.0, start_seconds=0.5)
    jobs = json.loads((tmp_path / "right" / "jobs.json").read_text())
    assert [job["mode"] for job in jobs] == ["streaming", "streaming", "batch"]
    # Flink's files take no updates: the rows that are checked are those of the batch job.
    assert ["blackhole" in job["statements"][-2] for job in jobs] == [True, True, False]
    with pytest.raises(WrongResultError, match="1 are missing, and 0 others"):
        run_flink("q4", data, flink_of(tmp_path / "wrong", figures, right.split("\n", 1)[1]))
    no_time = {"start_seconds": [3.0, 0.5, 0.25], "seconds": [9.0, 0.0, 7.0]}
    with pytest.raises(MeasurementError, match="no speed"):
        run_flink("q4", data, flink_of(tmp_path / "none", no_time, right))


def test_a_failure_of_flink_leaves_its_cells_empty_and_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "spark_session", contextlib.nullcontext)
    monkeypatch.setattr(command, "compare", lambda *_: {"windrow": speed(1, 5), "native": speed(2, 5)})
    python = flink_of(tmp_path / "flink", {"start_seconds": [1, 1], "seconds": [1, 1]})
    options = ["--events", str(EVENTS), "--rounds", "1", "--only", "q2", "--only", "q6", "--pyflink", python]
    assert command.measure(options) == 1
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| q")]
    assert [row[:1] + row[2:5] + row[6:] for row in rows[1:]] == [
        ["q2", "1,000", "500", "2.00", "-", "-"],
        ["q6", "1,000", "500", "2.00", "-", "-"],
    ]
    assert sum("q2 has no figure of Flink SQL: no rows were written" in line for line in lines) == 1
    assert sum(line.startswith("q6: not in Flink SQL: an OVER window") for line in lines) == 1
