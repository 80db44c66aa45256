"""A batch of a file sink whose files lie in folders of values, such as ``day=2026-03-01``.

No rename makes the files of several folders visible at once. So a list of them is written first, when all are whole,
and then each gets its place. Whoever is killed in between leaves the list, and the next run of the batch goes through
it to its end: the batch is whole again, before it is replaced. The lists of batches that are done say which files to
replace, and lie in a folder that readers pass over.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from windrow.addresses.paths import BATCH_FOLDER
from windrow_runtime.outputs.batch_folder import clear, write_whole
from windrow_runtime.outputs.partition_columns import columns_of

_LISTS: Final = "_batches"
_BEGUN: Final = ".begun"


class PartitionedBatch:
    """The files of one batch in a mounted file system; the methods are those of ``BatchFolder``.

    While a batch takes its place a reader finds it in some folders and not yet in others. While it replaces what it
    wrote before, the old files go first: a reader may miss rows for a moment, and finds none twice.
    """

    def __init__(self, sink: Path, batch: int) -> None:
        self._sink = sink
        self._batch = batch
        self.aside = sink / f"_{BATCH_FOLDER}{batch}"
        self._done = sink / _LISTS / str(batch)
        self._begun = sink / _LISTS / f"{batch}{_BEGUN}"
        self._kept: set[str] | None = None

    def begin(self) -> None:
        """Bring to its end what an attempt began to make visible, and clear what it left besides."""
        if self._begun.exists():
            self._finish(lenient=True)
        clear(self.aside)

    def keep(self, names: set[str]) -> list[str]:
        """Delete all files that were written aside but those of these names; gives the names that have no file."""
        found = set(_files(self.aside))
        # A network file system may list a folder as it was some time ago, so that it is asked again, by name.
        missing = sorted(name for name in names - found if not (self.aside / name).exists())
        if not missing:
            for name in found - names:
                (self.aside / name).unlink()
            self._kept = names
        return missing

    def publish(self) -> None:
        """Make what was written aside the files of the batch, in the place of those that it had."""
        names = sorted(_files(self.aside) if self._kept is None else self._kept)
        self._begun.parent.mkdir(exist_ok=True)
        write_whole(self._begun, json.dumps(names))
        self._finish(lenient=False)

    def withdraw(self) -> None:
        """Delete the files of the batch, if it has any."""
        if self._begun.exists():
            self._finish(lenient=True)
        clear(self.aside)
        if self._done.exists():
            write_whole(self._begun, "[]")
            self._finish(lenient=False)
            self._done.unlink()

    def _finish(self, *, lenient: bool) -> None:
        """Go through the list of files; may be done again from the beginning at any moment.

        It is ``lenient`` behind an attempt that died: a file that somebody deleted since is none any more.
        """
        names = _listed(self._begun)
        # The same names may have been there before: then the new file takes the place of the old one.
        for name in sorted(set(_listed(self._done)) - set(names)):
            self._place(name).unlink(missing_ok=True)
            self._remove_empty(self._place(name).parent)
        for name in names:
            place = self._place(name)
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.replace(self.aside / name, place)
            except FileNotFoundError:
                if not (lenient or place.exists()):
                    raise
        os.replace(self._begun, self._done)
        clear(self.aside)

    def _place(self, name: str) -> Path:
        """Where a file is visible, of the name that it has aside."""
        folder, _, file = name.rpartition("/")
        return self._sink / folder / f"{BATCH_FOLDER}{self._batch}-{file}"

    def _remove_empty(self, folder: Path) -> None:
        with suppress(OSError):
            while folder != self._sink:
                folder.rmdir()
                folder = folder.parent


def partitioned_batches(sink: Path) -> dict[int, str]:
    """The batches that lie in folders of values, whole or in part, each with the name of its list, by their numbers."""
    try:
        names = sorted(os.listdir(sink / _LISTS), reverse=True)
    except FileNotFoundError:
        return {}
    found = {name.removesuffix(_BEGUN): name for name in names}
    return {int(batch): f"{_LISTS}/{found[batch]}" for batch in found if batch.isdecimal() and batch.isascii()}


def partitioned_by(sink: Path) -> tuple[str, ...] | None:
    """The columns by which batches were laid out that are there, or None."""
    for name in partitioned_batches(sink).values():
        files = _listed(sink / name)
        if files:
            return columns_of(files[0].rpartition("/")[0])
    return None


def remove_partitioned(sink: Path) -> None:
    """Delete all batches that lie in folders of values, and nothing else."""
    for batch in partitioned_batches(sink):
        PartitionedBatch(sink, batch).withdraw()
    clear(sink / _LISTS)


def _listed(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    try:
        return [str(name) for name in json.loads(text)]
    except ValueError as error:
        raise OSError(errno.EIO, "the list of the files of a batch is damaged", str(file)) from error


def _files(aside: Path) -> Iterator[str]:
    """The paths of the files in folders of values below a folder, but those that Spark keeps beside them."""
    for folder, inside, files in os.walk(aside):
        inside[:] = [name for name in inside if "=" in name]
        for name in files:
            if not name.startswith(("_", ".")):
                yield Path(folder, name).relative_to(aside).as_posix()
