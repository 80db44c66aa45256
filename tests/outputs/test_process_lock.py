"""Locks are those of one process: what it forks keeps none, releases none, and closes and deletes nothing of its."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from windrow import Pipeline, from_collection
from windrow.connectors import CustomSink, SinkContext
from windrow.sinks import FunctionSink, JsonFileSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs.process_lock import LockedError, OwnStack, ProcessLock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


def is_locked(path: Path) -> bool:
    """Whether another process is refused; one lock more of this process would show nothing else."""
    program = (
        "import sys; from pathlib import Path; from windrow_runtime.outputs.process_lock import *\n"
        "try: ProcessLock(Path(sys.argv[1]))\n"
        "except LockedError: print('locked')"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    return done.stdout == "locked\n"


@contextmanager
def forked(work: Callable[[], object] = lambda: None) -> Iterator[int]:
    """A child that does some work, and then lives until the block ends; yields when the work is done."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
            os.write(writer, b"done")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writer)
    try:
        assert os.read(reader, 4) == b"done"
        yield child
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_child_keeps_no_lock_that_its_parent_releases(tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path)
    with forked():
        assert is_locked(tmp_path)
        lock.release()
        ProcessLock(tmp_path).release()
        assert not is_locked(tmp_path)


def test_a_child_releases_no_lock_of_its_parent(tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path)

    def work() -> None:
        assert not lock.is_held
        lock.release()
        with pytest.raises(LockedError):
            ProcessLock(tmp_path)

    with forked(work):
        assert lock.is_held
        assert is_locked(tmp_path)
    lock.release()


def test_the_lock_of_a_parent_that_dies_is_free_though_its_child_lives(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from windrow_runtime.outputs.process_lock import ProcessLock\n"
        "lock = ProcessLock(Path(sys.argv[1])); child = os.fork()\n"
        "if child: print(child, flush=True)\n"
        "signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert is_locked(tmp_path)
            parent.kill()
            parent.wait()
            os.kill(child, 0)  # it lives
            assert not is_locked(tmp_path)
        finally:
            parent.kill()
            os.kill(child, signal.SIGKILL)


def test_a_fork_beside_a_thread_that_takes_locks(tmp_path: Path) -> None:
    over = threading.Event()
    folders = [tmp_path / str(number) for number in range(2)]
    for folder in folders:
        folder.mkdir()

    def take() -> None:
        while not over.is_set():
            with ExitStack() as held:
                for folder in folders:
                    held.callback(ProcessLock(folder).release)

    thread = threading.Thread(target=take)
    thread.start()

    def work() -> None:
        # The thread, which is not here, has nothing locked for ever.
        ProcessLock(tmp_path).release()

    try:
        for _ in range(20):
            with forked(work):
                pass
    finally:
        over.set()
        thread.join()
    with forked():
        for folder in folders:
            ProcessLock(folder).release()


def test_a_child_that_ends_within_a_block_closes_nothing(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    with OwnStack() as stack:
        stack.callback(closed.touch)
        with forked(stack.close):
            assert not closed.exists()
    assert closed.exists()


class Connection(CustomSink[int]):
    """Tells its end to a server that the child knows as well."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def open(self, context: SinkContext) -> None:
        pass

    def write(self, batch: int, rows: Sequence[int]) -> None:
        pass

    def close(self) -> None:
        with self._file.open("a") as file:
            file.write(f"closed by {os.getpid()}\n")


def test_a_sink_that_forks(tmp_path: Path) -> None:
    children: list[int] = []

    def fork(batch: int, numbers: Sequence[int]) -> None:
        if (child := os.fork()) == 0:
            sys.exit(3)  # leaves the blocks of the run in the child
        children.append(child)

    numbers = from_collection([1, 2, 3])
    lines = numbers.map(lambda number: {"n": number}).returns(dict[str, int]).sink_to(JsonFileSink(tmp_path / "out"))
    witness = tmp_path / "witness"
    pipeline = Pipeline("forks", lines, numbers.sink_to(Connection(witness)), numbers.sink_to(FunctionSink(fork)))
    parent = os.getpid()
    try:
        LocalRunner().run(pipeline)
    except BaseException:
        if os.getpid() != parent:
            os._exit(3)
        raise
    _, status = os.waitpid(children[0], 0)
    assert os.waitstatus_to_exitcode(status) == 3
    assert witness.read_text() == f"closed by {parent}\n"
