"""Lists the files of a source, and puts them in the order in which their elements come."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from windrow.addresses.paths import check_visible, local_path
from windrow.addresses.patterns import listed
from windrow.errors import InvalidArgumentError
from windrow.plan import Step
from windrow.sources import FilesInOrder, FileSource
from windrow_runtime.connectors.files.systems import MOUNTED, FileSystem, files_of
from windrow_runtime.operators.errors import connector_errors, errors_at, first_line, shortened

# Any in this module: sort keys are of the user's types.

_NUMBER: Final = re.compile("[0-9]+")


@dataclass(frozen=True)
class FileOrder:
    """Lists the files of a source by absolute names, and sorts them; its errors name the step."""

    path: str
    where: str
    chosen: FilesInOrder
    literal: str  # the absolute path, or the part of it before a pattern
    pattern: str
    files: FileSystem
    _keys: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, source: FileSource[Any], step: Step) -> FileOrder:
        """Returns the order of a step's source."""
        local, files = local_path(source.path), files_of(source.path)
        path = source.path if local is None else os.path.join(os.getcwd(), local)  # another process may list the files
        with errors_at(step.where), listed(source.path):
            check_visible(path)
            # Of other file systems Spark lists the files, and nobody asks for an order.
            literal, pattern = ("", "") if files is None else files.split(path)
        return cls(source.path, step.where, source.files_in_order, literal, pattern, files or MOUNTED)

    def sorted_files(self) -> list[str]:
        """Returns the files that are there, in order."""
        return self.sort(self.find())

    def find(self) -> set[str]:
        """Returns the files that are there."""
        return set(self.each())

    def each(self) -> Iterator[str]:
        """Yields the files that are there. A pattern with alternatives may match a file twice."""
        with errors_at(self.where), listed(self.path):
            yield from self.files.find(self.path, self.literal, self.pattern)

    def sort(self, files: Collection[str]) -> list[str]:
        """Sorts files: by time to the millisecond and then by name, or as the source says."""
        if self.chosen == "time":
            # A streaming query reads those of one millisecond as the file system lists them; here they have an order.
            with errors_at(self.where), listed(self.path):
                times = self.files.modified(files)
            return sorted(files, key=lambda file: (times[file], file))
        base = os.path.dirname(self.literal) if self.literal in files else self.literal
        known, below = self._keys, f"{base.rstrip('/')}/"
        keys = {file: known[file] if file in known else self._key(file, _relative(file, base, below)) for file in files}
        known.clear()  # forgets files that were read
        known.update(keys)
        return sorted(files, key=keys.__getitem__)

    def _key(self, file: str, path: str) -> Any:
        by_name = _natural(path)
        if isinstance(self.chosen, str):
            return by_name, path
        with connector_errors(f"{self.where}, {file}", "files_in_order", lambda: shortened(path)):
            key = self.chosen(path)
        if isinstance(key, float) and math.isnan(key):
            raise _no_order(f"{key} for {path}", "it comes neither before nor after another key", self.where)
        return _SortKey(key, (by_name, path), self.where)


@dataclass(frozen=True, slots=True)
class _SortKey:
    """The key that a user's function gave for a file. Those that are equal compare by name."""

    key: Any
    name: tuple[str, str]
    where: str

    def __lt__(self, other: _SortKey) -> bool:
        try:
            if self.key < other.key:
                return True
            return not other.key < self.key and self.name < other.name
        except Exception as error:  # the keys are the user's, and may raise anything
            keys = ", ".join(f"{shortened(each.key)} for {each.name[1]}" for each in (other, self))
            raise _no_order(keys, first_line(error), self.where) from error


def _relative(file: str, base: str, below: str) -> str:
    # A file is nearly always below, and Python compares all folders of both paths for each.
    return file[len(below) :] if file.startswith(below) else os.path.relpath(file, base)


def _natural(path: str) -> str:
    """Returns a text by which names compare as texts and numbers that take turns; it takes less room than a list.

    A text ends with NUL, which no name has, a number begins with the count of its digits, and a name ends with NUL.
    """
    return "".join([f"{_NUMBER.sub(_counted, name)}\0\0" for name in path.split(os.sep)])


def _counted(number: re.Match[str]) -> str:
    digits = number[0].lstrip("0") or "0"
    return f"\0{chr(len(digits))}{digits}"


def _no_order(given: str, reason: str, where: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "the keys that files_in_order gives for files do not compare",
        given=f"{given}: {reason}",
        expected="keys of one kind that compare by <, such as dates, numbers or texts",
        where=where,
        hint="give a tuple such as (1, day), and (0,) for files without a day",
    )
