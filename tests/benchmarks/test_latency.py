"""Latency: when results become visible in sinks of files, and whether the workload runs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.latency.visible import files_of_spark, files_of_windrow, results_in


def write(file: Path, *ends: int) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"window_end": ends}), file)
    return file


def shown(aside: Path, visible: Path) -> tuple[float, float]:
    """Renames what is aside; gives the clock before and behind that, in milliseconds."""
    before = time.time() * 1e3
    aside.rename(visible)
    return before - 10, time.time() * 1e3 + 10  # a file system keeps times in steps of some milliseconds


def test_results_of_windrow_are_visible_when_the_files_of_their_batch_are_renamed(tmp_path: Path) -> None:
    write(tmp_path / "_batch-0" / "part-0.parquet", 1000, 1000, 2000)
    earlier = shown(tmp_path / "_batch-0" / "part-0.parquet", tmp_path / "batch-0-part-0.parquet")
    write(tmp_path / "_batch-1" / "part-0.parquet", 3000)
    assert set(results_in(tmp_path, files_of_windrow)[1]) == {1000, 2000}
    later = shown(tmp_path / "_batch-1" / "part-0.parquet", tmp_path / "batch-1-part-0.parquet")
    table, times = results_in(tmp_path, files_of_windrow)
    assert len(table) == 4
    assert times[1000] == times[2000]
    assert earlier[0] <= times[1000] <= earlier[1]
    assert later[0] <= times[3000] <= later[1]


def test_results_of_spark_are_visible_when_the_log_names_their_files(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    files = [write(tmp_path / f"part-{number} a.parquet", 1000 * number) for number in range(3)]
    lines = [json.dumps({"path": file.as_uri(), "action": "add"}) for file in files]
    (log / ".9").write_text(f"v1\n{lines[0]}")
    first = shown(log / ".9", log / "9")
    (log / ".10").write_text("\n".join(["v1", *lines[:2]]))
    second = shown(log / ".10", log / "10.compact")
    (log / ".10.compact.crc").write_text("")
    table, times = results_in(tmp_path, files_of_spark)
    assert sorted(table["window_end"].to_pylist()) == [0, 1000]
    assert first[0] <= times[0] <= first[1]
    assert second[0] <= times[1000] <= second[1]


def test_a_sink_without_results_has_no_table(tmp_path: Path) -> None:
    assert results_in(tmp_path / "none", files_of_spark) == (None, {})
