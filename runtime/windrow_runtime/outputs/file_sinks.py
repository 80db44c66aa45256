"""Writes file sinks, for both engines alike: their folders, those of their batches, and the files in these.

The folder of a file sink belongs to one run, and to the runs that go on from its checkpoint; others are refused.
Batches are numbered from 0 by each run that begins anew, so the batches of two of them in one folder would replace each
other in part. A run notes its identity in the folder before its first batch, and locks the folder as long as it lives.

The folder of a batch is written aside, and made visible as a whole. Readers pass over names that begin with an
underscore. No name has an equals sign: readers would take the folder for the value of a column, in front of a column of
that name that the files have.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from windrow.addresses.paths import BATCH_FOLDER, local_path
from windrow.errors import SinkError
from windrow.plan import Step
from windrow.sinks import FileSink
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.text_files import LineEncoder, line_encoder
from windrow_runtime.operators.errors import field_errors, sink_errors
from windrow_runtime.operators.topology import sink_of
from windrow_runtime.outputs.folder_lock import lock_folder
from windrow_runtime.outputs.output import Output

if TYPE_CHECKING:
    from windrow_runtime.codecs.arrow.parquet import ParquetWriter

# Any in this module: sinks of elements of every type, and pyarrow has no types.

_OWNER: Final = "_windrow"
_BATCH_NAME: Final = re.compile(rf"(_?{BATCH_FOLDER}|_replaced-)\d+", re.ASCII)


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file such that nobody sees half of it."""
    # Several tasks may write the same: each has a name of its own aside. Spark does not list names with an underscore.
    aside = file.with_name(f"_{file.name}.{os.getpid()}")
    aside.write_bytes(content if isinstance(content, bytes) else content.encode())
    aside.replace(file)


def check_folders(sinks: Iterable[Step], run: str, *, begins: bool) -> None:
    """Refuse file sinks that a run may not or cannot write with a ``SinkError``, and change nothing.

    Folders in other file systems are passed over. ``run`` is the identity of the checkpoint, or one of the run's own;
    ``begins`` says whether no batch of the run was begun before.
    """
    for step, sink, folder in _file_sinks(sinks):
        with sink_errors(step, sink.path):
            # A batch that never became whole is in nobody's way.
            batches = [name for name in _batches(folder) if not name.startswith(f"_{BATCH_FOLDER}")]
            if batches and _owner(folder) != run and not (sink.overwrite and begins):
                others = f" and {len(batches) - 1} more" if len(batches) > 1 else ""
                raise other_run(step, f"{sink.shown_path} with {batches[0]}{others}", begins=begins)
            _check_writable(folder)


def claim_folders(
    sinks: Sequence[Step], run: str, *, begins: bool, is_live: Callable[[], bool] = lambda: True
) -> ExitStack:
    """Make the folders of file sinks those of a run, if :func:`check_folders` accepts them all.

    Other runs are refused until the stack that is returned is closed or ``is_live`` returns False, where the file
    system has locks. Elsewhere :func:`check_owner` finds out that another run took a folder.
    """
    check_folders(sinks, run, begins=begins)
    with ExitStack() as held:
        for step, sink, folder in _file_sinks(sinks):
            with sink_errors(step, sink.path):
                folder.mkdir(parents=True, exist_ok=True)
                if not lock_folder(folder, held, is_live):
                    raise SinkError(
                        "another run writes to the folder of a file sink",
                        given=sink.shown_path,
                        expected="a folder for each run",
                        where=step.where,
                        hint="give each run a folder of its own, or wait for the end of the other one",
                    )
        # A run may have written a batch, and have ended, before the folders were locked.
        check_folders(sinks, run, begins=begins)
        for step, sink, folder in _file_sinks(sinks):
            with sink_errors(step, sink.path):
                if _owner(folder) != run:
                    for path in (folder / name for name in _batches(folder)):
                        if path.is_dir() and not path.is_symlink():
                            shutil.rmtree(path)
                        else:
                            path.unlink()
                    write_whole(folder / _OWNER, f"{run}\n")
        return held.pop_all()


def check_owner(sinks: Iterable[Step], run: str) -> None:
    """Raises a ``SinkError`` where another run has taken the folder of a file sink.

    It is called before each batch, and again before the files of the batch become visible, much later.
    """
    for step, sink, folder in _file_sinks(sinks):
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


def file_sink_of(step: Step) -> FileSink[Any]:
    """The file sink of a step."""
    sink = sink_of(step)
    assert isinstance(sink, FileSink)
    return sink


def _file_sinks(sinks: Iterable[Step]) -> Iterator[tuple[Step, FileSink[Any], Path]]:
    """Yields the file sinks in mounted file systems, with their folders."""
    for step in sinks:
        sink = sink_of(step)
        path = local_path(sink.path) if isinstance(sink, FileSink) else None
        if isinstance(sink, FileSink) and path is not None:
            yield step, sink, Path(path)


