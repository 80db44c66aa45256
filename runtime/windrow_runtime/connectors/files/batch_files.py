"""Publishes the files of one batch of a file sink, into its folder or folders of values such as ``day=2026-03-01``.

No rename makes several files visible at once. So once all files are complete, a list of them is written, and then each
is renamed to its visible name. If the process is killed in between, the next run of the batch first completes the
renames that the list names. A batch that has a list is not written again, so that no file that a reader may have seen
goes or becomes another one. The lists lie in a folder that readers pass over.

A list is a folder with an empty file for each file of the batch, at the same path, as ``json-0`` for ``part-0.json``:
a reader that looks for names by a pattern, or opens all files that are not empty, as Polars does, finds nothing in it.
The name of one more empty file has a checksum of the others. Files that a list names are touched only if their names
have the form that windrow gives to its files, and no link leads to them.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from windrow.addresses.paths import BATCH_PREFIX
from windrow_runtime.outputs.whole_files import change_all, check_no_link, checksum, clear

LISTS_KEPT: Final = 100
"""The number of batches whose lists are kept: as many as Spark keeps in a checkpoint, which may be rolled back."""

_LISTS: Final = "_batches"
_BEGUN: Final = ".begun"
_DONE: Final = ".files"
_CHECKSUM: Final = "checksum-"
_NUMBER: Final = r"[0-9a-f]+(-\d+)?"
_FORMAT: Final = "json|csv|txt|parquet"
_PART: Final = rf"part-{_NUMBER}\.({_FORMAT})"
_IS_ENTRY: Final = re.compile(rf"(?P<format>{_FORMAT})-(?P<number>{_NUMBER})", re.ASCII)
_IS_PART: Final = re.compile(_PART, re.ASCII)
_IS_FILE: Final = re.compile(rf"{BATCH_PREFIX}\d+-{_PART}", re.ASCII)
_IS_FOLDER_NAME: Final = re.compile(r"(?P<column>[^=/\x00]+)=[^/\x00]+")
_IS_LIST: Final = re.compile(rf"(?P<batch>0|[1-9]\d{{0,17}})({re.escape(_BEGUN)}|{re.escape(_DONE)})", re.ASCII)
_IS_ASIDE: Final = re.compile(rf"_{BATCH_PREFIX}\d+", re.ASCII)


class BatchFiles:
    """Writes the files of one batch in a mounted file system, once.

    Files are written below ``staging`` between :meth:`begin` and :meth:`publish`. While they are published a reader
    finds only some of them. If the batch is run again, the files that it has stay.

    Args:
        sink: The folder of the sink, which may itself be a link.
        batch: The number of the batch.
        columns: The columns that name folders in it, as folders spell them. None: any, if all files are to be deleted.
    """

    def __init__(self, sink: Path, batch: int, columns: Sequence[str] | None = ()) -> None:
        self._sink = sink
        self._batch = batch
        self._columns = columns
        self.staging = sink / f"_{BATCH_PREFIX}{batch}"
        self._lists = sink / _LISTS
        self._done = self._lists / f"{batch}{_DONE}"
        self._begun = self._lists / f"{batch}{_BEGUN}"
        self._kept: set[str] | None = None

    def begin(self) -> None:
        """Complete the publication that an earlier attempt began, and clear the staging folder."""
        if os.path.lexists(self._begun):
            self._finish(lenient=True)
        clear(self.staging)

    def keep(self, names: set[str]) -> list[str]:
        """Delete all other files of the staging folder, unless some of these are missing; returns the missing names."""
        staged = set(_files(self.staging))
        # The listing of a network file system may be outdated, so that missing files are looked up by name.
        missing = sorted(name for name in names - staged if not (self.staging / name).exists())
        if not missing:
            change_all(lambda name: (self.staging / name).unlink(), [*staged - names])
            self._kept = names
        return missing

    def publish(self) -> None:
        """Publish the files of the staging folder as those of the batch, unless it has some."""
        if os.path.lexists(self._done):
            listed(self._done, self._columns)  # a damaged one is refused
            clear(self.staging)
            return
        self._begin_list(sorted(_files(self.staging) if self._kept is None else self._kept))
        self._finish(lenient=False)
        self._forget_old_lists()

    def withdraw(self) -> None:
        """Delete the files of the batch, if it has any, for a run that overwrites those of others."""
        if os.path.lexists(self._begun):
            self._finish(lenient=True)
        clear(self.staging)
        if os.path.lexists(self._done):
            self._begin_list([])
            self._finish(lenient=False)
            self._remove_done()
            clear(self.staging)

    def _begin_list(self, names: Sequence[str]) -> None:
        check_no_link(self._lists)
        listed(self._done, self._columns)  # before anything changes: a damaged one is refused
        self._lists.mkdir(exist_ok=True)
        # The staging folder is cleared with the rest of the batch, also where the process is killed here.
        unfinished = self.staging / "list"

        def note(name: str) -> None:
            entry = unfinished / name
            entry.parent.mkdir(parents=True, exist_ok=True)
            entry.touch(exist_ok=False)

        change_all(note, [*map(_entry_of, names), _checksum(self._batch, names)])
        os.replace(unfinished, self._begun)

    def _finish(self, *, lenient: bool) -> None:
        """Publish the files of the list that was begun; may be repeated from the beginning at any moment.

        It is ``lenient`` after an attempt that died: files that somebody has deleted since are passed over.
        """
        names = listed(self._begun, self._columns)
        # The files of a batch that is withdrawn.
        replaced = sorted(set(listed(self._done, self._columns)) - set(names))
        for folder in {name.rpartition("/")[0] for name in (*names, *replaced)}:
            self._check_no_links(folder)
        for name in replaced:
            path = self._place(name)
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
            self._remove_empty(path.parent)

        def move(name: str) -> None:
            path = self._place(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.replace(self.staging / name, path)
            except FileNotFoundError:
                if not (lenient or path.exists()):
                    raise

        change_all(move, names)
        self._remove_done()
        os.replace(self._begun, self._done)
        clear(self.staging)

    def _forget_old_lists(self) -> None:
        """Delete the lists of batches that are too old to run again; their files stay."""
        for name in _names_in(self._lists):
            match = _IS_LIST.fullmatch(name)
            if match is not None and name.endswith(_DONE) and int(match["batch"]) <= self._batch - LISTS_KEPT:
                clear(self._lists / name)

    def _remove_done(self) -> None:
        """Remove the list of the batch's earlier files, atomically."""
        if os.path.lexists(self._done):
            self.staging.mkdir(exist_ok=True)
            os.replace(self._done, self.staging / "replaced")

    def _check_no_links(self, folder: str) -> None:
        """Refuse a folder of values that is a link, in the sink's folder and in the staging folder."""
        for base in (self._sink, self.staging):
            path = base
            for name in folder.split("/") if folder else ():
                path /= name
                check_no_link(path)
        check_no_link(self.staging)

    def _place(self, name: str) -> Path:
        """Returns the visible path of a file, by its name in the staging folder."""
        folder, _, file = name.rpartition("/")
        return self._sink / folder / f"{BATCH_PREFIX}{self._batch}-{file}"

    def _remove_empty(self, folder: Path) -> None:
        with suppress(OSError):
            while folder != self._sink:
                folder.rmdir()
                folder = folder.parent


