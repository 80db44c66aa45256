"""Checks sources before a run: streams without an end, patterns that match no file, names that Java cannot open."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final
from urllib.parse import unquote

from windrow.addresses.paths import is_hidden, local_path
from windrow.addresses.patterns import matches, split_pattern
from windrow.addresses.redaction import redact_address
from windrow.connectors.hybrid import HybridSource
from windrow.errors import Location, SourceError, UnsupportedOperationError, WindrowError, warn
from windrow.kafka import TopicSource
from windrow.plan import Step
from windrow.sources import ArrowSource, CollectionSource, DataFrameSource, FileSource, Source, TextFileSource
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import open_bytes
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.operators.topology import read_by, source_of

# Any in this module: sources of elements of every type.

_LOOKED_AT: Final = 1 << 16


def check_bounded(sources: Iterable[Step], message: str) -> None:
    """Raises an ``UnsupportedOperationError`` with the message for the first source that does not come to an end."""
    for step in sources:
        if not source_of(step).is_bounded:
            raise UnsupportedOperationError(
                message,
                given=source_of(step).describe(),
                expected="bounded sources",
                where=step.where,
                hint="run(pipeline, drain=False) reads what there is now; SparkRunner.start(pipeline) goes on reading"
                + ('; ending_offsets="latest" gives topics an end' if _reads_topics(source_of(step)) else ""),
            )


def _reads_topics(source: Source[Any]) -> bool:
    last = source.parts[-1] if isinstance(source, HybridSource) else source
    return isinstance(last, TopicSource) and not last.engine_connector


def ends_when_silent(source: Source[Any], *, drain: bool) -> bool:
    """Returns whether no step has to wait for a source once a batch has read nothing from it."""
    return source.is_bounded and (drain or not may_grow(source))


def may_grow(source: Source[Any]) -> bool:
    """Returns whether a source that was read to its end, such as a folder, may have more in a later run."""
    return not isinstance(source, (ArrowSource, CollectionSource, DataFrameSource))


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


def warn_of_header(unmatched: str, where: str, location: Location | None) -> None:
    """Warn of a header, or of columns, that lack fields with defaults, and have columns that no field takes."""
    warn(
        "fields have their defaults in each row, and a column may be misspelt",
        given=unmatched,
        where=where,
        hint="correct the names of the columns, or those of the fields",
        location=location,
    )


def check_source_files(sources: Iterable[Step], *, waits: bool = False) -> None:
    """Check the folders and files of mounted file sources; warn of empty patterns, unless the run waits for files."""
    for step, is_part in ((each, each is not whole) for whole in sources for each in read_by(whole)):
        source = source_of(step)
        path = local_path(source.path) if isinstance(source, FileSource) else None
        if path is None:
            continue
        literal, pattern = split_pattern(path)
        if not pattern:
            _check_names(step, [literal])
            _warn_of_folders(step, [literal])
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
        with errors_at(step.where):
            files = list(matches(literal, pattern))
        _check_names(step, files)
        _warn_of_folders(step, files)
        if not waits and not files and not is_part:  # the first run alone reads what parts have
            warn(
                "no file matches the pattern of a source, so it gives nothing",
                given=shown,
                where=step.where,
                hint="patterns know *, ?, [ab] and {x,y}; * matches no /",
                location=step.node.location,
            )


def _warn_of_folders(step: Step, paths: Iterable[str]) -> None:
    """Warn of a field that the first file below a folder lacks, and that the folder's name could fill."""
    source = source_of(step)
    if not isinstance(source, FileSource) or isinstance(source, TextFileSource):
        return
    with errors_at(step.where):
        kind = record_type(source.record_type)
    columns = {} if kind.single else {field.column: field.name for field in kind.columns}
    looked_at: set[str] = set()
    for path in chain.from_iterable(map(visible_below, paths)):
        names = {name.partition("=")[0] for name in os.path.dirname(path).split(os.sep) if "=" in name}
        new = {unquote(name) for name in names} & columns.keys() - looked_at
        if not new or not os.path.isfile(path):
            continue
        looked_at |= new
        lacking = [name for name in new if columns[name] not in source.partitions and not _may_have(path, name)]
        if lacking:
            columns_shown = ", ".join(sorted(lacking))
            warn(
                "the names of folders have values for fields that the files lack, and they are not read",
                given=f"{columns_shown} of {path}",
                where=step.where,
                hint=f"partitions={(*source.partitions, *(columns[name] for name in sorted(lacking)))} takes them",
                location=step.node.location,
            )


def _may_have(file: str, column: str) -> bool:
    """Returns whether the beginning of a text file, or the end of a Parquet file, contains the name of a column."""
    try:
        with open(file, "rb") as opened, open_bytes(file, opened) as content:
            data = content.read(_LOOKED_AT)
            is_parquet = data.startswith(b"PAR1")
            if is_parquet:
                opened.seek(max(0, os.path.getsize(file) - _LOOKED_AT))
                data = opened.read()
    except (WindrowError, OSError):
        return True  # the error is raised when the file is read
    name = column.encode()
    if is_parquet:
        # In the footer of Parquet the length of a name precedes it.
        return (bytes([len(name)]) + name if len(name) < 128 else name) in data
    # A key of JSON, or a name in the header of CSV, with or without quotes.
    return re.search(rb'(^|["\s,;|{])' + re.escape(name) + rb'($|["\s,;|:])', data) is not None


def _check_names(step: Step, paths: Iterable[str]) -> None:
    """Refuse file names that are not UTF-8, which Java cannot open: Spark would silently pass over such files."""
    for path in chain.from_iterable(map(visible_below, paths)):
        try:
            path.encode()
        except UnicodeEncodeError:
            raise SourceError(
                "the name of a file is not UTF-8",
                given=os.fsencode(path).decode("utf-8", "backslashreplace"),
                expected="names in UTF-8, which both engines can open",
                where=step.where,
                hint="rename it",
            ) from None


def visible_below(path: str) -> Iterator[str]:
    """Yields a path, and the files and folders below it that are not hidden."""
    yield path
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if not is_hidden(name)]
        yield from (os.path.join(folder, name) for name in (*folders, *files) if not is_hidden(name))
