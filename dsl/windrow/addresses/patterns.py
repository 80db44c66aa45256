"""Matches patterns of paths, with Hadoop's meaning on both engines."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final

from windrow.addresses.redaction import redact_address
from windrow.errors import InvalidArgumentError, SourceError

WILDCARD: Final = re.compile(r"[*?\[{]")
"""A name that holds one of these signs is a pattern."""


def split_pattern(path: str) -> tuple[str, str]:
    """Split a local path before its first component that is a pattern.

    A component is a pattern if it holds a wildcard, and if nothing has that very name.

    Returns:
        The literal part, and the pattern after it; an empty pattern: the whole path is literal.
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
    for one of several texts, and a backslash takes the wildcard after it as it is. A leading wildcard matches no
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
        pattern: The pattern after it.

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
            entries = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        paths = [f"{folder}{entry}" for entry in sorted(entries) if regex.fullmatch(entry)]
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
            hint="check the address, the endpoint and the credentials, which have to allow to list and read objects"
            if folder.startswith("s3a://")
            else "let the user who runs the pipeline read the folder and its files",
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
    def as_regex(sign: re.Match[str]) -> str:
        if sign["wildcard"]:
            return f"{'(?![_.])' if _is_first(sign) else ''}[^/]{'*' if sign['wildcard'] == '*' else ''}"
        return _class_of(sign) or re.escape(sign["escaped"] or sign[0])

    return _SIGN.sub(as_regex, pattern)


def hadoop_pattern(pattern: str) -> str:
    """The pattern as Hadoop takes it, to which a leading wildcard matches a hidden name.

    Raises:
        InvalidArgumentError: If a bracket is not closed.
    """

    def for_hadoop(sign: re.Match[str]) -> str:
        if not sign["wildcard"] or not _is_first(sign):
            return _class_of(sign) or sign[0]
        # A star stands for no character, too.
        is_all = pattern[sign.end() : sign.end() + 1] in ("", "/")
        return "[^_.]" if sign[0] == "?" else "[^_.]*" if is_all else "{,[^_.]*}"

    return _SIGN.sub(for_hadoop, pattern)


_SIGN: Final = re.compile(
    r"(?P<wildcard>[*?])|\\(?P<escaped>.)|\[(?P<negated>[\^!]?+)(?P<inside>(?:\\.|[^]\\])+)\]|.", re.DOTALL
)
"""One sign of a pattern without braces: a wildcard, what a backslash takes as it is, a class, or any other."""


def _is_first(sign: re.Match[str]) -> bool:
    return sign.string[sign.start() - 1 : sign.start()] in ("", "/")


def _class_of(sign: re.Match[str]) -> str:
    """Returns a class of characters as a regular expression, and as Hadoop takes it; empty if the sign is none."""
    if sign[0] == "[":
        raise _not_closed(sign.string, "]")
    if sign["inside"] is None:
        return ""
    inside = [
        each[-1] if each == "-" or each[-1].isalnum() or not each.isascii() else f"\\{each[-1]}"
        for each in re.findall(r"\\?.", sign["inside"], re.DOTALL)
    ]
    return f"[{'^' if sign['negated'] else ''}{''.join(inside)}]"


def _not_closed(pattern: str, missing: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "a pattern is not closed",
        given=pattern,
        expected=f"a {missing!r}, or a file or a folder of this very name",
        hint="a backslash before a wildcard takes it as it is",
    )
