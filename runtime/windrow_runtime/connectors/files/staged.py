"""Publishes the batches of file sinks in file systems that are not mounted: a file appears once, and stays.

Workers or Spark write a batch into a folder that readers pass over. When all of it is there, the attempt writes a list
of the batch's files. Of several attempts the first to write the list counts, also where a driver that seemed
dead still writes. Then the files of the list are moved to their places, and a mark says that the batch is whole. If a
batch with a list is run again, the rest of the list is moved; neither this nor one with a mark is written again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Final, Generic, Protocol, Self, TypeVar

from windrow.addresses.paths import BATCH_COLUMN, BATCH_PREFIX, is_hidden
from windrow_runtime.connectors.files.owner import OWNER
from windrow_runtime.outputs.whole_files import change_all

_STAGING: Final = "staging"
_LIST: Final = "files"
_PARTS: Final = "parts"
_SUCCESS: Final = "_SUCCESS"
"""The file by which Spark says that a folder is whole; readers may wait for it."""
_RENAMES_FOLDERS: Final = "hdfs://"
"""Where a folder is renamed in one step. That others do so is not known."""


class FolderElsewhere(Protocol):
    """A file or a folder in a file system that is not mounted; the methods do what those of ``Path`` do."""

    url: str

    @property
    def name(self) -> str: ...

    @property
    def parent(self) -> Self: ...

    def __truediv__(self, name: str, /) -> Self: ...

    def exists(self) -> bool: ...

    def glob(self, pattern: str, /) -> Iterator[Self]: ...

    def rglob(self, pattern: str, /) -> Iterator[Self]: ...

    def read_bytes(self) -> bytes: ...

    def write(self, content: bytes) -> None:
        """Replaces the whole file at once."""

    def rewrite(self, content: bytes) -> None:
        """Overwrites the file; others may see it empty meanwhile."""

    def write_once(self, content: bytes, *, whole: bool) -> bool:
        """Writes a file unless it exists; returns whether it has this content, which no other writer has."""

    def unlink(self, missing_ok: bool) -> None: ...

    def rename(self, target: Self) -> object:
        """Moves a file to a name that nothing has."""

    def clear(self) -> None:
        """Deletes a folder with all that is in it."""


F = TypeVar("F", bound=FolderElsewhere)


class StagedBatch(Generic[F]):
    """One batch of a query in the folder of a file sink."""

    def __init__(self, folder: F, query: str, batch: int) -> None:
        self._folder = folder
        self._own = f"{BATCH_COLUMN}={batch}"
        self._mark = folder / OWNER / f"{BATCH_PREFIX}{batch}"
        self._marked = json.dumps({"query": query, "batch": batch}).encode()
        self._staging = folder / OWNER / _STAGING / query / f"{BATCH_PREFIX}{batch}"
        self._list = self._staging / _LIST

    def is_begun(self) -> bool:
        """Returns whether readers may find files of the batch."""
        return self._list.exists() or self._is_whole()

    def _is_whole(self) -> bool:
        try:
            # A folder that somebody has emptied may still have the marks of another query.
            return self._mark.read_bytes() == self._marked
        except FileNotFoundError:
            return False

    def finish(self) -> bool:
        """Finish what an earlier attempt has begun to publish; returns whether the batch is whole."""
        if not self._is_whole():
            try:
                listed = self._list.read_bytes()
            except FileNotFoundError:
                return False
            # Whoever takes files away that have appeared need not wait for the others.
            self._follow(listed, lenient=True)
        self._staging.clear()
        return True

    @property
    def parts(self) -> F:
        """The folder for the files of workers, which have names that no other attempt has."""
        return self._staging / _PARTS

    def clear(self) -> None:
        """Delete what attempts have staged."""
        self._staging.clear()

    def begin(self, *, again: bool, in_folders: bool) -> F:
        """Returns the folder for the files of a new attempt.

        What lies in the batch's places is deleted first: an earlier version has written there, ``in_folders`` of values
        or not, if the batch is run ``again``. An attempt that has staged files has done so already.
        """
        if not self._staging.exists():
            if again or not in_folders:
                (self._folder / self._own).clear()
            if again:
                self._withdraw(in_folders=in_folders)
        return self._staging / f"attempt-{secrets.token_hex(4)}"

    def _withdraw(self, *, in_folders: bool) -> None:
        others = (f"{BATCH_COLUMN}=", OWNER)
        # The attempt before may have had another ``partition_by``; the files of other batches are not looked at.
        tops = [self._folder] if in_folders else self._folder.glob("*")
        for file in [file for top in tops if not top.name.startswith(others) for file in top.rglob("*")]:
            if file.parent.name == self._own or "/.spark-staging-" in file.url:
                file.unlink(missing_ok=True)

    def publish(self, attempt: F, names: Sequence[str] | None = None) -> None:
        """Publish the files of an attempt, or those of these names, unless another attempt was faster."""
        if names is None:
            # The file system may spell the URL in another way.
            below = [file.url.partition(f"/{attempt.name}/")[2] for file in attempt.rglob("*")]
            names = [*filter(_is_data, below)]
        content = json.dumps({"attempt": attempt.name, "files": sorted(names)}).encode()
        try:
            is_first = self._list.write_once(content, whole=True)
            # Who was taken for dead comes too late if the list was deleted after the end of the batch.
            if not self._is_whole():
                self._follow(content if is_first else self._list.read_bytes(), lenient=not is_first)
        except FileNotFoundError:  # another attempt may have deleted its list meanwhile, which is its last step
            if not self._is_whole():
                raise
        self._staging.clear()

    def _follow(self, listed: bytes, *, lenient: bool) -> None:
        """Moves the files of a list, and marks the batch as whole; may be repeated from the beginning at any moment."""
        content = json.loads(listed)
        attempt, names = self._staging / content["attempt"], content["files"]
        in_own_folder = not any("/" in name for name in names)
        if in_own_folder and self._folder.url.startswith(_RENAMES_FOLDERS):
            _move(attempt, self._folder / self._own, lenient=lenient, is_folder=True)
        else:
            self._move_files(attempt, names, lenient=lenient)
        if in_own_folder:
            (self._folder / self._own / _SUCCESS).rewrite(b"")
        self._mark.write(self._marked)

    def _move_files(self, attempt: F, names: Sequence[str], *, lenient: bool) -> None:
        def move(name: str) -> None:
            *values, file = name.split("/")
            _move(attempt / name, self._folder / "/".join([*values, self._own, file]), lenient=lenient)

        change_all(move, names, few=0)  # an object store copies a file to rename it


def _move(source: F, target: F, *, lenient: bool, is_folder: bool = False) -> None:
    """Moves a file or a folder unless that was done before, maybe by a process that does the same now.

    An object store that was stopped in between has the file in both places. Where it is in none, somebody has deleted
    it after its move if there was one, which is possible where it is ``lenient``.
    """
    try:
        source.rename(target)
    except OSError:
        has_come = target.exists()
        is_done = has_come and not is_folder if source.exists() else has_come or lenient
        if not is_done:
            raise


def _is_data(name: str) -> bool:
    """Returns whether a file in the folder of an attempt is one of the batch's, and not the rest of a task."""
    return not any(is_hidden(part) and "=" not in part for part in name.split("/"))


def begun_batches(folder: FolderElsewhere, query: str, first: int) -> Iterator[int]:
    """Yields the batches of a query, from one on, of which readers may find files, in ascending order."""
    places = (folder / OWNER, folder / OWNER / _STAGING / query)
    for number in sorted({number for place in places for number in _numbers(place) if number >= first}):
        if StagedBatch(folder, query, number).is_begun():
            yield number


def clear_staging(folder: FolderElsewhere, query: str, batch: int) -> None:
    """Delete what dead runs have staged below a sink's folder, except for one batch of a query."""
    staging = folder / OWNER / _STAGING
    for other in staging.glob("*"):
        if other.name != query:
            other.clear()
    for number in _numbers(staging / query):
        if number != batch:
            (staging / query / f"{BATCH_PREFIX}{number}").clear()


def _numbers(folder: FolderElsewhere) -> list[int]:
    ends = [file.name.removeprefix(BATCH_PREFIX) for file in folder.glob(f"{BATCH_PREFIX}*")]
    return [int(end) for end in ends if end.isdigit()]
