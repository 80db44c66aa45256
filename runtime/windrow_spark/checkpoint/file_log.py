"""Keeps in the checkpoint which files each batch of a source has read, where windrow itself plans the batches.

The names of files are needed as long as their batch may run again. Later a log has only to say whether a file was read,
and keeps digests of the names.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from windrow.errors import IncompatibleStateError
from windrow_runtime.outputs import whole_files
from windrow_runtime.outputs.whole_files import append_bytes, checksum
from windrow_spark.checkpoint.file_digests import DIGEST_BYTES, FileDigests, digests_of
from windrow_spark.checkpoint.storage import StoragePath, read_whole, write_once, write_whole
from windrow_spark.checkpoint.stored_file import BATCHES_KEPT, checkpoint_errors, damaged_file, file_numbers, is_there

T = TypeVar("T")

NAMES_KEPT: Final = 2 * BATCHES_KEPT
"""The number of entries that keep names: a batch has one, or several where a process died before it was planned."""

_ENTRIES: Final = 128
"""The most entries in a file to which lines are added."""
_FEW: Final = 4096
_SHARE: Final = 8
"""Names become digests when they are :data:`_FEW`, and a part of the digests, since all of these are written again."""
_LINE_BYTES: Final = 1 << 20
"""About how many bytes of digests are in one line."""
_HEAD_BYTES: Final = 80
_NUMBERS: Final = re.compile(rb"([0-9]{1,18})(?:-([0-9]{1,18}))?")


class _Line(NamedTuple):
    """What a line of a log says: the names of the files of an entry in JSON, or the digests of those of several."""

    first: int
    last: int
    has_names: bool
    body: memoryview  # not a copy: a log of ten million names has 840 MB

    @classmethod
    def of(cls, line: memoryview) -> _Line | None:
        """Reads a line; None: it is not whole."""
        match bytes(line[:_HEAD_BYTES]).split(b" ", 2):
            case [written, numbers, _] if (span := _NUMBERS.fullmatch(numbers)) is not None:
                body = line[len(written) + len(numbers) + 2 :]
                if _checksum(numbers, body) == written:
                    return cls(int(span[1]), int(span[2] or span[1]), span[2] is None, body)
        return None

    @classmethod
    def of_names(cls, number: int, files: Sequence[str]) -> _Line:
        """Returns the line of an entry."""
        return cls(number, number, True, memoryview(json.dumps(files).encode()))

    @property
    def names(self) -> list[str]:
        """Returns the names of the files."""
        files: list[str] = json.loads(bytes(self.body))
        return files

    @property
    def digests(self) -> bytes:
        """Returns the digests of the names of the files."""
        return digests_of(self.names) if self.has_names else binascii.a2b_base64(self.body)

    @property
    def text(self) -> bytes:
        """Returns the line as it is written."""
        numbers = b"%d" % self.first if self.has_names else b"%d-%d" % (self.first, self.last)
        return b"%s %s %s\n" % (_checksum(numbers, self.body), numbers, self.body)


@dataclass
class FileLog:
    """Keeps the files that each batch of a source has read, in files of the checkpoint to which lines are only added.

    A line is an entry: its checksum, its number and the files in JSON, in the order in which they are read. A planner
    whose query was killed may still add a line when the next query plans: of two with one number all take the first.
    Some hundred entries lie in one file. The digests of all that are older than :data:`NAMES_KEPT` go into a new file,
    which any planner would write alike, and then the files with their names are deleted.

    Attributes:
        path: The file with the first entries.
        entries: The files of the entries that have names here, by number.
        files: The files of all of these.
    """

    path: StoragePath
    entries: dict[int, list[str]] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    _digests: FileDigests = field(default_factory=FileDigests)
    _nameless: int = 0  # how many entries, from the first one on, have only digests here
    _names_stored: int = 0  # how many files of these have names where the log is stored
    _reached: dict[int, int] = field(default_factory=dict)  # the bytes that were read of files, by their number

    @property
    def count(self) -> int:
        """Returns how many entries there are."""
        return self._nameless + len(self.entries)

    def exists(self) -> bool:
        """Returns whether a run has begun the log."""
        return is_there(self.path)

    def read(self) -> dict[int, list[str]]:
        """Returns the files of each entry, by its number; none if the log does not exist."""
        if self.exists():
            self.update(0)
        return dict(enumerate(self.files_of(range(self.count))))

    def files_of(self, numbers: range) -> list[list[str]]:
        """Returns the files of entries; refuses those that have no names any more."""
        if numbers and numbers.start < self._nameless:
            with checkpoint_errors(self.path.parent):
                self._take(contents := self._whole(), 0)
            stored = {line.first: line for line in _first_lines(contents) if line.has_names}
            if stored.keys() >= set(numbers):
                return [stored[number].names for number in numbers]
            raise IncompatibleStateError(
                "the names of the files of old batches are not kept",
                given=f"{self.path}: entry {numbers.start}",
                expected=f"entry {self._nameless} or a later one",
                hint=f"batches of the last {NAMES_KEPT} entries can run again",
            )
        return [self.entries[number] for number in numbers]

    def unread(self, files: Iterable[str]) -> set[str]:
        """Returns the files that no entry has."""
        return set(self._digests.without(file for file in files if file not in self.files))

    def begin(self, entries: Sequence[list[str]]) -> None:
        """Write a new log, with entries for files that were read before it existed."""
        with checkpoint_errors(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lines = map(_Line.of_names, range(len(entries)), entries)
            write_whole(self.path, _texts(lines, len(entries) - NAMES_KEPT))

    def update(self, read: int) -> None:
        """Reads new lines; refuses a log that lacks an entry, of the first ``read`` ones or before a later one."""
        with checkpoint_errors(self.path.parent):
            lost = self._take(self._added(), read)
            if lost is not None:  # another planner may have put files together since this one has read
                lost = self._take(self._whole(), read)
        if lost is not None:
            raise damaged_file(self.path, f"the files of its entry {lost} are gone, and batches were planned beyond")

    def append(self, files: list[str], read: int | None = None) -> None:
        """Add an entry, unless another planner has added one.

        The first ``read`` entries are those of batches before the next one, by default all. Those after them keep their
        names: a batch has as many entries as planners died in a row, for example because of another source.
        """
        count = self.count
        read = count if read is None else read
        with checkpoint_errors(self.path.parent):
            self._add(_Line.of_names(count, files), read)
        self.update(count + 1)
        end = min(self.count - NAMES_KEPT, read) // _ENTRIES * _ENTRIES
        names = sum(len(self.entries[number]) for number in range(self._nameless, end))
        if self._names_stored + names >= max(_FEW, len(self._digests) // _SHARE):
            with checkpoint_errors(self.path.parent):
                self._shorten(end)
            self._forget_names(end)
            self._names_stored = 0

    def _take(self, contents: Iterable[bytes], read: int) -> int | None:
        """Takes lines in; returns the first entry that is missing, see :meth:`update`, or None."""
        lines = _first_lines(contents, lambda number: number < self._nameless or number in self.entries)
        end = max((*self.entries, *(line.last for line in lines), self._nameless - 1)) + 1
        for line in lines:
            if not line.has_names:
                self._forget_names(line.first)
            if line.first <= self._nameless and (not line.has_names or line.first < end - NAMES_KEPT):
                self._digests.add(digests := line.digests)
                self._names_stored += len(digests) // DIGEST_BYTES if line.has_names else 0
                for number in range(self._nameless, line.last + 1):
                    self.files.difference_update(self.entries.pop(number, ()))
                self._nameless = max(self._nameless, line.last + 1)
            elif line.has_names:
                self.entries[line.first] = line.names
                self.files.update(self.entries[line.first])
        count = max(read, end)
        return None if self.count == count else min(set(range(self._nameless, count)) - self.entries.keys())

    def _forget_names(self, end: int) -> None:
        """Replaces the names of the entries before ``end`` by digests."""
        while self._nameless < end and self._nameless in self.entries:
            files = self.entries.pop(self._nameless)
            self.files.difference_update(files)
            self._digests.add(digests_of(files))
            self._nameless += 1

    def _added(self) -> list[bytes]:
        """Reads the lines that were added since the last call."""
        return self._read_from(self.count // _ENTRIES) if self.count else self._whole()

    def _whole(self) -> list[bytes]:
        """Reads all lines; the newest digests come first."""

        def read(listed: tuple[list[int], list[int]]) -> list[bytes]:
            self._reached.clear()
            digests, segments = listed
            files = [self._digests_file(number) for number in reversed(digests)]
            return [*map(read_whole, files), *map(self._read_on, [0, *segments])]

        return _read_listed(lambda: (self._numbers("digests-"), self._numbers("names-")), read)

    def _read_from(self, segment: int) -> list[bytes]:
        """Reads on in a file to which lines are added, and in those that follow it."""
        contents = []
        with suppress(FileNotFoundError):
            while True:
                contents.append(self._read_on(segment))
                segment += 1
        return contents

    def _read_on(self, segment: int) -> bytes:
        reached = self._reached.get(segment, 0)
        added = read_whole(self._segment_file(segment), reached)
        # The end of the last line may not have been written.
        whole_lines = added[: added.rfind(b"\n") + 1]
        self._reached[segment] = reached + len(whole_lines)
        return whole_lines

    def _add(self, line: _Line, read: int) -> None:
        segment = line.first // _ENTRIES
        append_bytes(Path(self._segment_file(segment)), b"\n" + line.text, create=segment > 0)

    def _shorten(self, end: int) -> None:
        """Writes the digests of the entries before ``end`` into a file, and deletes those with their names."""
        contents = self._whole()
        self._take(contents, 0)
        lines = [line for line in _first_lines(contents) if line.last < end]
        if not lines or lines[0].first or any(line.first != before.last + 1 for before, line in pairwise(lines)):
            return  # a newer planner has deleted some of them meanwhile
        # It has to be there after a power failure, since the names are deleted.
        whole_files.write_whole(Path(self._digests_file(end)), _texts(lines, end), durable=True)
        for number in self._numbers("digests-"):
            if number < end:
                self._digests_file(number).unlink(missing_ok=True)
        for segment in self._numbers("names-"):
            if (segment + 1) * _ENTRIES <= end:
                self._segment_file(segment).unlink(missing_ok=True)
        # The first file tells that there is a log. Where it was written by one that had no others it has more entries.
        if all(line.last < end for line in _first_lines([read_whole(self.path)])):
            write_whole(self.path, b"")

    def _digests_file(self, end: int) -> StoragePath:
        return self.path.parent / f"{self.path.name}.digests-{end}"

    def _segment_file(self, segment: int) -> StoragePath:
        return self.path.parent / f"{self.path.name}.names-{segment}" if segment else self.path

    def _numbers(self, kind: str) -> list[int]:
        """Returns the numbers in the names of the files of the log, in order; ``kind`` comes before the number."""
        return sorted(file_numbers(self.path.parent, f"{self.path.name}.{kind}"))


@dataclass
class MergedFileLog(FileLog):
    """Keeps the same log in several files, where a file system cannot add lines to a file: each entry makes a file.

    A file is named by the number of its last entry and is written once, so that of two planners one alone writes it. It
    takes the place of earlier files as a counter in binary digits carries: some thousand entries lie in ten files. Then
    the names of old entries become digests.
    """

    def _added(self) -> list[bytes]:
        return self._read_after(self.count)

    def _whole(self) -> list[bytes]:
        return self._read_after(0)

    def _read_after(self, first: int) -> list[bytes]:
        """Reads the files that end with entry ``first`` or a later one."""

        def read(listed: list[int]) -> list[bytes]:
            # Later files come first, since a planner of a dead query may write one that was replaced.
            files = [self._file(number) for number in reversed(listed)]
            return list(map(read_whole, files if first else [*files, self.path]))

        return _read_listed(lambda: [number for number in self._numbers("") if number >= first], read)

    def _add(self, line: _Line, read: int) -> None:
        number = line.first
        first = number & (number + 1)
        if first < self._nameless:
            lines = [each for each in _first_lines(self._whole()) if first <= each.last < number]
        else:
            lines = [_Line.of_names(each, self.entries[each]) for each in range(first, number)]
        content = _texts([*lines, line], min(number + 1 - NAMES_KEPT, read))
        if write_once(self._file(number), content) and first < number:
            for replaced in self._numbers(""):
                if first <= replaced < number:
                    self._file(replaced).unlink(missing_ok=True)

    def _shorten(self, end: int) -> None:
        """Does nothing: names become digests when files are merged."""

    def _file(self, number: int) -> StoragePath:
        return self.path.parent / f"{self.path.name}.{number}"


def _read_listed(list_files: Callable[[], T], read: Callable[[T], list[bytes]]) -> list[bytes]:
    """Reads listed files, and again while the list changes, since another planner replaces some.

    A planner of a dead query may even have written a replaced one anew: what replaced it is in the second list.
    """
    before: T | None = None
    while True:
        listed = list_files()
        try:
            contents = read(listed)
        except FileNotFoundError:
            if listed == before:
                raise
        else:
            if not listed or list_files() == listed:
                return contents
        before = listed


def _first_lines(contents: Iterable[bytes], is_known: Callable[[int], bool] = lambda number: False) -> list[_Line]:
    """Returns the lines with entries that are not known, by number; of two with one entry the first."""
    of_one: dict[int, _Line] = {}
    of_several: list[_Line] = []
    others: list[_Line] = []  # those of them that are not the first ones
    covered = -1

    def is_there(number: int) -> bool:
        if number <= covered or is_known(number) or number in of_one:
            return True
        return any(line.first <= number <= line.last for line in others)

    for content in contents:
        for found in re.finditer(rb"[^\n]+", content):
            line = _Line.of(memoryview(content)[found.start() : found.end()])
            if line is None or (is_there(line.first) and is_there(line.last)):
                continue
            if line.has_names:
                of_one[line.first] = line
                continue
            of_several.append(line)
            if line.first <= covered + 1:
                covered = max(covered, line.last)
            else:
                others.append(line)
    return sorted([*of_one.values(), *of_several], key=lambda line: line.first)


def _texts(lines: Iterable[_Line], end: int) -> bytes:
    """Returns lines as they are written: of entries before ``end`` the digests, many in a line."""
    texts: list[bytes] = []
    merged: list[bytes] = []
    size, first, last = 0, 0, -1

    def add_merged() -> None:
        if merged:
            body = memoryview(binascii.b2a_base64(b"".join(merged), newline=False))
            texts.append(_Line(first, last, False, body).text)
            merged.clear()

    for line in lines:
        if line.first != last + 1 or line.last >= end or size > _LINE_BYTES:
            add_merged()
            size = 0
        if line.last >= end:
            texts.append(line.text)
            continue
        first, last = line.first if not merged else first, line.last
        merged.append(line.digests)
        size += len(merged[-1])
    add_merged()
    return b"".join(texts)


def _checksum(numbers: bytes, body: memoryview) -> bytes:
    return checksum(numbers.decode(), bytes(body)).encode()
