"""Checks the patterns of file sources before a run: one in a folder that does not exist can never match a file."""

from __future__ import annotations

import os

from windrow.errors import Location, SourceError, WindrowError, warn
from windrow.paths import local_path
from windrow.patterns import matches, split_pattern
from windrow.plan import SourceNode
from windrow.redaction import redact_address
from windrow.sources import FileSource
from windrow_runtime.operators.topology import Topology

__all__ = ["check_source_files", "warn_of_header"]


def warn_of_header(unmatched: str, where: str, location: Location | None) -> None:
    """Warn of a CSV file whose header lacks fields that have defaults, and has columns that no field takes.

    Args:
        unmatched: The names of both.
        where: The source and the file.
        location: The line of the user's program that made the source.
    """
    warn(
        "fields of a CSV file have their defaults in each row, and a column may be misspelt",
        given=unmatched,
        where=where,
        hint="correct the header or the names of the fields, which are matched exactly",
        location=location,
    )


def check_source_files(topology: Topology, *, waits: bool = False) -> None:
    """Look for the folders of patterns, on mounted file systems, and warn of patterns that match nothing.

    Args:
        topology: The pipeline.
        waits: Whether the run waits for files that are yet to come.

    Raises:
        SourceError: If the folder of a pattern does not exist.
        InvalidArgumentError: If a pattern cannot be read.
    """
    for step in topology.sources:
        assert isinstance(step.node, SourceNode)
        source = step.node.source
        path = local_path(source.path) if isinstance(source, FileSource) else None
        literal, pattern = ("", "") if path is None else split_pattern(path)
        if not pattern:
            continue
        shown, folder = redact_address(f"{literal}{pattern}"), literal or "."
        if not os.path.isdir(folder):
            raise SourceError(
                "the folder of a pattern does not exist",
                given=shown,
                expected=f"a folder {redact_address(folder)}",
                where=step.where,
                hint="make the folder first if files are yet to come",
            )
        try:
            found = next(matches(literal, pattern), None)
        except WindrowError as error:
            raise error.at(step.where) from None
        if not waits and found is None:
            warn(
                "no file matches the pattern of a source, so it gives nothing",
                given=shown,
                where=step.where,
                hint="patterns know *, ?, [ab] and {x,y}; * matches no /",
                location=step.node.location,
            )
