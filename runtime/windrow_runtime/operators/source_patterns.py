"""Checks the patterns of file sources before a run: one in a folder that does not exist can never match a file."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from typing import Final

from windrow.errors import SourceError, warn
from windrow.plan import SourceNode
from windrow.redaction import redact_address
from windrow.sources import FileSource
from windrow_runtime.operators.topology import Topology

__all__ = ["check_patterns"]

_WILDCARD: Final = re.compile(r"[*?\[{]")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")


def check_patterns(topology: Topology, *, waits: bool = False) -> None:
    """Look for the folders of patterns, on mounted file systems, and warn of patterns that match nothing.

    Args:
        topology: The pipeline.
        waits: Whether the run waits for files that are yet to come.

    Raises:
        SourceError: If the folder of a pattern does not exist.
    """
    for step in topology.sources:
        assert isinstance(step.node, SourceNode)
        source = step.node.source
        path = _local(source.path) if isinstance(source, FileSource) else None
        folder = None if path is None else _folder_of(path)
        if path is None or folder is None:
            continue
        shown = redact_address(path)
        if not os.path.isdir(folder):
            raise SourceError(
                "the folder of a pattern does not exist",
                given=shown,
                expected=f"a folder {redact_address(folder)}",
                where=step.where,
                hint="make the folder first if files are yet to come",
            )
        if not waits and not any(map(_matches, _alternatives(path))):
            warn(
                "no file matches the pattern of a source, so it gives nothing",
                given=shown,
                where=step.where,
                hint="patterns know *, ?, [ab] and {x,y}; * matches no /",
                location=step.node.location,
            )


def _local(path: str) -> str | None:
    if path.startswith("file:"):
        return re.sub("^file:(//)?", "", path)
    return None if "://" in path else path


def _folder_of(path: str) -> str | None:
    """The folder in front of the first name that is a pattern; None: the path is no pattern."""
    begin = 0
    while begin < len(path):
        end = path.find("/", begin)
        end = len(path) if end < 0 else end
        # A name with a wildcard in it may be that of a file as well.
        if _WILDCARD.search(path, begin, end) and not os.path.lexists(path[:end]):
            return path[:begin] or "."
        begin = end + 1
    return None


def _alternatives(pattern: str) -> Iterator[str]:
    """The patterns without braces for which one with braces stands."""
    found = _BRACES.search(pattern)
    if found is None:
        yield pattern
        return
    for part in found.group(1).split(","):
        yield from _alternatives(f"{pattern[: found.start()]}{part}{pattern[found.end() :]}")


def _matches(pattern: str) -> bool:
    # A backslash takes the wildcard behind it as it is, which glob does not know: the engine finds out.
    return "\\" in pattern or next(glob.iglob(pattern), None) is not None
