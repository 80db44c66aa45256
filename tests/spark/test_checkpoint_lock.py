"""One run at a time uses a checkpoint."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from windrow.errors import CheckpointError, WindrowWarning
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.lock import CheckpointLock

# Holds a checkpoint, as a driver does, and has a child that outlives it, as the JVM does for a moment.
PROGRAM = """
import subprocess, sys, time
from pathlib import Path
from windrow_spark.checkpoint.lock import CheckpointLock
lock = CheckpointLock(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "600"], close_fds=False)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_second_run_of_this_process_is_refused(tmp_path: Path) -> None:
    lock = CheckpointLock(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(CheckpointError, match="another run uses the checkpoint") as caught:
        CheckpointLock(tmp_path / "link")
    assert f"process {os.getpid()} on " in str(caught.value.given)
    assert ", since 20" in str(caught.value.given)
    lock.release()
    lock.release()
    CheckpointLock(tmp_path).release()


def test_a_run_that_is_over_gives_way_though_nobody_has_asked_for_its_end(tmp_path: Path) -> None:
    lock = CheckpointLock(tmp_path)
    lock.is_owner_live = lambda: False
    later = CheckpointLock(tmp_path)
    lock.release()
    with pytest.raises(CheckpointError):
        CheckpointLock(tmp_path)
    later.release()


@pytest.mark.program
def test_a_process_that_is_killed_leaves_the_checkpoint_though_its_child_lives(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        try:
            with pytest.raises(CheckpointError) as caught:
                CheckpointLock(tmp_path)
            assert f"process {holder.pid} on " in str(caught.value.given)
            holder.kill()
            holder.wait()
            os.kill(child, 0)  # it lives
            CheckpointLock(tmp_path).release()
        finally:
            holder.kill()
            os.kill(child, signal.SIGKILL)


def test_a_file_system_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: int, operation: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.warns(WindrowWarning, match="has no locks"):
        CheckpointLock(tmp_path).release()


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "in-use").symlink_to(precious)
    with pytest.raises(CheckpointError, match="in-use"):
        CheckpointLock(tmp_path)
    assert precious.read_text() == "kept"


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_a_checkpoint_is_its_owners_alone(tmp_path: Path, exists: bool, inside: bool) -> None:
    folder = tmp_path / "made" / ("windrow" if inside else "checkpoint")
    if exists:
        folder.mkdir(parents=True, mode=0o755)
    Checkpoint.at(folder, inside=inside)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    if inside and not exists:
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700  # with Spark's part, and so the state


def test_a_folder_with_other_files_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    tmp_path.chmod(0o3775)
    Checkpoint.at(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o3775


@pytest.mark.parametrize("name", ["spark", "spark/state", "clock", "control", "results", "sources"])
def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    other, link = tmp_path / "other", tmp_path / "checkpoint" / name
    other.mkdir()
    link.parent.mkdir(parents=True)
    link.symlink_to(other)
    with pytest.raises(CheckpointError, match=rf"it is a link(.|\n)*{name}"):
        Checkpoint.at(tmp_path / "checkpoint")
