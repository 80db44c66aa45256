"""The log of the files of batches keeps digests of old names: it stays small, and forgets no file."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.memory_files import MemoryFiles, folder_in
from windrow.errors import CheckpointError, IncompatibleStateError
from windrow_runtime.outputs import whole_files
from windrow_spark.checkpoint import file_log
from windrow_spark.checkpoint.file_digests import FileDigests, digests_of
from windrow_spark.checkpoint.file_log import FileLog, MergedFileLog

KEPT = 3


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names become digests after a few entries instead of some hundred."""
    monkeypatch.setattr(file_log, "NAMES_KEPT", KEPT)
    monkeypatch.setattr(file_log, "_ENTRIES", 4)
    monkeypatch.setattr(file_log, "_FEW", 5)
    monkeypatch.setattr(file_log, "_SHARE", 2)


class Stored:
    """Where a log lies, which each new process opens."""

    def __init__(self, folder: Path, *, mounted: bool) -> None:
        self.folder = folder
        self.memory = MemoryFiles()
        self.is_mounted = mounted

    def open(self) -> FileLog:
        return FileLog(self.folder / "log") if self.is_mounted else MergedFileLog(folder_in(self.memory) / "log")

    def begun(self, entries: list[list[str]] | None = None) -> FileLog:
        log = self.open()
        log.begin(entries or [])
        log.update(len(entries or []))
        return log

    @property
    def content(self) -> bytes:
        """All that is stored."""
        if self.is_mounted:
            return b"".join(file.read_bytes() for file in self.folder.iterdir())
        return b"".join(self.memory.content.values())


