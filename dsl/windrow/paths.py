"""Which files a file source may read: those below the path that it was given, wherever links lead.

Whoever can put a link into an incoming folder could otherwise have any file read that the program can read.
"""

from __future__ import annotations

import os
import re

from windrow.errors import InvalidArgumentError, SourceError
from windrow.redaction import redact_address

__all__ = ["PathGuard", "check_pattern"]

_MAGIC = re.compile(r"[*?\[{]")


def check_pattern(path: str) -> None:
    """Refuse a path that goes up behind a wildcard: what it leads to nobody has named.

    Raises:
        InvalidArgumentError: For such a path.
    """
    found = _MAGIC.search(path)
    if found is None:
        return
    begin = path.rfind("/", 0, found.start()) + 1
    if ".." in re.split(r"[/{},]", path[begin:]):
        raise InvalidArgumentError(
            "a path may not go up behind a wildcard",
            given=redact_address(path),
            expected="'..' in front of the first wildcard only",
        )


class PathGuard:
    """Tells files of a source from files elsewhere that a link leads to.

    The path itself may be a link, and links may lead to other places below it. A path of a file system that is not
    mounted has no links, so nothing is checked there.

    Args:
        path: The path of the source: a file, a folder or a pattern.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        local = path.removeprefix("file://") if path.startswith("file://") else path
        found = _MAGIC.search(local)
        if found is not None and not os.path.exists(local):
            local = local[: found.start()].rpartition("/")[0] or ("/" if local.startswith("/") else ".")
        self._root: str | None = None if "://" in local else os.path.realpath(local)
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
        if real != self._root and not real.startswith(self._root.rstrip("/") + "/"):
            raise self._error("a link leads out of the path of the source", entry, real)
        if os.path.islink(entry) and f"{os.path.realpath(os.path.dirname(entry))}/".startswith(f"{real}/"):
            raise self._error("a link leads back to a folder that holds it", entry, real)
        self._known.add(entry)

    def _error(self, message: str, entry: str, real: str) -> SourceError:
        return SourceError(
            message,
            given=f"{entry} -> {real}",
            expected=f"files below {self._root}",
            hint="copy the file into the folder, or give the source the other path",
        )
