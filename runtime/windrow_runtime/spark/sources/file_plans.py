"""Plans which files of a source each batch of a stream reads, and how the tasks of a batch share them.

Spark's own source of files takes them by the time of their modification, and divides them into batches so. For other
orders windrow lists the files, in the process in which Spark plans batches of Python sources. Before Spark notes a
batch, a log in the checkpoint has its files; an offset is the number of batches in the log. So a batch that runs again
has the same files in the same order, and one that was logged by a process that died is run next.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from windrow_runtime.inputs.listing import FileOrder
from windrow_runtime.outputs.whole_files import append_bytes, checksum, read_whole, write_whole
from windrow_runtime.spark.checkpoint.stored_file import checkpoint_errors, damaged_file
from windrow_runtime.spark.session import own_partitions
from windrow_runtime.spark.sources.scan import ScanContext

# Any in this module: the listing that Spark's planner hands back.

MOST_PARTS: Final = 64
_CHUNK_BYTES: Final = 128 << 20  # Spark's own default, as the next one
_OPENING_BYTES: Final = 4 << 20
_ENTRIES: Final = "entries"

Chunk = list[tuple[str, int, int]]
"""What one task reads: files, each with the number of a part and how many parts it has."""


@dataclass(frozen=True)
class TaskShares:
    """Divides files, or the parts of large ones, into chunks for tasks, and keeps their order.

    There are as many chunks as there would be of Spark's own: one for each core, or more of :data:`_CHUNK_BYTES` each,
    in which opening a file counts as :data:`_OPENING_BYTES`.
    """

    parts: int
    cores: int
    large_file_bytes: int

    @classmethod
    def of(cls, context: ScanContext) -> TaskShares:
        """Returns the shares for the session of a source."""
        parts = max(1, min(own_partitions(context.spark), MOST_PARTS))
        spark_context = getattr(context.spark, "sparkContext", None)  # a session of a Spark Connect server has none
        cores = parts if spark_context is None else spark_context.defaultParallelism
        return cls(parts, cores, context.limits.large_file_bytes)

    def divide(self, files: Iterable[str]) -> list[Chunk]:
        """Returns the chunks, each for one task, in order."""
        sizes = {file: _size(file) for file in files}
        divided = {file: self.parts if size >= self.large_file_bytes else 1 for file, size in sizes.items()}
        costs = {file: (size + _OPENING_BYTES) / divided[file] for file, size in sizes.items()}
        total = sum(size + _OPENING_BYTES for size in sizes.values())
        count = max(total // _CHUNK_BYTES, min(self.cores, total // _OPENING_BYTES))
        chunks: dict[int, Chunk] = {}
        reached = 0.0
        for file, cost in costs.items():
            for part in range(divided[file]):
                chunks.setdefault(int(reached * count / total), []).append((file, part, divided[file]))
                reached += cost
        return list(chunks.values())


def _size(file: str) -> int:
    try:
        return os.path.getsize(file)
    except OSError:
        return 0  # the worker that opens it says what is wrong


@dataclass
class FileLog:
    """Keeps the files of each batch in a file of the checkpoint, a line for each, to which lines are only added.

    A line has its checksum, the number of its batch and the files in JSON. The planner of a query that was killed may
    still add a line beside that of the next query: of two lines for one batch both take the first.
    """

    path: Path
    batches: dict[int, list[str]] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    _reached: int = 0

    def begin(self, batches: Sequence[list[str]]) -> None:
        """Write a new log, with batches that were read before it was there."""
        with checkpoint_errors(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, b"".join(map(_line, range(len(batches)), batches)))

    def update(self, read: int) -> None:
        """Reads what was added; refuses a log that lacks one of the batches that were ``read`` or of those behind."""
        with checkpoint_errors(self.path.parent):
            added = read_whole(self.path, self._reached)
        # The end of the last line may not have been written.
        whole = added[: added.rfind(b"\n") + 1]
        self._reached += len(whole)
        for line in whole.split(b"\n"):
            written, _, rest = line.partition(b" ")
            number, _, body = rest.partition(b" ")
            if number.isdigit() and int(number) not in self.batches and _checksum(number, body) == written:
                self.batches[int(number)] = json.loads(body)
                self.files.update(self.batches[int(number)])
        count = max(read, max(self.batches, default=-1) + 1)
        if len(self.batches) < count:
            lost = min(set(range(count)) - self.batches.keys())
            raise damaged_file(self.path, f"the files of its entry {lost} are gone, and batches were planned beyond")

    def append(self, files: list[str]) -> None:
        """Add the files of the next batch, unless somebody else has added others."""
        count = len(self.batches)
        with checkpoint_errors(self.path.parent):
            append_bytes(self.path, b"\n" + _line(count, files))
        self.update(count + 1)


def _line(number: int, files: list[str]) -> bytes:
    body = json.dumps(files).encode()
    return b"%s %d %s\n" % (_checksum(b"%d" % number, body), number, body)


def _checksum(number: bytes, body: bytes) -> bytes:
    return checksum(number.decode(), body).encode()


@dataclass
class FilePlans:
    """Plans the batches of a stream, as a :class:`windrow_runtime.spark.sources.custom.StreamPlanner`."""

    order: FileOrder
    per_batch: int | None
    log: FileLog
    shares: TaskShares
    _waiting: list[str] = field(default_factory=list)  # in order, so that they are soon sorted together with new ones

    def latest(self) -> set[str]:
        """Returns the files that are there."""
        return self.order.find()

    def advance(self, start: dict[str, Any], latest: set[str]) -> dict[str, Any]:
        """Returns the offset behind the next batch; the files of one that was not logged yet are logged first."""
        read = _batches_in(start)
        self.log.update(read)
        if self.per_batch is None or len(self.log.batches) == read:
            new = latest - self.log.files
            waiting = [file for file in self._waiting if file in new]
            self._waiting = self.order.sort(waiting + sorted(new.difference(waiting)))
            if new:
                self.log.append(self._waiting[: self.per_batch])
        logged = len(self.log.batches)
        if logged == read:
            return start
        # Where a batch reads all that there is, it also takes what the log has besides.
        return {_ENTRIES: logged if self.per_batch is None else read + 1}

    def ranges(self, start: dict[str, Any], end: dict[str, Any]) -> list[Chunk]:
        """Returns what each task of a batch reads."""
        first, last = _batches_in(start), _batches_in(end)
        self.log.update(last)
        files = [file for number in range(first, last) for file in self.log.batches[number]]
        return self.shares.divide(files if last - first < 2 else self.order.sort(files))

    def check_end(self, done: dict[str, Any], latest: set[str]) -> None:
        """Does nothing: a batch has a file, unless all have been read."""

    def commit(self, offsets: dict[str, Any]) -> None:
        """Does nothing: the log keeps the names of all files."""


def _batches_in(offset: dict[str, Any]) -> int:
    """Returns how many batches of the log were read at an offset, which may be one of Spark's own source of files."""
    return int(offset.get(_ENTRIES, offset.get("logOffset", -1) + 1))