@pytest.fixture(params=["mounted", "elsewhere"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Stored:
    return Stored(tmp_path, mounted=request.param == "mounted")


def names(number: int, count: int = 2) -> list[str]:
    return [f"/in/{number}-{index}" for index in range(count)]


def test_old_names_become_digests(stored: Stored) -> None:
    log = stored.begun()
    for number in range(100):
        log.append(names(number))
        for other in (log, stored.open()):
            other.update(number + 1)
            assert other.count == number + 1
            newest = range(max(0, number + 1 - KEPT), number + 1)
            assert other.files_of(newest) == [names(each) for each in newest]
            assert other.unread(file for each in range(number + 1) for file in names(each)) == set()
            # A file that comes later with an earlier name is read.
            assert other.unread(["/in/0-0", "/in/", "/in/0-2"]) == {"/in/", "/in/0-2"}
    assert b'"/in/40-0"' not in stored.content
    assert b'"/in/98-0"' in stored.content
    for each_log in (log, stored.open()):
        with pytest.raises(IncompatibleStateError, match="the names of the files of old batches are not kept"):
            each_log.read()
    # A name takes 16 bytes, as text 22, and a line is as long again.
    assert len(stored.content) < 100 * 2 * 22 + 2_500


def test_entries_that_spark_has_read_have_digests_from_the_beginning(stored: Stored) -> None:
    log = stored.begun([names(number) for number in range(10)])
    assert b'"/in/6-0"' not in stored.content
    for number in range(10, 40):
        log.append(names(number))
        other = stored.open()
        other.update(number + 1)
        assert other.unread(file for each in range(number + 1) for file in names(each)) == set()


@pytest.mark.parametrize("count", [3, 4, 9, 31])
def test_a_log_in_one_file_is_continued(tmp_path: Path, count: int) -> None:
    """Earlier versions wrote all entries into one file, with their names."""
    lines = [file_log._Line.of_names(number, names(number)).text for number in range(count)]
    (tmp_path / "log").write_bytes(b"\n".join(lines))
    for number in range(count, count + 40):
        log = FileLog(tmp_path / "log")
        log.update(number)
        assert log.count == number
        log.append(names(number))
        assert log.unread(file for each in range(number + 2) for file in names(each)) == set(names(number + 1))
    assert (tmp_path / "log").read_bytes() == b""


@pytest.mark.parametrize("survivors", range(8))
def test_a_kill_while_names_become_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survivors: int) -> None:
    log = Stored(tmp_path, mounted=True).begun([names(number) for number in range(2)])
    left = survivors

    def killed_at(change: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: object, **options: object) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            change(*arguments, **options)

        return run

    appended = 2

    def append_all() -> None:
        nonlocal appended
        for appended in range(2, 100):
            log.append(names(appended))

    with monkeypatch.context() as patched:
        patched.setattr(whole_files, "write_whole", killed_at(whole_files.write_whole))
        patched.setattr(Path, "unlink", killed_at(Path.unlink))
        with pytest.raises(KeyboardInterrupt):
            append_all()
    for later in range(appended + 1, appended + 30):
        log = FileLog(tmp_path / "log")
        log.update(later)
        assert log.count == later
        assert log.unread(file for each in range(later) for file in names(each)) == set()
        log.append(names(later))
    assert len([*tmp_path.iterdir()]) < 8


def test_planners_of_dead_queries_lose_nothing(stored: Stored) -> None:
    chance = random.Random(7)
    agreed: list[list[str]] = []
    logs = [stored.begun(), stored.open(), stored.open()]
    for number in range(300):
        log = chance.choice(logs)
        if chance.random() < 0.7:  # a planner that is about to die has looked at the log long ago
            log.update(0)
        behind = log.count
        log.append(names(number))
        if behind == len(agreed):
            agreed.append(names(number))
        if chance.random() < 0.1:
            logs[chance.randrange(3)] = stored.open()
        reader = stored.open()
        reader.update(len(agreed))
        assert reader.count == len(agreed)
        assert reader.files_of(range(len(agreed) - 1, len(agreed))) == agreed[-1:]
        listed = {file for each in range(number + 1) for file in names(each)}
        assert reader.unread(listed) == listed - {file for files in agreed for file in files}
    assert 100 < len(agreed) < 300


#  reader     lists log.8                                          reads log.8
#  live                     replaces it by log.9
#  of a dead query                                writes log.8
def test_a_file_that_was_replaced_and_is_written_anew_while_another_planner_reads(tmp_path: Path) -> None:
    stored = Stored(tmp_path, mounted=False)
    live = stored.begun()
    for number in range(8):
        live.append(names(number))
    stale, reader = stored.open(), stored.open()
    for each in (stale, reader):
        each.update(8)
    live.append(names(8))

    def meanwhile(url: str) -> None:
        if url.endswith("log.8"):
            stored.memory.before_read = lambda url: None
            live.append(names(9))
            stale.append(["/in/late"])

    stored.memory.before_read = meanwhile
    reader.update(9)
    assert reader.files_of(range(8, 10)) == [names(8), names(9)]
    assert reader.unread(["/in/late", *names(8)]) == {"/in/late"}


def test_what_is_gone_is_noticed(tmp_path: Path) -> None:
    log = Stored(tmp_path, mounted=True).begun()
    for number in range(20):
        log.append(names(number))
    for file in [each for each in tmp_path.iterdir() if each.name != "log"]:
        content = file.read_bytes()
        for damaged in (None, content[:40] + b"A" + content[41:]):
            if damaged is None:
                file.unlink()
            else:
                file.write_bytes(damaged)
            with pytest.raises(CheckpointError, match=r"the files of its entry [0-9]+ are gone"):
                FileLog(tmp_path / "log").update(20)
        file.write_bytes(content)
    FileLog(tmp_path / "log").update(20)


def test_digests_tell_names_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windrow_spark.checkpoint.file_digests._AT_ONCE", 64)
    digests = FileDigests()
    listed = [f"/in/{number}" for number in range(5_000)]
    assert list(digests.without(listed)) == listed
    for number in range(0, 5_000, 500):
        digests.add(digests_of(listed[number : number + 400]))
        left = [each for start in range(number, 5_000, 500) for each in listed[start + 400 : start + 500]]
        assert [*digests.without(listed[: number + 500])][-100:] == left[:100]
    assert len(digests) == 4_000
    assert {*digests.without(listed)} == {
        each for start in range(0, 5_000, 500) for each in listed[start + 400 :][:100]
    }
    assert digests_of(["/in/\udcff"]) != digests_of(["/in/?"])  # a name that is not UTF-8
