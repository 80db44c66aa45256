"""Keeps in the checkpoint which files each batch of a source has read, where windrow itself plans the batches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from windrow_runtime.outputs.whole_files import append_bytes, checksum
from windrow_spark.checkpoint.storage import StoragePath, read_whole, write_once, write_whole
from windrow_spark.checkpoint.stored_file import checkpoint_errors, damaged_file, file_numbers, is_there


@dataclass
class FileLog:
    """Keeps the files that each batch of a source has read, in a file of the checkpoint to which lines are only added.

    A line is an entry: its checksum, its number and the files in JSON, in the order in which they are read. A planner
    whose query was killed may still add a line when the next query plans: of two with one number all take the first.
    """

    path: StoragePath
    entries: dict[int, list[str]] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    _reached: int = 0

    def exists(self) -> bool:
        """Returns whether a run has begun the log."""
        return is_there(self.path)

    def read(self) -> dict[int, list[str]]:
        """Returns the files of each entry, by its number; none if the log does not exist."""
        if self.exists():
            self.update(0)
        return self.entries

    def begin(self, entries: Sequence[list[str]]) -> None:
        """Write a new log, with entries for files that were read before it existed."""
        with checkpoint_errors(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, b"".join(map(_line, range(len(entries)), entries)))

    def update(self, read: int) -> None:
        """Reads new lines; refuses a log that lacks an entry, of the first ``read`` ones or before a later one."""
        with checkpoint_errors(self.path.parent):
            added = self._added()
        for line in added.split(b"\n"):
            written, _, rest = line.partition(b" ")
            number, _, body = rest.partition(b" ")
            if number.isdigit() and int(number) not in self.entries and _checksum(number, body) == written:
                self.entries[int(number)] = json.loads(body)
                self.files.update(self.entries[int(number)])
        count = max(read, max(self.entries, default=-1) + 1)
        if len(self.entries) < count:
            lost = min(set(range(count)) - self.entries.keys())
            raise damaged_file(self.path, f"the files of its entry {lost} are gone, and batches were planned beyond")

    def append(self, files: list[str]) -> None:
        """Add an entry, unless another planner has added one."""
        count = len(self.entries)
        with checkpoint_errors(self.path.parent):
            self._add(count, _line(count, files))
        self.update(count + 1)

    def _added(self) -> bytes:
        """Reads the lines that were added since the last call."""
        added = read_whole(self.path, self._reached)
        # The end of the last line may not have been written.
        whole_lines = added[: added.rfind(b"\n") + 1]
        self._reached += len(whole_lines)
        return whole_lines

    def _add(self, number: int, line: bytes) -> None:
        append_bytes(Path(self.path), b"\n" + line)


@dataclass
class MergedFileLog(FileLog):
    """Keeps the same log in several files, where a file system cannot add lines to a file: each entry makes a file.

    A file is named by the number of its last entry and is written once, so that of two planners one alone writes it. It
    takes the place of earlier files as a counter in binary digits carries: some thousand entries lie in ten files.
    """

    def _added(self) -> bytes:
        listed: list[int] | None = None
        while True:
            before, listed = listed, sorted(self._numbers(len(self.entries)), reverse=True)
            # Later files come first, since a planner of a dead query may write one that was replaced.
            files = [self._file(number) for number in listed]
            try:
                return b"".join(map(read_whole, files if self.entries else [*files, self.path]))
            except FileNotFoundError:  # another planner may have replaced a file meanwhile
                if listed == before:
                    raise

    def _add(self, number: int, line: bytes) -> None:
        first = number & (number + 1)
        lines = [_line(each, self.entries[each]) for each in range(first, number)]
        if write_once(self._file(number), b"".join([*lines, line])) and first < number:
            for replaced in self._numbers(first):
                if replaced < number:
                    self._file(replaced).unlink(missing_ok=True)

    def _file(self, number: int) -> StoragePath:
        return self.path.parent / f"{self.path.name}.{number}"

    def _numbers(self, first: int) -> set[int]:
        """Returns the numbers of the files that end with entry ``first`` or a later one."""
        numbers = file_numbers(self.path.parent, f"{self.path.name}.")
        return {number for number in numbers if number >= first}


def _line(number: int, files: list[str]) -> bytes:
    body = json.dumps(files).encode()
    return b"%s %d %s\n" % (_checksum(b"%d" % number, body), number, body)


def _checksum(number: bytes, body: bytes) -> bytes:
    return checksum(number.decode(), body).encode()
