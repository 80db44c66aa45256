"""Folders whose names Spark may take for values of columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow_runtime.spark.paths import may_give_columns

COLUMNS = ("length", "path")


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("plain/day=7", False),
        ("length", False),
        ("my length=7", False),
        ("length=7", True),
        ("a/b/Path=", True),
    ],
)
def test_folders_below(tmp_path: Path, folder: str, expected: bool) -> None:
    (tmp_path / "in" / folder).mkdir(parents=True)
    assert may_give_columns(str(tmp_path / "in"), COLUMNS) is expected


def test_folders_above(tmp_path: Path) -> None:
    (tmp_path / "length=7").mkdir()
    for file, expected in ((tmp_path / "file", False), (tmp_path / "length=7" / "file", True)):
        file.touch()
        assert may_give_columns(str(file), COLUMNS) is expected


def test_a_file_below_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "path=1").touch()
    assert not may_give_columns(str(tmp_path), COLUMNS)


def test_what_is_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "elsewhere").mkdir()
    assert may_give_columns(f"{tmp_path}/i*", COLUMNS)
    assert not may_give_columns(str(tmp_path / "in"), COLUMNS)
    (tmp_path / "in" / "linked").symlink_to(tmp_path / "elsewhere")
    assert may_give_columns(str(tmp_path / "in"), COLUMNS)
