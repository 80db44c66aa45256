"""Patterns of paths, with the same meaning on both engines: that of Hadoop."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final

from windrow.addresses.redaction import redact_address
from windrow.errors import InvalidArgumentError, SourceError

__all__ = ["WILDCARD", "alternatives", "hadoop_pattern", "listed", "matches", "pattern_regex", "split_pattern"]

WILDCARD: Final = re.compile(r"[*?\[{]")
"""A name that holds one of these signs is a pattern."""


def split_pattern(path: str) -> tuple[str, str]:
    """Split a local path in front of its first component that is a pattern.

    A component is a pattern if it holds a wildcard, and if nothing has that very name.

    Returns:
        The literal part, and the pattern behind it; an empty pattern: the whole path is literal.
    """
    begin = 0
    while begin < len(path):
        end = path.find("/", begin)
        end = len(path) if end < 0 else end
        if WILDCARD.search(path, begin, end) and not os.path.lexists(path[:end]):
            return path[:begin], path[begin:]
        begin = end + 1
    return path, ""


def pattern_regex(pattern: str) -> re.Pattern[str]:
    """Returns a pattern of names as a regular expression, for :meth:`re.Pattern.fullmatch`.

    ``*`` stands for any characters, ``?`` for one, ``[ab]`` and ``[^ab]`` for one of these or another one, ``{x,y}``
    for one of several texts, and a backslash takes the wildcard behind it as it is. A wildcard in front matches no
    hidden name.

    Args:
        pattern: One component of a path, or several. Wildcards match no ``/``.

    Raises:
        InvalidArgumentError: If a bracket or a brace is not closed, or a range is empty.
    """
    try:
        return re.compile("|".join(map(_regex_of, alternatives(pattern))), re.DOTALL)
    except re.error as error:
        raise InvalidArgumentError("a pattern cannot be read", given=f"{pattern}: {error}") from None


def matches(folder: str, pattern: str) -> Iterator[str]:
    """Find what a pattern matches in the mounted file system.

    Args:
        folder: The literal part of a path, as :func:`split_pattern` gives it.
        pattern: The pattern behind it.

    Yields:
        The paths, in the order of their names for each alternative; one may come twice.

    Raises:
        InvalidArgumentError: If the pattern cannot be read.
        SourceError: If a folder cannot be read.
    """
    for names in alternatives(pattern):
        yield from _matches(folder, names.split("/"))


def _matches(folder: str, names: list[str]) -> Iterator[str]:
    name, *below = names
    if name in ("", ".", ".."):
        paths = [f"{folder}{name}"]
    else:
        regex = pattern_regex(name)
        with listed(folder):
            there = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        paths = [f"{folder}{entry}" for entry in sorted(there) if regex.fullmatch(entry)]
    for path in paths:
        if below:
            yield from _matches(f"{path}/", below)
        else:
            yield path


@contextmanager
def listed(folder: str) -> Generator[None]:
    """Raises a :class:`~windrow.errors.SourceError` in the place of each error of listing the files of a folder.

    Args:
        folder: The folder.
    """
    try:
        yield
    except OSError as error:
        raise SourceError(
            "a folder cannot be read",
            given=f"{redact_address(folder)}: {error}",
            expected="a folder whose files can be listed",
            hint="let the user who runs the pipeline read the folder and its files",
        ) from error


def alternatives(pattern: str) -> Iterator[str]:
    """The patterns without braces for which one with braces stands."""
    opened = _find(pattern, "{", 0)
    if opened < 0:
        yield pattern
        return
    parts, begin, depth, index = [], opened + 1, 1, opened + 1
    while depth:
        if index >= len(pattern):
            raise _not_closed(pattern, "}")
        sign = pattern[index]
        if sign == "\\":
            index += 1
        elif sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
        if depth == 0 or (depth == 1 and sign == ","):
            parts.append(pattern[begin:index])
            begin = index + 1
        index += 1
    for part in parts:
        yield from alternatives(f"{pattern[:opened]}{part}{pattern[index:]}")


def _find(pattern: str, wanted: str, index: int) -> int:
    """Returns the index of the first sign that no backslash takes as it is; -1: nowhere."""
    while index < len(pattern) and pattern[index] != wanted:
        index += 2 if pattern[index] == "\\" else 1
    return index if index < len(pattern) else -1


def _regex_of(pattern: str) -> str:
    parts: list[str] = []
    index = 0
    while index < len(pattern):
        sign = pattern[index]
        if sign in "*?":
            shown = "(?![_.])" if index == 0 or pattern[index - 1] == "/" else ""
            parts.append(f"{shown}[^/]*" if sign == "*" else f"{shown}[^/]")
        elif sign == "[":
            signs, index = _signs_of_class(pattern, index)
            parts.append(signs)
        elif sign == "\\" and index + 1 < len(pattern):
            index += 1
            parts.append(re.escape(pattern[index]))
        else:
            parts.append(re.escape(sign))
        index += 1
    return "".join(parts)


def hadoop_pattern(pattern: str) -> str:
    """The pattern as Hadoop takes it, to which a wildcard in front matches a hidden name.

    Raises:
        InvalidArgumentError: If a bracket is not closed.
    """
    parts: list[str] = []
    index = 0
    while index < len(pattern):
        sign = pattern[index]
        if sign in "*?" and (index == 0 or pattern[index - 1] == "/"):
            # A star stands for no character, too.
            is_all = pattern[index + 1 : index + 2] in ("", "/")
            parts.append("[^_.]" if sign == "?" else "[^_.]*" if is_all else "{,[^_.]*}")
        elif sign == "[":
            signs, index = _signs_of_class(pattern, index)
            parts.append(signs)
        elif sign == "\\":
            parts.append(pattern[index : index + 2])
            index += 1
        else:
            parts.append(sign)
        index += 1
    return "".join(parts)


def _signs_of_class(pattern: str, opened: int) -> tuple[str, int]:
    """Reads what brackets hold; returns it as a regular expression and as Hadoop takes it, and where they close."""
    end = _find(pattern, "]", opened + 1)
    inside = pattern[opened + 1 : end]
    negated = inside[:1] in ("^", "!")
    if end < 0 or not inside[negated:]:
        raise _not_closed(pattern, "]")
    signs = [
        sign[-1] if sign[-1].isalnum() or not sign.isascii() or sign == "-" else f"\\{sign[-1]}"
        for sign in re.findall(r"\\?.", inside[negated:], re.DOTALL)
    ]
    return f"[{'^' if negated else ''}{''.join(signs)}]", end


def _not_closed(pattern: str, missing: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "a pattern is not closed",
        given=pattern,
        expected=f"a {missing!r}, or a file or a folder of this very name",
        hint="a backslash in front of a wildcard takes it as it is",
    )
