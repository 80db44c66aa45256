"""Checkpoints in file systems that are not mounted: their files, and the lock, on a file system in memory."""

from __future__ import annotations

import errno
import logging
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import AuthenticationError, get_context
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from tests.spark.memory_files import MemoryFiles, MemoryPath, folder_in
from windrow.errors import CheckpointError, InvalidArgumentError
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.connectors.files.staged import StagedBatch, begun_batches, clear_staging
from windrow_spark.checkpoint import planner_paths
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.lease import LeaseLock
from windrow_spark.checkpoint.newest_batch import _NotedNumber
from windrow_spark.checkpoint.planner_paths import PlannerPath, for_planners
from windrow_spark.checkpoint.spark_files import clear_leftovers
from windrow_spark.checkpoint.storage import HadoopPath, StoragePath, clear, read_whole, write_once, write_whole
from windrow_spark.checkpoint.stored_file import StoredFile, file_numbers
from windrow_spark.clock import BatchClock, ClockFiles

OTHER = b"process 1 on elsewhere, since 2026\nabc 1\n"


@pytest.fixture(params=["mounted", "elsewhere"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> StoragePath:
    return tmp_path if request.param == "mounted" else folder_in(MemoryFiles())


def test_files_are_the_same_wherever_they_are(folder: StoragePath) -> None:
    file = folder / "below" / "3"
    file.parent.mkdir(parents=True)
    assert not file.exists()
    assert list((folder / "none").glob("*")) == []
    with pytest.raises(FileNotFoundError):
        read_whole(file)
    write_whole(file, "three")
    write_whole(folder / "below" / ".hidden", b"")
    assert read_whole(file, 2) == b"ree"
    assert file.name == "3"
    assert file_numbers(folder / "below") == {3}
    assert {path.name for path in (folder / "below").glob(".*")} == {".hidden"}
    assert {path.name for path in folder.rglob("*")} >= {"3", ".hidden"}
    file.unlink()
    file.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        file.unlink()
    clear(folder / "below")
    assert not (folder / "below").exists()


def test_a_checkpoint_elsewhere_notes_what_one_here_does(folder: StoragePath) -> None:
    checkpoint = Checkpoint(folder)
    write_whole(folder / "spark" / "offsets" / "7", "v1") if isinstance(folder, HadoopPath) else None
    checkpoint.newest_batch.note(7)
    checkpoint.newest_batch.note(5)
    assert Checkpoint(folder).newest_batch.batch() == 7
    ClockFiles(checkpoint.clock_folder).write(8, BatchClock({"one": 5}))
    assert ClockFiles(checkpoint.clock_folder).read(8).watermarks == {"one": 5}
    assert ClockFiles(checkpoint.clock_folder).read(0).watermarks.get("one", MIN_TIMESTAMP) == MIN_TIMESTAMP
    with pytest.raises(CheckpointError, match="damaged"):
        ClockFiles(checkpoint.clock_folder).read(9)


def test_what_a_killed_spark_has_left_is_removed() -> None:
    files = MemoryFiles()
    spark = folder_in(files)
    left = ".7.0f8fad5b-d9cb-469f-a165-70867728950e.tmp"
    for name in ("offsets/6", f"offsets/{left}", "commits/6"):
        write_whole(spark / name, "v1")
    clear_leftovers(spark)
    assert sorted(files.content) == ["mem://checkpoint/commits/6", "mem://checkpoint/offsets/6"]


def test_failures_are_errors_of_the_checkpoint() -> None:
    files = MemoryFiles()
    files.fails = True
    folder = folder_in(files)
    checkpoint = Checkpoint(folder)
    for read in (
        StoredFile(folder / "plan", int).read,
        checkpoint.last_planned,
        checkpoint.has_fired_all,
        checkpoint.query_id,
        lambda: checkpoint.is_committed(1),
        lambda: checkpoint.is_ending,
        lambda: checkpoint.check_open(drain=True),
        lambda: checkpoint.check_whole(0, stateful=True),
        lambda: checkpoint.log_of_files("0").read(),
        lambda: ClockFiles(folder).exists(1),
        checkpoint.clear_leftovers,
        lambda: LeaseLock(folder, 1),
    ):
        with pytest.raises(CheckpointError, match="the network is down"):
            read()


def test_a_worker_reads_only_what_it_was_handed() -> None:
    here = folder_in(MemoryFiles())
    write_whole(here / "plan", "it")
    there = pickle.loads(pickle.dumps(here / "plan"))
    assert there.url == (here / "plan").url
    with pytest.raises(OSError, match="has not handed the file"):
        there.read_bytes()
    with pytest.raises(OSError, match="no worker opens"):
        there.write(b"")


def test_without_a_session_of_its_own_the_folder_must_be_mounted() -> None:
    with pytest.raises(InvalidArgumentError, match="mounted file system") as caught:
        Checkpoint.at("s3a://ann:secret@bucket/checkpoint")
    assert "secret" not in str(caught.value)


LOCK = "mem://checkpoint/locks/lock-1"


def locked_elsewhere() -> tuple[MemoryFiles, MemoryPath]:
    """A checkpoint that another process has locked."""
    files = MemoryFiles()
    write_whole(folder_in(files) / "locks" / "lock-4", OTHER)
    return files, folder_in(files)


def refused(use: Callable[[], object]) -> str:
    """What is said of the other run."""
    with pytest.raises(CheckpointError, match="another run uses the checkpoint") as caught:
        use()
    return str(caught.value.given)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end


def test_a_second_run_is_refused_at_once_in_one_process() -> None:
    folder = folder_in(MemoryFiles())
    lock = LeaseLock(folder, 60)
    assert f"process {os.getpid()} on " in refused(lambda: LeaseLock(folder, 60))
    lock.release()
    lock.release()
    later = LeaseLock(folder, 60)
    later.is_owner_live = lambda: False  # its query failed, and nobody has asked for its end
    LeaseLock(folder, 60).release()
    assert file_numbers(folder / "locks", "lock-") == {2, 3}


def test_a_run_that_gives_signs_of_life_is_left_alone() -> None:
    files, folder = locked_elsewhere()
    reads: list[str] = []

    def renewed(url: str) -> None:
        reads.append(url)
        if len(reads) == 2:
            write_whole(folder / "locks" / "lock-4", OTHER.replace(b"1\n", b"2\n"))

    files.before_read = renewed
    assert refused(lambda: LeaseLock(folder, 3)) == "process 1 on elsewhere, since 2026"


def test_the_lease_of_a_dead_process_is_waited_for_unless_it_has_ended_long_ago(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, folder = locked_elsewhere()
    begun = time.monotonic()
    with caplog.at_level(logging.WARNING, "windrow"):
        lock = LeaseLock(folder, 0.5)
    assert time.monotonic() - begun >= 0.5
    assert "belongs to process 1 on elsewhere, since 2026: waiting up to" in caplog.text
    assert file_numbers(folder / "locks", "lock-") == {4, 5}
    lock.check()
    lock.release()

    caplog.clear()
    files, folder = locked_elsewhere()
    files.times["mem://checkpoint/locks/lock-4"] -= 100
    LeaseLock(folder, 60).release()
    assert caplog.text == ""


def test_of_two_that_take_over_one_gets_the_lock() -> None:
    files = MemoryFiles()
    folder = folder_in(files)
    LeaseLock(folder, 60).release()

    def first(url: str) -> None:
        files.before_read = lambda url: None
        write_whole(folder / "locks" / "lock-2", OTHER)  # between the look and the file of this run

    files.before_read = first
    begun = time.monotonic()
    lock = LeaseLock(folder, 0.4)
    assert time.monotonic() - begun >= 0.4  # it has waited for the other one
    assert file_numbers(folder / "locks", "lock-") == {2, 3}
    lock.release()


def test_who_was_taken_over_finds_it_before_its_next_batch() -> None:
    folder = folder_in(MemoryFiles())
    lock = LeaseLock(folder, 60)
    lock.check()
    assert (folder / "locks" / "lock-2").write_once(OTHER)
    assert refused(lock.check) == "process 1 on elsewhere, since 2026"
    assert not lock.is_held
    lock.release()
    assert read_whole(folder / "locks" / "lock-2") == OTHER


@pytest.mark.parametrize("content", [OTHER, b"free"])
def test_who_finds_another_run_in_its_own_file_was_taken_over(content: bytes) -> None:
    folder = folder_in(MemoryFiles())
    lock = LeaseLock(folder, 60)
    (folder / "locks" / "lock-1").write(b"")  # it is written anew
    lock.check()
    (folder / "locks" / "lock-1").write(content)
    refused(lock.check)
    lock.release()
    assert read_whole(folder / "locks" / "lock-1") == content


def test_a_lock_that_is_not_there_for_a_moment_is_not_free() -> None:
    files, folder = locked_elsewhere()

    def between(url: str) -> None:
        files.before_read = lambda url: write_whole(folder / "locks" / "lock-4", OTHER)
        del files.content[url]  # the file system has deleted it to rename another one to it
        files.content["mem://checkpoint/locks/_lock-4.1"] = OTHER

    files.before_read = between
    refused(lambda: LeaseLock(folder, 3))


def test_a_lock_that_is_renewed_is_in_its_folder_all_the_time() -> None:
    files = MemoryFiles()
    missing: list[str] = []
    lock = LeaseLock(folder_in(files), 0.05)
    files.in_gap = missing.append
    first = files.content[LOCK]
    wait_until(lambda: files.content[LOCK] != first)
    lock.release()
    assert missing == []


def test_a_run_does_not_read_its_lock_while_it_writes_it() -> None:
    """HDFS fails to read a file whose blocks are replaced meanwhile."""
    files = MemoryFiles()
    lock = LeaseLock(folder_in(files), 60)
    reads: list[bool] = []
    files.before_read = lambda url: reads.append(lock._writing.locked())
    lock.check()
    assert reads == [True]
    lock.release()


def test_a_lock_is_renewed_again_after_failures_until_java_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    others = set(threading.enumerate())
    lock = LeaseLock(folder_in(files), 0.05)
    (renewing,) = set(threading.enumerate()) - others

    def fail(error: Exception) -> Callable[[str], None]:
        def raise_it(url: str) -> None:
            raise error

        return raise_it

    def check_renewed() -> None:
        written = files.content[LOCK]
        files.fails_to_write, files.before_read = False, lambda url: None
        wait_until(lambda: files.content[LOCK] != written)
        assert lock.is_held

    files.fails_to_write = True
    wait_until(lambda: "could not be renewed" in caplog.text)
    check_renewed()
    files.before_read = fail(ValueError("no answer"))
    wait_until(lambda: "could not be renewed: ValueError('no answer')" in caplog.text)
    check_renewed()
    files.before_read = fail(ConnectionRefusedError())  # an OSError, which is a CheckpointError elsewhere
    renewing.join(20)
    assert not renewing.is_alive()
    assert "ConnectionRefused" not in caplog.text
    files.before_read = lambda url: None
    lock.release()
    assert files.content[LOCK] == b"free"


@pytest.mark.parametrize("in_folders", [True, False])
def test_what_an_earlier_version_wrote_in_place_is_deleted_without_a_look_at_other_batches(
    monkeypatch: pytest.MonkeyPatch, in_folders: bool
) -> None:
    files = MemoryFiles()
    folder = folder_in(files, "all/windrow_batch=7/out")  # a sink may lie in the folder of a batch of another one
    stays = ["key=1/windrow_batch=6/a", "key=1/windrow_batch=77/a", "windrow_batch=6/a", "_windrow/batch-6"]
    gone = ["key=1/windrow_batch=7/a", "windrow_batch=7/a", ".spark-staging-1/key=1/windrow_batch=7/a"]
    for name in (*stays, *gone):
        write_whole(folder / name, name)
    looked: list[str] = []
    list_all = MemoryPath.rglob

    def rglob(self: MemoryPath, pattern: str) -> Iterator[MemoryPath]:
        looked.append(self.name)
        return list_all(self, pattern)

    monkeypatch.setattr(MemoryPath, "rglob", rglob)
    StagedBatch(folder, "mine", 7).begin(again=True, in_folders=in_folders)
    assert sorted(url.removeprefix(f"{folder.url}/") for url in files.content) == sorted(stays)
    assert looked == (["out"] if in_folders else [".spark-staging-1", "key=1"])


STAGED = ["part-1", "part-2", "key=a%2Fb/_new=1/part-1", "key=a%2Fb/_new=2/part-1"]
PLACES = [
    "key=a%2Fb/_new=1/windrow_batch=7/part-1",
    "key=a%2Fb/_new=2/windrow_batch=7/part-1",
    "windrow_batch=7/part-1",
    "windrow_batch=7/part-2",
]


def staged(folder: MemoryPath, *, again: bool = False) -> tuple[StagedBatch[MemoryPath], MemoryPath]:
    """A batch with files of an attempt, and with what a task of Spark's has left."""
    batch = StagedBatch(folder, "mine", 7)
    attempt = batch.begin(again=again, in_folders=True)
    for name in [*STAGED, "_temporary/0/part-9", "_SUCCESS", ".part-1.crc"]:
        write_whole(attempt / name, f"{attempt.name} {name}")
    return batch, attempt


def visible(files: MemoryFiles) -> dict[str, bytes]:
    """The files that a reader takes who knows nothing of windrow."""
    found = {url.removeprefix("mem://sink/"): content for url, content in files.content.items()}
    return {
        name: content
        for name, content in found.items()
        if not any(part.startswith((".", "_")) and "=" not in part for part in name.split("/"))
    }


def all_names(files: MemoryFiles) -> list[str]:
    return sorted(url.removeprefix("mem://sink/") for url in files.content)


def attempts_seen(files: MemoryFiles) -> set[str]:
    return {content.split()[0].decode() for content in visible(files).values()}


@contextmanager
def stopped(files: MemoryFiles, in_gap: Callable[[str], None]) -> Iterator[None]:
    """Something happens within the moves of a batch, which is not published then; afterwards all is well again."""
    files.in_gap = in_gap
    with pytest.raises(OSError, match=r"is gone|is down"):
        yield
    files.fails, files.in_gap = False, lambda url: None


def test_a_batch_appears_when_all_of_it_is_written() -> None:
    files = MemoryFiles()
    batch, attempt = staged(folder_in(files, "sink"))
    assert visible(files) == {}
    assert not batch.is_begun()
    assert not batch.finish()
    batch.publish(attempt)
    assert sorted(visible(files)) == PLACES
    assert all_names(files) == sorted([*PLACES, "_windrow/batch-7"])
    assert files.content["mem://sink/_windrow/batch-7"] == b'{"query": "mine", "batch": 7}'
    assert batch.is_begun()


@pytest.mark.parametrize("moves", range(len(STAGED)))
@pytest.mark.parametrize("in_two_places", [False, True])
def test_a_batch_that_was_stopped_at_any_move_is_finished_and_not_written_again(
    moves: int, in_two_places: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = MemoryFiles()
    folder = folder_in(files, "sink")
    batch, attempt = staged(folder)
    monkeypatch.setattr("windrow_runtime.outputs.whole_files._AT_ONCE", 1)
    moved: list[str] = []

    def killed(url: str) -> None:
        if url.startswith("mem://sink/_"):
            return
        moved.append(url)
        if len(moved) == moves + 1:
            files.fails = True
            if not in_two_places:
                del files.content[url]
            raise OSError(errno.EIO, "the process is gone", url)

    with stopped(files, killed):
        batch.publish(attempt)
    before = visible(files)
    assert len(before) == moves + in_two_places
    assert list(begun_batches(folder, "mine", 7)) == [7]
    later = StagedBatch(folder, "mine", 7)
    assert later.finish()
    after = visible(files)
    assert sorted(after) == PLACES
    assert before.items() <= after.items()
    assert attempts_seen(files) == {attempt.name}
    assert all_names(files) == sorted([*PLACES, "_windrow/batch-7"])
    assert later.finish()
    assert visible(files) == after


def test_a_file_that_was_taken_away_behind_its_move_is_not_missed() -> None:
    files = MemoryFiles()
    folder = folder_in(files, "sink")
    batch, attempt = staged(folder)
    place = f"mem://sink/{PLACES[0]}"

    def taken(url: str) -> None:
        if url == place:
            del files.content[(attempt / STAGED[2]).url], files.content[place]
            files.fails = True
            raise OSError(errno.EIO, "the process is gone", url)

    with stopped(files, taken):
        batch.publish(attempt)
    assert StagedBatch(folder, "mine", 7).finish()
    assert sorted(visible(files)) == PLACES[1:]


def test_of_two_attempts_the_one_counts_that_lists_its_files_first() -> None:
    files = MemoryFiles()
    folder = folder_in(files, "sink")
    _, late = staged(folder)
    slow, first = staged(folder)
    fast, second = staged(folder, again=True)  # the process of the other one seemed dead
    met: list[dict[str, bytes]] = []

    def other_goes_on(url: str) -> None:
        if url.startswith("mem://sink/_"):
            return
        files.in_gap = lambda url: None
        fast.publish(second)
        met.append(visible(files))

    files.in_gap = other_goes_on
    slow.publish(first)
    done = visible(files)
    assert met == [done]
    assert sorted(done) == PLACES
    assert attempts_seen(files) == {first.name}
    # One comes when all is done and tidied up.
    write_whole(late / STAGED[0], "late")
    slow.publish(late)
    assert visible(files) == done
    assert all_names(files) == sorted([*PLACES, "_windrow/batch-7"])


def test_an_attempt_is_done_if_another_one_has_finished_meanwhile() -> None:
    files = MemoryFiles()
    folder = folder_in(files, "sink")
    slow, first = staged(folder)
    killed, second = staged(folder, again=True)

    def kill(url: str) -> None:
        files.fails = "windrow_batch" in url

    with stopped(files, kill):
        killed.publish(second)
    finished: list[bool] = []

    def finish(url: str) -> None:
        """A third one finishes what the list says before the slow one has read it."""
        if url.endswith("/files"):
            files.before_read = lambda url: None
            finished.append(StagedBatch(folder, "mine", 7).finish())

    files.before_read = finish
    slow.publish(first)
    assert finished == [True]
    assert sorted(visible(files)) == PLACES
    assert attempts_seen(files) == {second.name}
    # A list that is gone without a mark is an error.
    files = MemoryFiles()
    broken, third = staged(folder_in(files, "sink"))
    listed = third.parent / "files"
    write_whole(listed, "{}")
    files.before_read = lambda url: listed.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        broken.publish(third)


def test_what_dead_runs_have_staged_is_deleted() -> None:
    files = MemoryFiles()
    folder = folder_in(files, "sink")
    names = ["other/batch-7/files", "other/batch-8/attempt-1/a", "mine/batch-6/attempt-1/a", "mine/batch-8/attempt-1/a"]
    for name in [*names, "mine/batch-7/attempt-1/a"]:
        write_whole(folder / "_windrow" / "staging" / name, name)
    write_whole(folder / "_windrow" / "batch-7", b'{"query": "other", "batch": 7}')
    assert list(begun_batches(folder, "mine", 0)) == []
    clear_staging(folder, "mine", 7)
    assert all_names(files) == ["_windrow/batch-7", "_windrow/staging/mine/batch-7/attempt-1/a"]


def test_batches_that_readers_may_have_seen_are_told_from_others() -> None:
    files = MemoryFiles()
    folder = folder_in(files, "sink")
    for number, query in ((3, "mine"), (10, "mine"), (11, "other")):
        mark = f'{{"query": "{query}", "batch": {number}}}'
        write_whole(folder / "_windrow" / f"batch-{number}", mark)
    write_whole(folder / "_windrow" / "staging" / "mine" / "batch-12" / "files", "{}")
    write_whole(folder / "_windrow" / "staging" / "mine" / "batch-13" / "attempt-1" / "a", "{}")
    assert list(begun_batches(folder, "mine", 4)) == [10, 12]


def open_there(path: StoragePath) -> str:
    """What a planner does, in its own process."""
    (path / "below" / "2").unlink()
    said = [f"{file_numbers(path / 'below')}", f"{read_whole(path / 'below' / '1')!r}"]
    said += [f"{write_once(path / 'below' / '3', content)}" for content in (b"three", b"four")]
    for refused in (
        path.parent / "other" / "secret",
        path.parent / f"{path.name}-other",
        path / ".." / "other" / "secret",
    ):
        try:
            read_whole(refused)
        except OSError as error:
            said.append(f"{error.strerror}")
    try:
        read_whole(path / "none")
    except FileNotFoundError:
        said.append("none")
    return ", ".join(said)


def test_a_planner_opens_files_by_the_process_of_the_driver() -> None:
    files = MemoryFiles()
    folder = folder_in(files) / "sources"
    for name in ("1", "2"):
        write_whole(folder / "below" / name, name)
    write_whole(folder.parent / "other" / "secret", "it")
    write_whole(folder.parent / "sources-other", "it")
    shared = for_planners(folder)
    assert shared.absolute() == shared
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as planner:
        said = planner.submit(open_there, shared).result()
        denied = os.strerror(errno.EACCES)
        assert said == f"{{1}}, b'1', True, False, {denied}, {denied}, {denied}, none"
        assert files.content["mem://checkpoint/sources/below/3"] == b"three"
        files.fails = True
        with pytest.raises(OSError, match="the network is down"):
            planner.submit(read_whole, shared / "below" / "1").result()


def test_a_stranger_gets_no_answer_and_planners_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = folder_in(MemoryFiles())
    write_whole(folder / "1", "1")
    # A folder for temporary files may have too long a name for a socket.
    monkeypatch.setattr(planner_paths, "_socket", None)
    monkeypatch.setattr("multiprocessing.util.get_temp_dir", lambda: str(tmp_path / ("long" * 30)))
    shared = for_planners(folder)
    assert isinstance(shared, PlannerPath)
    with pytest.raises(AuthenticationError):
        PlannerPath(shared.url, shared._address, b"guessed").read_bytes()
    with pytest.raises(OSError, match="Permission denied"):
        shared._ask("clear")
    assert (shared / "1").read_bytes() == b"1"


def test_planners_do_not_wait_for_each_other() -> None:
    files = MemoryFiles()
    folder = folder_in(files)
    write_whole(folder / "1", "1")
    write_whole(folder / "slow", "2")
    shared = for_planners(folder)
    assert isinstance(shared, PlannerPath)
    asked, answers = threading.Event(), threading.Event()

    def wait(url: str) -> None:
        if url.endswith("/slow"):
            asked.set()
            assert answers.wait(60)

    files.before_read = wait
    with Client(shared._address), ThreadPoolExecutor(1) as other:  # one has come, and says nothing
        slow = other.submit((shared / "slow").read_bytes)
        assert asked.wait(60)
        assert (shared / "1").read_bytes() == b"1"
        answers.set()
        assert slow.result() == b"2"


def test_a_driver_that_is_gone_is_no_missing_file(tmp_path: Path) -> None:
    url = "mem://ann:secret@checkpoint/clock"
    for address in (str(tmp_path / "gone"), ("localhost", 9)):  # a driver that has ended, and one that was killed
        clock = ClockFiles(PlannerPath(url, address, b"key"))
        with pytest.raises(CheckpointError, match="the driver does not answer") as caught:
            clock.find(3)
        assert "secret" not in str(caught.value)


def test_a_mounted_folder_is_opened_by_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert for_planners(Path("clock")) == tmp_path / "clock"


def test_a_note_that_the_driver_cannot_write_fails_no_batch(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    note = Checkpoint(folder_in(files)).newest_batch
    noted = _NotedNumber(note)
    assert noted.addInPlace(-1, 4) == 4
    files.fails_to_write = True
    assert noted.addInPlace(4, 5) == 5
    assert "batch 5 could not be noted in the checkpoint: [Errno 5] the network is down" in caplog.text
    files.fails_to_write = False
    assert noted.addInPlace(5, 4) == 5
    assert note.batch() == 4
    assert noted.addInPlace(5, 6) == 6
    assert note.batch() == 6
    # Workers only tell the number.
    there = pickle.loads(pickle.dumps(noted))
    assert there.addInPlace(there.zero(6), 9) == 9
    assert note.batch() == 6