def batches_in(sink: Path) -> list[str]:
    """Returns names in the folder of a sink that show that a run has written batches there, completely or in part.

    They are the lists of files, or without lists, which somebody may have deleted, the files of batches.
    """
    lists = [f"{_LISTS}/{name}" for name in _lists_in(sink)]
    return lists or sorted(_unlisted_in(sink, ""))


def newest_batch_in(sink: Path) -> int | None:
    """Returns the highest number of a batch that was published in the folder of a sink, completely or in part."""
    return max((int(name.partition(".")[0]) for name in _lists_in(sink)), default=None)


def _unlisted_in(sink: Path, folder: str) -> Iterator[str]:
    """Yields the files of batches in the folder of a sink and in its folders of values, listed or not."""
    for name in _names_in(sink / folder):
        if _IS_FILE.fullmatch(name):
            yield f"{folder}{name}"
        elif "=" in name and not (sink / folder / name).is_symlink():
            yield from _unlisted_in(sink, f"{folder}{name}/")


def columns_in(sink: Path) -> tuple[str, ...] | None:
    """Returns the partition columns of existing batches, spelled as in folder names; None without batches."""
    for name in _lists_in(sink):
        files = listed(sink / _LISTS / name, None)
        if files:
            return _columns_of(files[0])
    return None


