"""Claims the folders of file sinks for a run, and refuses those of other runs; for both engines.

The folder of a file sink belongs to one run, and to the runs that go on from its checkpoint; others are refused.
Each run that begins anew numbers its batches from 0, so the batches of two of them in one folder would partly replace
each other. A run notes its identity in the folder before its first batch, and locks the folder as long as it lives.

The files of a batch are written into a staging folder, and published when they are complete. Readers pass over names
that begin with an underscore. Names have an equals sign only where ``partition_by`` asks for it: readers would take
the folder for the value of a column, which hides a column of that name in the files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from windrow.errors import SinkError
from windrow.plan import Step
from windrow.sinks import FileSink
from windrow_runtime.connectors.files.batch_files import batches_in, columns_in, remove_batches
from windrow_runtime.connectors.files.partition_columns import Partitions, folder_columns, partitions_of
from windrow_runtime.operators.errors import sink_errors
from windrow_runtime.operators.topology import sink_of
from windrow_runtime.outputs.process_lock import HAS_LOCKS, LockedError, ProcessLock
from windrow_runtime.outputs.whole_files import check_no_link

# Any in this module: sinks of elements of every type.

_Release = Callable[[], None]

OWNER: Final = "_windrow"
"""The folder in that of a sink with files of windrow's own, which readers pass over."""


def check_folder(sink: FileSink[Any], step: Step, folder: Path, run: str, *, begins: bool) -> None:
    """Raise a ``SinkError`` for the folder of a sink that a run may not or cannot write; changes nothing.

    ``run`` is the identity of the checkpoint, or one of the run's own; ``begins`` says whether no batch of the run was
    begun before.
    """
    partitions = partitions_of(step)
    with sink_errors(step, sink.path):
        # Batches that were never completed do not count.
        batches = batches_in(folder)
        if batches and owner_of(folder) != run and not (sink.overwrite and begins):
            others = f" and {len(batches) - 1} more" if len(batches) > 1 else ""
            raise other_run(step, f"{sink.shown_path} with {batches[0]}{others}", begins=begins)
        if batches and owner_of(folder) == run:
            _check_layout(step, folder, partitions, batches[0])
        _check_writable(folder)


def lock_folder(sink: FileSink[Any], step: Step, folder: Path, is_live: Callable[[], bool]) -> _Release | None:
    """Lock the folder of a sink, and return what releases it; None: its file system has no locks."""
    with sink_errors(step, sink.path):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            return ProcessLock(folder.resolve(), is_live).release if HAS_LOCKS else None
        except LockedError:
            raise SinkError(
                "another run writes to the folder of a file sink",
                given=sink.shown_path,
                expected="a folder for each run",
                where=step.where,
                hint="give each run a folder of its own, or wait for the end of the other one",
            ) from None


def own_folder(sink: FileSink[Any], step: Step, folder: Path, run: str) -> None:
    """Note a run as the owner of a folder, and remove the batches of the runs before."""
    with sink_errors(step, sink.path):
        if owner_of(folder) != run:
            remove_batches(folder)
            _set_owner(folder, run)


def check_owner(sink: FileSink[Any], step: Step, folder: Path, run: str) -> None:
    """Raises a ``SinkError`` if another run has taken the folder of a sink.

    It is called before each batch, and again, much later, before the files of the batch are published.
    """
    with sink_errors(step, sink.path):
        if owner_of(folder) not in (run, None):
            raise taken_folder(sink, step)


def taken_folder(sink: FileSink[Any], step: Step) -> SinkError:
    """Returns the error for a folder that another run has taken."""
    return SinkError(
        "another run has taken the folder of a file sink while this one ran",
        given=sink.shown_path,
        expected="a folder for each run",
        where=step.where,
        hint="give each run a folder of its own",
    )


def other_run(step: Step, given: str, *, begins: bool = True) -> SinkError:
    """Returns the error for a folder that holds the batches of another run."""
    return SinkError(
        "the folder of a file sink holds the batches of another run, and this run's would be mixed with them",
        given=given,
        expected="a folder without batches, or that of the run whose checkpoint this one goes on from",
        where=step.where,
        hint="give the sink another folder, or overwrite=True, or the runner the checkpoint of that run"
        if begins
        else "the earlier batches of this checkpoint are not there, so give the sink another folder",
    )


def file_sink_of(step: Step) -> FileSink[Any]:
    """Returns the file sink of a step."""
    sink = sink_of(step)
    assert isinstance(sink, FileSink)
    return sink


def _check_writable(folder: Path) -> None:
    """Raise the error that creating the folder, or a file in it, would raise."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    number = errno.ENOTDIR if not existing.is_dir() else errno.EACCES if not os.access(existing, os.W_OK) else None
    if number is not None:
        raise OSError(number, os.strerror(number), str(existing))


def _check_layout(step: Step, folder: Path, partitions: Partitions | None, shown: str) -> None:
    """Refuse to go on with another ``partition_by``, since a batch that runs again would not replace its files."""
    columns = folder_columns(partitions)
    before = columns_in(folder)
    if before is not None and before != columns:
        raise SinkError(
            "the folder of a file sink has batches that are laid out by other fields",
            given=f"{shown}, laid out by {', '.join(before) or 'no field'}",
            expected=f"batches laid out by {', '.join(columns) or 'no field'}",
            where=step.where,
            hint="keep partition_by as it was, or give the sink another folder",
        )


def owner_of(folder: Path) -> str | None:
    """Returns the identity of the run that a folder belongs to."""
    check_no_link(folder / OWNER)
    try:
        names = os.listdir(folder / OWNER)
    except FileNotFoundError:
        return None
    return " ".join(names) or None


def _set_owner(folder: Path, run: str) -> None:
    """Note the identity of a run as the name of an empty file, since some readers open all files that are not empty."""
    note = folder / OWNER
    note.mkdir(exist_ok=True)
    for other in note.iterdir():
        other.unlink()
    (note / run).touch()
