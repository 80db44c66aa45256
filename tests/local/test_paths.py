"""Paths of file sources on the interpreter: links, literal names, patterns; tests/spark does the same on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow import from_source
from windrow.errors import InvalidArgumentError, SourceError
from windrow.sources import JsonFileSource


def read(path: Path | str) -> list[int]:
    return sorted(from_source(JsonFileSource(path, int)).collect())


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    """A folder with one file, beside a folder with another."""
    for folder, number in (("incoming", 1), ("elsewhere", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.json").write_text(f"{number}\n")
    return tmp_path / "incoming"


def test_links_that_stay_inside(incoming: Path, tmp_path: Path) -> None:
    (incoming / "again.json").symlink_to(incoming / "a.json")
    (tmp_path / "alias").symlink_to(incoming)
    for path in (incoming, tmp_path / "alias", f"{incoming}/*.json"):
        assert read(path) == [1, 1]
    (tmp_path / "one.json").symlink_to(incoming / "a.json")
    assert read(tmp_path / "one.json") == [1]


@pytest.mark.parametrize(
    ("name", "target"), [("b.json", "elsewhere/a.json"), ("p=1", "elsewhere"), ("p=1", "incoming"), ("p=1", "..")]
)
def test_links_that_lead_out_or_back(incoming: Path, tmp_path: Path, name: str, target: str) -> None:
    (incoming / name).symlink_to(tmp_path / target)
    with pytest.raises(SourceError, match=r"a link leads (out|back)(.|\n)*test_paths.py:\d+"):
        read(incoming)


def test_patterns(incoming: Path, tmp_path: Path) -> None:
    (incoming / "day").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="a link leads out"):
        read(f"{incoming}/*/a.json")
    assert read(f"{incoming}/../*/a.json") == [1, 2]  # up in front of the wildcard: that is asked for
    for path in ("in*/../../secret/*", "in*/..", "{..,in}/*.json", "in/{a,../..}/x"):
        with pytest.raises(InvalidArgumentError, match="may not go up after a wildcard"):
            JsonFileSource(path, int)


ODD = ["w[1]", "x{y,z}", "a*b", "a?b", "back\\slash", "co:lon[1]", "bl ank", "p%20q", "h#h", "ünï", "a]b}c"]


@pytest.mark.parametrize("name", ODD)
def test_a_path_is_literal(tmp_path: Path, name: str) -> None:
    for folder, number in ((name, 1), ("w1", 2), ("xy", 3), ("axb", 4)):
        (tmp_path / folder / "day=7" / "deep").mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "day=7" / "deep" / "a.json").write_text(f"{number}\n")
    assert read(tmp_path / name) == read(f"file://{tmp_path}/{name}") == [1]
    assert read(tmp_path / name / "day=*") == read(f"{tmp_path}/{name}/*/*/*.json") == [1]


def test_a_pattern_where_nothing_has_the_name(tmp_path: Path) -> None:
    for number, name in enumerate(["logs-1", "logs-2", "logs[1]", "_logs", "other"]):
        (tmp_path / name / "below").mkdir(parents=True)
        (tmp_path / name / "below" / "a.json").write_text(f"{number}\n")
        (tmp_path / name / "_a.json").write_text("no number")
    assert read(tmp_path / "logs-[12]") == read(tmp_path / "logs-*") == read(tmp_path / "{logs-1,logs-2}") == [0, 1]
    assert read(tmp_path / "logs[1]") == [2]
    assert read(tmp_path / "*") == [0, 1, 2, 4]
    assert read(tmp_path / "{logs-1,logs-1/below}") == [0]
    with pytest.raises(SourceError, match="does not exist"):
        read(tmp_path / "logs[1]" / "none")
    with pytest.raises(InvalidArgumentError, match=r"not closed(.|\n)*test_paths.py:\d+"):
        read(tmp_path / "logs{1")
