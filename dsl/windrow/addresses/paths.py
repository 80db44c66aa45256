"""Checks paths: their spelling, and which files a file source may read.

Whoever can put a link into an incoming folder could otherwise have any file read that the program can read.
"""

from __future__ import annotations

import os
import posixpath
import re
from os import PathLike, fspath
from typing import Final

from windrow.addresses.patterns import WILDCARD, alternatives, pattern_regex, split_pattern
from windrow.addresses.redaction import redact_address
from windrow.errors import InvalidArgumentError, SourceError

_FILE_SCHEME: Final = re.compile(r"file:(?://)?(?=/(?!/))")
_HIDDEN: Final = ("_", ".")

BATCH_PREFIX: Final = "batch-"
"""How the names of the files of a batch begin, in the folder of a file sink; the number of the batch follows."""

BATCH_COLUMN: Final = "windrow_batch"
"""The innermost folder of values in other file systems, by which readers know the batch."""

_IS_BATCH_FILE: Final = re.compile(rf"{BATCH_PREFIX}\d+-[^/]*", re.ASCII)


def local_path(path: str) -> str | None:
    """The path in the mounted file system; None: it has the scheme of another one.

    The rest of a ``file:`` URI is taken as it is, as Hadoop does: ``%20`` is no blank.
    """
    scheme = _FILE_SCHEME.match(path)
    if scheme is not None:
        return path[scheme.end() :]
    return None if "://" in path else path


def is_object_address(path: str) -> bool:
    """Whether a path is an address of an object store, of which windrow opens objects by itself."""
    return path.startswith("s3a://")


def real_path(path: str) -> str:
    """The one spelling of a folder: without links, ``..`` and the ``file:`` scheme. No links are known of addresses."""
    local = local_path(path)
    if local is not None:
        return os.path.realpath(local)
    scheme, _, rest = path.partition("://")
    authority, _, below = rest.partition("/")
    return f"{scheme.lower()}://{authority}{posixpath.normpath('/' + below.lstrip('/'))}"


def is_hidden(name: str) -> bool:
    """Whether file sources pass over a file or a folder of this name."""
    # The last one is the name of a file that Hadoop is copying.
    return name.startswith(_HIDDEN) or name.endswith("._COPYING_")


