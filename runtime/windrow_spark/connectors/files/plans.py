"""Plans which files of a source each batch of a stream reads, and how the tasks of a batch share them.

Spark's own source of files takes them by the time of their modification, and divides them into batches so. For other
orders windrow lists the files, in the process in which Spark plans batches of Python sources. Before Spark notes a
batch, a log in the checkpoint has its files; an offset is the number of entries that were read. So a batch that runs
again has the same files in the same order, and one that was logged by a process that died is run next.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import msgspec

from windrow_runtime.connectors.files.listing import FileOrder
from windrow_runtime.connectors.files.reads import Chunk
from windrow_runtime.connectors.files.systems import FileSystem
from windrow_runtime.inputs.batches import OpenPartitions
from windrow_runtime.metrics.reports import Backlog
from windrow_spark.checkpoint.file_log import FileLog
from windrow_spark.checkpoint.spark_files import LogOffset
from windrow_spark.division import Division
from windrow_spark.sources.scan import ScanContext

# Any in this module: the listing that Spark's planner hands back.

_SPARE_TASKS: Final = 64
"""The most tasks that read files where the session has more partitions than cores; more would wait for a core."""
_CHUNK_BYTES: Final = 128 << 20  # Spark's own default, as the next one
_OPENING_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class TaskShares:
    """Divides files, or the parts of large ones, into chunks for tasks, and keeps their order.

    There are as many chunks as there would be of Spark's own: one for each core, or more of :data:`_CHUNK_BYTES` each,
    in which opening a file counts as :data:`_OPENING_BYTES`.
    """

    parts: int
    cores: int
    large_file_bytes: int
    files: FileSystem

    @classmethod
    def of(cls, context: ScanContext, files: FileSystem) -> TaskShares:
        """Returns the shares of a source's tasks."""
        division = context.division
        parts = task_count(division)
        return cls(parts, division.cores or parts, division.large_file_bytes, files)

    def divide(self, files: Collection[str]) -> list[Chunk]:
        """Returns the chunks, each for one task, in order."""
        sizes = self.files.sizes(files)
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


def task_count(division: Division) -> int:
    """Returns how many tasks share the files of a batch, or the parts of a large file: at least one for each core."""
    return max(1, division.cores or 0, min(division.partitions, _SPARE_TASKS))


@dataclass
class FilePlans:
    """Plans the batches of a stream, as a :class:`windrow_spark.sources.ranges.StreamPlanner`."""

    order: FileOrder
    per_batch: int | None
    log: FileLog
    shares: TaskShares
    _waiting: list[str] = field(default_factory=list)  # in order, so that they are soon sorted together with new ones
    _latest: set[str] | None = None  # what these were found in
    _logged: int = -1  # how many entries the log had then

    def latest(self) -> set[str]:
        """Returns the files that are there and were not read."""
        if not self.log.count:
            self.log.update(0)
        return self.log.unread(self.order.each())

    def advance(self, start: dict[str, Any], latest: set[str]) -> dict[str, Any]:
        """Returns the offset at which the next batch ends; first logs the files of a batch that was not logged."""
        read = msgspec.convert(start, LogOffset).read
        self.log.update(read)
        if self.per_batch is None or self.log.count == read:
            waiting = self._unread(latest)
            files = waiting[: self.per_batch]
            if files:
                number = self.log.count
                self.log.append(files, read)
                self._waiting = waiting[len(files) :]
                self._logged = self.log.count if self.log.entries[number] == files else -1
        logged = self.log.count
        # A batch that reads all that there is also reads what a process that died has logged, before the new files.
        return start if logged == read else {"entries": logged if self.per_batch is None else read + 1}

    def _unread(self, latest: set[str]) -> list[str]:
        """Returns those of the files that no batch has, in order."""
        if self.log.count != self._logged:  # another process has added entries
            self._waiting, self._latest, self._logged = [], None, self.log.count
        if latest is not self._latest:
            waiting = [file for file in self._waiting if file in latest]
            new = self.log.unread(latest.difference(waiting))
            self._waiting = self.order.sort([*waiting, *sorted(new)]) if new else waiting
            self._latest = latest
        return self._waiting

    def ranges(self, start: dict[str, Any], end: dict[str, Any]) -> list[Chunk]:
        """Returns what each task of a batch reads."""
        first, last = (msgspec.convert(offset, LogOffset).read for offset in (start, end))
        self.log.update(last)
        return self.shares.divide(list(chain.from_iterable(self.log.files_of(range(first, last)))))

    def check_end(self, done: dict[str, Any], latest: set[str]) -> None:
        """Does nothing: a batch has a file, unless all have been read."""

    def advance_but(self, held: Collection[str], start: dict[str, Any], latest: set[str]) -> dict[str, Any]:
        """Returns the offset at which the next batch ends, whatever is held back: no file waits for others."""
        return self.advance(start, latest)

    def open_partitions(self, reached: dict[str, Any], latest: set[str]) -> OpenPartitions:
        """Returns none: workers report the files that they read."""
        return OpenPartitions(())

    def backlog(self, reached: dict[str, Any], latest: set[str]) -> Backlog:
        """Returns how many files no batch has yet."""
        return Backlog(len(self._unread(latest)), "files")

    def commit(self, offsets: dict[str, Any]) -> None:
        """Does nothing: the log knows which files were read."""
