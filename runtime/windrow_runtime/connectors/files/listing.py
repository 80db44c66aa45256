"""Lists the files of a source, and puts them in the order in which their elements come."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from windrow.addresses.paths import PathGuard, check_visible, is_hidden, local_path
from windrow.addresses.patterns import listed, matches, split_pattern
from windrow.errors import InvalidArgumentError
from windrow.plan import Step
from windrow.sources import FilesInOrder, FileSource
from windrow_runtime.inputs.checks import path_missing
from windrow_runtime.operators.errors import connector_errors, errors_at, first_line, shortened

# Any in this module: sort keys are of the user's types.

_DIGITS: Final = re.compile("([0-9]+)")


@dataclass(frozen=True)
class FileOrder:
    """Lists the files of a source by absolute names, and sorts them; its errors name the step."""

    path: str
    where: str
    chosen: FilesInOrder
    literal: str  # the path in the mounted file system, or the part of it before a pattern
    pattern: str
    _keys: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, source: FileSource[Any], step: Step) -> FileOrder:
        """Returns the order of a step's source."""
        local = local_path(source.path)
        with errors_at(step.where):
            check_visible(source.path if local is None else local)
        # Another process may list the files, in another folder.
        literal, pattern = ("", "") if local is None else split_pattern(os.path.join(os.getcwd(), local))
        return cls(source.path, step.where, source.files_in_order, literal, pattern)

    def sorted_files(self) -> list[str]:
        """Returns the files that are there, in order."""
        return self.sort(self.find())

    def find(self) -> set[str]:
        """Returns the files that are there. A pattern with alternatives may match a file twice."""
        guard = PathGuard(self.literal + self.pattern, self.pattern)
        with errors_at(self.where):
            if not self.pattern and not os.path.exists(self.literal):
                raise path_missing(self.path)
            with listed(self.path):
                roots = _roots(self.literal, self.pattern, guard)
                return {os.path.abspath(file) for root in roots for file in _files_of(root, guard)}

    def sort(self, files: Collection[str]) -> list[str]:
        """Sorts files: by time to the millisecond and then by name, or as the source says."""
        if self.chosen == "time":
            # A streaming query reads those of one millisecond as the file system lists them; here they have an order.
            with errors_at(self.where), listed(self.path):
                return sorted(files, key=lambda file: (Path(file).stat().st_mtime_ns // 1_000_000, file))
        base = self.literal if os.path.isdir(self.literal) else os.path.dirname(self.literal)
        known = self._keys
        keys = {file: known[file] if file in known else self._key(file, os.path.relpath(file, base)) for file in files}
        known.clear()  # forgets files that were read
        known.update(keys)
        return sorted(files, key=keys.__getitem__)

    def _key(self, file: str, path: str) -> Any:
        # The parts without digits and the numbers between them take turns, so that any two names compare.
        names = [_DIGITS.split(name) for name in path.split(os.sep)]
        by_name = [[int(part) if place % 2 else part for place, part in enumerate(name)] for name in names]
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
    name: tuple[Any, str]
    where: str

    def __lt__(self, other: _SortKey) -> bool:
        try:
            if self.key < other.key:
                return True
            return not other.key < self.key and self.name < other.name
        except Exception as error:  # the keys are the user's, and may raise anything
            keys = ", ".join(f"{shortened(each.key)} for {each.name[1]}" for each in (other, self))
            raise _no_order(keys, first_line(error), self.where) from error


def _no_order(given: str, reason: str, where: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "the keys that files_in_order gives for files do not compare",
        given=f"{given}: {reason}",
        expected="keys of one kind that compare by <, such as dates, numbers or texts",
        where=where,
        hint="give a tuple such as (1, day), and (0,) for files without a day",
    )


def _roots(literal: str, pattern: str, guard: PathGuard) -> Iterator[str]:
    """Yields the path, or the files and folders that match the pattern."""
    if not pattern:
        yield literal
        return
    for root in matches(literal, pattern):
        guard.check(root)
        yield root


def _files_of(path: str, guard: PathGuard) -> Iterator[str]:
    """Yields the file itself, or the files of a folder and of all folders below."""
    if os.path.isfile(path):
        yield path
    elif os.path.isdir(path):
        with os.scandir(path) as entries:
            for entry in entries:
                if not is_hidden(entry.name):
                    if entry.is_symlink():  # all others lie where their folder lies
                        guard.check(entry.path)
                    yield from _files_of(entry.path, guard)
