"""The folder of a file sink belongs to one run, and to the runs that go on from its checkpoint; others are refused.

Batches are numbered from 0 by each run that begins anew, so the batches of two of them in one folder would replace each
other in part. A run notes its identity in the folder before its first batch; readers pass over the file.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from windrow.addresses.paths import local_path
from windrow.errors import SinkError
from windrow.plan import SinkNode, Step
from windrow.sinks import FileSink
from windrow_runtime.operators.errors import sink_errors
from windrow_runtime.outputs.batch_folder import is_batch_folder, is_unfinished
from windrow_runtime.outputs.whole_files import write_whole

_OWNER: Final = "_windrow"


def check_folders(sinks: Iterable[Step], run: str, *, begins: bool) -> None:
    """Refuse file sinks that a run may not or cannot write, and change nothing.

    Folders in other file systems are passed over.

    Args:
        sinks: The sinks of the run.
        run: The identity of the run: that of its checkpoint, or one of its own.
        begins: Whether no batch of the run was begun before.

    Raises:
        SinkError: If a folder holds batches of another run that may not be overwritten, or cannot be written.
    """
    for step, sink, folder in filter(None, map(_folder, sinks)):
        with sink_errors(step, sink.path):
            batches = [name for name in _batches(folder) if not is_unfinished(name)]
            if batches and _owner(folder) != run and not (sink.overwrite and begins):
                raise other_run(step, f"{sink.shown_path} with {_shown(batches)}", begins=begins)
            _check_writable(folder)


def claim_folders(sinks: Sequence[Step], run: str, *, begins: bool) -> None:
    """Make the folders of file sinks those of a run; called before the run writes anything.

    Args:
        sinks: As for :func:`check_folders`.
        run: As for :func:`check_folders`.
        begins: As for :func:`check_folders`.

    Raises:
        SinkError: As :func:`check_folders`, before the first folder is changed.
    """
    check_folders(sinks, run, begins=begins)
    for step, sink, folder in filter(None, map(_folder, sinks)):
        with sink_errors(step, sink.path):
            folder.mkdir(parents=True, exist_ok=True)
            if _owner(folder) != run:
                for name in _batches(folder):
                    _remove(folder / name)
                write_whole(folder / _OWNER, f"{run}\n")


def check_owner(sinks: Iterable[Step], run: str) -> None:
    """Refuse to write where another run has begun; called before each batch.

    Raises:
        SinkError: If the folder of a file sink is that of another run, which began while this one ran.
    """
    for step, sink, folder in filter(None, map(_folder, sinks)):
        with sink_errors(step, sink.path):
            if _owner(folder) not in (run, None):
                raise SinkError(
                    "another run has taken the folder of a file sink while this one ran",
                    given=sink.shown_path,
                    expected="a folder for each run",
                    where=step.where,
                    hint="give each run a folder of its own",
                )


def other_run(step: Step, given: str, *, begins: bool = True) -> SinkError:
    """The error for a folder that holds the batches of another run."""
    return SinkError(
        "the folder of a file sink holds the batches of another run, and this run's would be mixed with them",
        given=given,
        expected="a folder without batches, or that of the run whose checkpoint this one goes on from",
        where=step.where,
        hint="give the sink another folder, or overwrite=True, or the runner the checkpoint of that run"
        if begins
        else "the earlier batches of this checkpoint are not there, so give the sink another folder",
    )


def _folder(step: Step) -> tuple[Step, FileSink[Any], Path] | None:  # Any: of elements of every type
    sink = step.node.sink if isinstance(step.node, SinkNode) else None
    path = local_path(sink.path) if isinstance(sink, FileSink) else None
    return (step, sink, Path(path)) if isinstance(sink, FileSink) and path is not None else None


def _check_writable(folder: Path) -> None:
    """Raise the error that making the folder, or a file in it, would raise."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    number = errno.ENOTDIR if not there.is_dir() else errno.EACCES if not os.access(there, os.W_OK) else None
    if number is not None:
        raise OSError(number, os.strerror(number), str(there))


def _batches(folder: Path) -> list[str]:
    try:
        return sorted(filter(is_batch_folder, os.listdir(folder)))
    except FileNotFoundError:
        return []


def _owner(folder: Path) -> str | None:
    try:
        return (folder / _OWNER).read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None


def _shown(batches: list[str]) -> str:
    return batches[0] if len(batches) == 1 else f"{batches[0]} and {len(batches) - 1} more"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
