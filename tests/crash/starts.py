"""Starts the processes that crash tests kill, each with all its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def started(
    folder: Path, module: str, arguments: Sequence[str], submit_arguments: str | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a module in a process whose output goes to the log of a folder; kills it at the end of the block."""
    variables = {} if submit_arguments is None else {"PYSPARK_SUBMIT_ARGS": submit_arguments}
    with (folder / "log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, **variables},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        if child.poll() is None:
            kill(child)


def await_moment(
    child: subprocess.Popen[bytes], folder: Path, has_come: Callable[[], bool], what: str, seconds: float
) -> None:
    """Waits until a moment has come, or the process has ended.

    Raises:
        TimeoutError: If neither comes in this time; the error says what the process said last.
    """
    end = time.monotonic() + seconds
    while child.poll() is None and not has_come():
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} in {seconds:.0f} s\n{log_end(folder)}")
        time.sleep(0.01)


def end_of(child: subprocess.Popen[bytes], seconds: float | None) -> int:
    """Waits for the end of a process, kills it after some seconds, and returns its exit code; -9 if it was killed."""
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return kill(child)


def kill(child: subprocess.Popen[bytes]) -> int:
    """Kills a process with all its processes, and returns its exit code."""
    os.killpg(child.pid, signal.SIGKILL)
    return child.wait()


def log_end(folder: Path) -> str:
    """Returns what the processes of a folder said last."""
    return (folder / "log").read_text(encoding="utf-8", errors="replace")[-3000:]
