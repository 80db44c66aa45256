"""Checks sources before a run, and makes the errors and warnings of several of them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from windrow.addresses.paths import local_path
from windrow.addresses.redaction import redact_address
from windrow.errors import SourceError, UnsupportedOperationError
from windrow.plan import Step
from windrow_runtime.inputs.reader import reader_of


def check_bounded(sources: Iterable[Step], message: str) -> None:
    """Raises an ``UnsupportedOperationError`` with the message for the first source that does not come to an end."""
    for reader in map(reader_of, sources):
        if not reader.source.is_bounded:
            raise UnsupportedOperationError(
                message,
                given=reader.source.describe(),
                expected="bounded sources",
                where=reader.step.where,
                hint="run(pipeline, drain=False) reads what there is now; SparkRunner.start(pipeline) goes on reading"
                + reader.ending_hint,
            )


def ends_when_silent(step: Step, *, drain: bool) -> bool:
    """Returns whether no step has to wait for a source once a batch has read nothing from it."""
    reader = reader_of(step)
    return reader.source.is_bounded and (drain or not reader.may_grow)


def check_sources(sources: Iterable[Step], *, waits: bool = False) -> None:
    """Refuse sources that no run could read; a run that ``waits`` goes on reading what comes."""
    for reader in map(reader_of, sources):
        reader.check(waits=waits)


def path_missing(path: str) -> SourceError:
    """Returns the error for a source whose path does not exist."""
    return SourceError(
        "the path does not exist",
        given=redact_address(path),
        expected="a file or a folder, or a pattern in a folder that exists",
        hint=None
        if os.path.isabs(path) or local_path(path) != path
        else "a relative path begins at the folder in which the program was started",
    )


def rows_there(sources: Iterable[Step]) -> int | None:
    """Returns how many rows the sources have; None if one of them would have to be read to tell."""
    counts = [reader_of(step).row_count for step in sources]
    return None if None in counts else sum(count for count in counts if count is not None)