def checked_path(path: str | PathLike[str], what: str) -> str:
    """The path of files, as a text.

    Args:
        path: A text or a path object.
        what: What the path is of, in errors, such as ``files are written to``.

    Raises:
        InvalidArgumentError: If it is neither, if it is empty, or if it has a NUL, which no system allows.
    """
    text = fspath(path) if isinstance(path, (str, PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidArgumentError(f"{what} a path", given=path, expected="a str or a Path, not empty and without NUL")
    return text


def check_pattern(path: str) -> None:
    """Refuse a path that goes up after a wildcard: what it leads to nobody has named.

    Raises:
        InvalidArgumentError: For such a path.
    """
    pattern = _pattern_of(path)[1]
    if ".." in re.split(r"[/{},]", pattern):
        raise InvalidArgumentError(
            "a path may not go up after a wildcard",
            given=redact_address(path),
            expected="'..' before the first wildcard only",
        )


def _pattern_of(path: str) -> tuple[str, str]:
    local = local_path(path)
    if local is not None:
        return split_pattern(local)
    wildcard = WILDCARD.search(path, path.index("://") + 3)
    if wildcard is None:
        return path, ""
    begin = path.rfind("/", 0, wildcard.start()) + 1
    return path[:begin], path[begin:]


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies inside of it; both as :func:`real_path` spells them."""
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def reads_from(source: str, folder: str, partition: str | None = None) -> bool:
    """Whether a file source reads what a file sink writes into a folder.

    Args:
        source: The path of the source. Where nothing has its name yet, it may turn out literal or a pattern.
        folder: The folder of the sink.
        partition: The field that the folders in the sink's are named by. A pattern that may match some value, or some
            file of a batch, is taken to read it.
    """
    written = real_path(folder)
    if partition is None and local_path(folder) is None:
        partition = BATCH_COLUMN
    base, pattern = _pattern_of(source)
    if _names_read(real_path(source), [], written, partition):
        return True
    try:
        name_lists = [one.split("/") for one in alternatives(pattern)] if pattern else []
        return any(_names_read(real_path(base or "."), names, written, partition) for names in name_lists)
    except InvalidArgumentError:
        return False  # it is no pattern, and the run fails where it stays without a folder of that name


def _names_read(base: str, names: list[str], written: str, partition: str | None) -> bool:
    if not is_inside(written, base):
        inside = base[len(written.rstrip("/")) + 1 :].split("/") if is_inside(base, written) else [""]
        if partition is not None:
            return inside[0].startswith(f"{partition}=")
        return len(inside) == 1 and _IS_BATCH_FILE.fullmatch(inside[0]) is not None
    below = [name for name in written[len(base.rstrip("/")) :].split("/") if name]
    for index, name in enumerate(names[: len(below) + 1]):
        name_regex = pattern_regex(name)
        if index == len(below):
            # There are too many values, and names of files, to try.
            sign = WILDCARD.search(name)
            begins = name if sign is None else name[: sign.start()]
            written_as = BATCH_PREFIX if partition is None else f"{partition}="
            is_folder = index + 1 < len(names)
            if (partition is None and is_folder) or not (
                written_as.startswith(begins) or begins.startswith(written_as)
            ):
                return False
        elif name_regex.fullmatch(below[index]) is None:
            return False
    return not any(map(is_hidden, below[len(names) :]))


def check_visible(path: str) -> None:
    """Refuse a file that would be passed over in its folder: Spark passes over it where it is named itself, too.

    Raises:
        SourceError: For such a file.
    """
    if os.path.isfile(path) and is_hidden(os.path.basename(path)):
        raise hidden_file(path)


def hidden_file(path: str) -> SourceError:
    """Returns the error for a file that is named itself, and would be passed over."""
    return SourceError(
        "a file of that name is passed over",
        given=redact_address(path),
        expected="a name that begins neither with '_' nor with '.'",
        hint="rename the file",
    )


def is_read(path: str, pattern: str, file: str) -> bool:
    """Whether a source reads a file that Spark has found below its path.

    Args:
        path: The path of the source in the mounted file system, absolute.
        pattern: The end of the path that is a pattern, as :func:`~windrow.addresses.patterns.split_pattern` gave it
            when the run began.
        file: The file, absolute.
    """
    literal = path.removesuffix(pattern)
    if not pattern:
        return file == path or _is_shown(file.removeprefix(f"{path.rstrip('/')}/").split("/"))
    names = file.removeprefix(literal).split("/")
    for one in alternatives(pattern):
        wanted = one.split("/")
        if len(names) >= len(wanted) and all(
            pattern_regex(part).fullmatch(name) for part, name in zip(wanted, names, strict=False)
        ):
            return _is_shown(names[len(wanted) :])
    # Spark finds a hidden name by a wildcard inside of braces, which matches none for windrow.
    return False


def _is_shown(names: list[str]) -> bool:
    return not any(map(is_hidden, names))


class PathGuard:
    """Tells files of a source from files elsewhere that a link leads to.

    The path itself may be a link, and links may lead to other places below it. A path of a file system that is not
    mounted has no links, so nothing is checked there.

    Args:
        path: The path of the source: a file, a folder or a pattern.
        pattern: The end of the path that is a pattern, where that was found out already.
    """

    def __init__(self, path: str, pattern: str | None = None) -> None:
        self.path = path
        local = local_path(path)
        self._root: str | None = None
        if local is not None:
            root, pattern = split_pattern(local) if pattern is None else (local.removesuffix(pattern), pattern)
            wildcard = WILDCARD.search(pattern)
            named = "" if wildcard is None else pattern[: wildcard.start()].rpartition("/")[0]
            self._root = os.path.realpath(os.path.join(root, named) or ".")
        self._known: set[str] = set()

    def check(self, entry: str) -> None:
        """Refuse an entry that lies elsewhere.

        Args:
            entry: The path of a file or a folder, as it was listed.

        Raises:
            SourceError: If a link leads out of the path of the source, or to a folder that holds the link.
        """
        if self._root is None or entry in self._known:
            return
        real = os.path.realpath(entry)
        if not is_inside(real, self._root):
            raise self._error("a link leads out of the path of the source", entry, real)
        if os.path.islink(entry) and is_inside(os.path.realpath(os.path.dirname(entry)), real):
            raise self._error("a link leads back to a folder that holds it", entry, real)
        self._known.add(entry)

    def _error(self, message: str, entry: str, real: str) -> SourceError:
        return SourceError(
            message,
            given=f"{entry} -> {real}",
            expected=f"files below {self._root}",
            hint="copy the file into the folder, or give the source the other path",
        )