def remove_batches(sink: Path) -> None:
    """Delete all batches in the folder of a sink, also unfinished ones, by the exact forms of their names."""
    for name in _lists_in(sink):
        listed(sink / _LISTS / name, None)  # refuses one of another form
        BatchFiles(sink, int(name.partition(".")[0]), None).withdraw()
    with suppress(OSError):
        (sink / _LISTS).rmdir()
    for name in list(_unlisted_in(sink, "")):
        (sink / name).unlink(missing_ok=True)
    for name in _names_in(sink):
        if _IS_ASIDE.fullmatch(name):
            clear(sink / name)


def listed(file: Path, columns: Sequence[str] | None) -> list[str]:
    """Returns the names of files in the list of a batch; none if there is no list.

    Args:
        file: The folder of the list.
        columns: The columns that name folders; None: any, the same in all names.

    Raises:
        OSError: If the list was changed, or names what no batch of such a sink has.
    """
    if not os.path.lexists(file):
        return []
    if file.is_symlink() or not file.is_dir() or file.suffix not in {_BEGUN, _DONE}:
        raise _damaged(file, "it is no folder, as lists are")
    entries = sorted(_entries(file))
    checksums = [name for name in entries if name.startswith(_CHECKSUM)]
    names = sorted(_name_of(name) for name in entries if not name.startswith(_CHECKSUM))
    if checksums != [_checksum(int(file.stem), names)]:
        raise _damaged(file, "its checksum is another one")
    for name in names:
        if not _is_ours(name):
            raise _damaged(file, f"{name!r} is no name of a file of a batch")
        expected = _columns_of(names[0]) if columns is None else tuple(columns)
        if _columns_of(name) != expected:
            raise _damaged(file, f"{name!r} is laid out by other fields")
    return names


def _checksum(batch: int, names: Sequence[str]) -> str:
    """Returns the name of the list's file with the checksum of the batch and of all names in the list."""
    return f"{_CHECKSUM}{checksum(str(batch), os.fsencode(chr(10).join(sorted(names))))}"


def _entry_of(name: str) -> str:
    """Returns the name under which a list has a file."""
    folder, slash, file = name.rpartition("/")
    part, _, form = file.partition(".")
    return f"{folder}{slash}{form}-{part.removeprefix('part-')}"


def _name_of(entry: str) -> str:
    """Returns the name of a file by that of its entry in a list; a name of another form stays as it is."""
    folder, slash, last = entry.rpartition("/")
    match = _IS_ENTRY.fullmatch(last)
    return entry if match is None else f"{folder}{slash}part-{match['number']}.{match['format']}"


def _entries(folder: Path) -> Iterator[str]:
    """Yields the paths of all files and links below the folder of a list."""
    for below, inside, files in os.walk(folder):
        links = [name for name in inside if Path(below, name).is_symlink()]
        for name in (*files, *links):
            yield Path(below, name).relative_to(folder).as_posix()


def _damaged(file: Path, reason: str) -> OSError:
    return OSError(errno.EIO, f"the list of the files of a batch is damaged: {reason}", str(file))


def _is_ours(name: str) -> bool:
    """Returns whether a relative path consists of folders of values and the name of a part file, without ``..``."""
    *folders, file = name.split("/")
    return _IS_PART.fullmatch(file) is not None and all(
        _IS_FOLDER_NAME.fullmatch(folder) is not None and not folder.startswith(("_", ".")) for folder in folders
    )


def _columns_of(name: str) -> tuple[str, ...]:
    """Returns the columns that name the folders of a file, as the folders spell them."""
    return tuple(folder.partition("=")[0] for folder in name.split("/")[:-1])


def _lists_in(sink: Path) -> list[str]:
    """Returns the names of lists, one for each batch: the finished list if there is one, else the begun one."""
    names_by_batch: dict[str, str] = {}
    check_no_link(sink / _LISTS)
    for name in sorted(_names_in(sink / _LISTS)):
        match = _IS_LIST.fullmatch(name)
        if match is not None:
            names_by_batch[match["batch"]] = name  # ".files" sorts after ".begun"
    return list(names_by_batch.values())


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _files(staging: Path) -> Iterator[str]:
    """Yields the paths of part files in the staging folder and in its folders of values."""
    for folder, inside, files in os.walk(staging):
        inside[:] = [name for name in inside if "=" in name]
        for name in filter(_IS_PART.fullmatch, files):
            yield Path(folder, name).relative_to(staging).as_posix()
