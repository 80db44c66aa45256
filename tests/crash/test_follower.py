"""The reader beside a killed pipeline takes files once, passes over hidden ones, and tells of those that change."""

from __future__ import annotations

from pathlib import Path

from tests.crash.elsewhere import Here
from tests.crash.follower import Follower


def put(folder: Path, *names: str, text: str = "1") -> None:
    for name in names:
        (folder / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "out" / name).write_text(text)


def copies(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_files_are_taken_as_they_appear(tmp_path: Path) -> None:
    follower = Follower(Here(str(tmp_path)), tmp_path / "copies")
    put(tmp_path, "totals.db", "sink/_windrow/staging/a", "sink/_b", "sink/.c", "sink/key=1/_d/e")
    follower.look()
    assert copies(tmp_path / "copies") == {}
    put(tmp_path, "sink/a")
    follower.look()
    put(tmp_path, "sink/key=1/b", text="2")
    follower.look()
    assert copies(tmp_path / "copies") == {"out/sink/a": "1", "out/sink/key=1/b": "2"}
    assert (follower.faults, follower.files, follower.looks) == ([], 2, 3)


def test_files_that_change_or_go_are_told(tmp_path: Path) -> None:
    follower = Follower(Here(str(tmp_path)), tmp_path / "copies")
    put(tmp_path, "sink/a", "sink/b", "sink/c")
    follower.look()
    (tmp_path / "out" / "sink" / "a").unlink()
    (tmp_path / "out" / "sink" / "b").rename(tmp_path / "out" / "old")
    put(tmp_path, "sink/b")
    follower.look()
    assert sorted(follower.faults) == ["out/sink/a is gone after look 2", "out/sink/b is another file after look 2"]


def test_it_looks_until_the_end(tmp_path: Path) -> None:
    with Follower(Here(str(tmp_path)), tmp_path / "copies") as follower:
        put(tmp_path, "sink/a")
    assert copies(tmp_path / "copies") == {"out/sink/a": "1"}
    assert follower.faults == []


def test_a_reader_that_fails_is_told(tmp_path: Path) -> None:
    put(tmp_path, "sink/a")
    (tmp_path / "copies").write_text("a file")
    with Follower(Here(str(tmp_path)), tmp_path / "copies") as follower:
        pass
    assert len(follower.faults) == 1
    assert "the reader failed" in follower.faults[0]
