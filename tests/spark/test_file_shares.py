"""How the tasks of a batch share its files: by the cores that there are, in the order of the files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from windrow_runtime.connectors.files import systems
from windrow_runtime.connectors.files.systems import MOUNTED, has_large_file
from windrow_spark.connectors.files.plans import TaskShares, task_count
from windrow_spark.division import Division

MIB = 1 << 20


@pytest.mark.parametrize(
    ("cores", "partitions", "tasks"), [(2, 2, 2), (2, 200, 64), (320, 200, 320), (320, 8, 320), (None, 200, 64)]
)
def test_each_core_has_a_task(cores: int | None, partitions: int, tasks: int) -> None:
    assert task_count(Division(cores, partitions, 32 * MIB, {})) == tasks


def test_a_large_file_is_read_by_all_cores_of_a_cluster(tmp_path: Path) -> None:
    sizes = {"a": 1 * MIB, "b": 4096 * MIB, "c": 2 * MIB}
    for name, size in sizes.items():
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, size)  # without blocks on the disk
    files = [str(tmp_path / name) for name in sizes]
    chunks = TaskShares(parts=320, cores=320, large_file_bytes=32 * MIB, files=MOUNTED).divide(files)
    assert 300 <= len(chunks) <= 320
    read = [piece for chunk in chunks for piece in chunk]
    assert read == [(files[0], 0, 1), *((files[1], part, 320) for part in range(320)), (files[2], 0, 1)]


def test_a_large_file_is_looked_for_among_the_first_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "below/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("0123456789")
    assert has_large_file(str(tmp_path), 10)
    assert not has_large_file(str(tmp_path), 11)
    os.truncate(tmp_path / "below" / "c", 11)
    assert has_large_file(str(tmp_path), 11)
    monkeypatch.setattr(systems, "_LOOKED_AT", 4)  # the folder, and what lies in it
    assert not has_large_file(str(tmp_path), 11)