def _check_writable(folder: Path) -> None:
    """Raise the error that making the folder, or a file in it, would raise."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    number = errno.ENOTDIR if not there.is_dir() else errno.EACCES if not os.access(there, os.W_OK) else None
    if number is not None:
        raise OSError(number, os.strerror(number), str(there))


def _batches(folder: Path) -> list[str]:
    try:
        return sorted(filter(_BATCH_NAME.fullmatch, os.listdir(folder)))
    except FileNotFoundError:
        return []


def _owner(folder: Path) -> str | None:
    try:
        return (folder / _OWNER).read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class BatchFolder:
    """The files of one batch in a mounted file system. They are replaced all at once where the batch is run again.

    A batch is written between :meth:`begin` and :meth:`publish`. A process that dies at any moment leaves a batch that
    is whole, the old one or the new one, or none; the next :meth:`begin` clears the rest.
    """

    sink: Path
    batch: int

    @property
    def visible(self) -> Path:
        """The folder in which readers find the files."""
        return self.sink / f"{BATCH_FOLDER}{self.batch}"

    @property
    def aside(self) -> Path:
        """The folder in which the files are written."""
        return self.sink / f"_{BATCH_FOLDER}{self.batch}"

    @property
    def replaced(self) -> Path:
        """The folder of an earlier attempt's files while others take their place; whole, unless those have."""
        return self.sink / f"_replaced-{self.batch}"

    def begin(self) -> None:
        """Clear what an attempt left that died."""
        if not self.visible.exists():
            # It died when the old files had gone aside and the new ones had not come.
            with suppress(FileNotFoundError):
                os.rename(self.replaced, self.visible)
        _clear(self.replaced)
        _clear(self.aside)

    def keep(self, names: set[str]) -> list[str]:
        """Delete all files that were written aside but those of these names; gives the names that have no file."""
        found = set(os.listdir(self.aside)) if self.aside.is_dir() else set()
        # A network file system may list a folder as it was some time ago, so that it is asked again, by name.
        missing = sorted(name for name in names - found if not (self.aside / name).exists())
        if not missing:
            for name in found - names:
                (self.aside / name).unlink()
        return missing

    def publish(self) -> None:
        """Make what was written aside the files of the batch; if that fails, it has the files from before.

        A reader finds the files from before; for a moment none; then the new ones.
        """
        replaces = self.visible.exists()
        if replaces:
            os.rename(self.visible, self.replaced)
        try:
            os.rename(self.aside, self.visible)
        except OSError:
            if replaces:
                os.rename(self.replaced, self.visible)
            raise
        _clear(self.replaced)

    def withdraw(self) -> None:
        """Delete the files of the batch, if it has any."""
        _clear(self.aside)
        # Not where a batch waits that may come back: what is deleted there in part must not.
        with suppress(FileNotFoundError):
            os.rename(self.visible, self.aside)
        _clear(self.aside)
        _clear(self.replaced)


def _clear(folder: Path) -> None:
    """Delete a folder, or what can be of it. If the rest is in the way of a rename, the rename raises."""
    # On a network file system a folder stays as long as somebody reads in it.
    shutil.rmtree(folder, ignore_errors=True)


class PartFile:
    """One file of a batch of a file sink, made with the first element. Methods that fail raise a ``SinkError``."""

    def __init__(self, step: Step, kind: RecordType, folder: Path, name: str) -> None:
        sink = file_sink_of(step)
        self._step = step
        self._address = sink.path
        self._format = _format_of(sink, kind)
        self._folder = folder
        self.name = name + self._format.ending
        self.exists = False

    def write(self, values: Sequence[object]) -> int:
        """Write elements; returns about how many bytes they take before they are compressed."""
        with field_errors(self._step.where):
            content = self._format.encode(values)
        return self.write_content(content) if values else 0

    def write_content(self, content: Any) -> int:
        """As :meth:`write`, for elements, at least one, that are lines or an Arrow batch already."""
        with sink_errors(self._step, self._address):
            if not self.exists:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._format.open(self._folder / self.name)
                self.exists = True
            return self._format.append(content)

    def close(self) -> None:
        """Finish the file."""
        if self.exists:
            with sink_errors(self._step, self._address):
                self._format.close()


class FileOutput(Output):
    """Writes the batches of a file sink in a mounted file system, a file each; one written again replaces itself."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._address = file_sink_of(step).path
        self._kind = record_type(step.node.element_type)

    def write(self, batch: int, values: Sequence[object]) -> None:
        path = local_path(self._address)
        assert path is not None, "the sink was checked"
        folder = BatchFolder(Path(path), batch)
        with sink_errors(self._step, self._address):
            if not values:
                folder.withdraw()
                return
            folder.begin()
            with closing(PartFile(self._step, self._kind, folder.aside, "part-0")) as file:
                file.write(values)
            folder.publish()


class _Lines:
    """Writes one file of lines, by the methods that ``ParquetWriter`` has."""

    def __init__(self, encoder: LineEncoder) -> None:
        self.ending = encoder.ending
        self._encoder = encoder

    def encode(self, values: Sequence[object]) -> str:
        encode = self._encoder.encode
        return "".join([f"{encode(value)}\n" for value in values])

    def open(self, file: Path) -> None:
        self._file = file.open("w", encoding="utf-8", newline="\n")
        if self._encoder.header is not None:
            self._file.write(f"{self._encoder.header}\n")

    def append(self, content: str) -> int:
        return self._file.write(content)

    def close(self) -> None:
        self._file.close()


def _format_of(sink: FileSink[Any], kind: RecordType) -> _Lines | ParquetWriter:
    encoder = line_encoder(sink, kind)
    if encoder is not None:
        return _Lines(encoder)
    # Arrow only where Parquet is written: the interpreter runs without it.
    from windrow_runtime.codecs.arrow.parquet import ParquetWriter

    return ParquetWriter(kind)
