"""Checks the files of a source before a run: folders that do not exist, patterns, names that Java cannot open."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final
from urllib.parse import unquote

from windrow.addresses.paths import local_path
from windrow.addresses.patterns import matches, split_pattern
from windrow.addresses.redaction import redact_address
from windrow.errors import SourceError, WindrowError, warn
from windrow.plan import Step
from windrow.sources import FileSource, TextFileSource
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import open_bytes
from windrow_runtime.connectors.files.systems import visible_below
from windrow_runtime.operators.errors import errors_at

# Any in this module: records of every type.

_LOOKED_AT: Final = 1 << 16


def check_files(source: FileSource[Any], step: Step, *, waits: bool) -> None:
    """Check the files and folders of a source that are mounted; warn of an empty pattern, unless the run ``waits``."""
    path = local_path(source.path)
    if path is None:
        return
    literal, pattern = split_pattern(path)
    if not pattern:
        _check_names(step, [literal])
        _warn_of_folders(source, step, [literal])
        return
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
    _warn_of_folders(source, step, files)
    if not waits and not files:
        warn(
            "no file matches the pattern of a source, so it gives nothing",
            given=shown,
            where=step.where,
            hint="patterns know *, ?, [ab] and {x,y}; * matches no /",
            location=step.node.location,
        )


def _warn_of_folders(source: FileSource[Any], step: Step, paths: Iterable[str]) -> None:
    """Warn of a field that the first file below a folder lacks, and that the folder's name could fill."""
    if isinstance(source, TextFileSource):
        return
    with errors_at(step.where):
        element_type = record_type(source.record_type)
    columns = {} if element_type.single else {field.column: field.name for field in element_type.columns}
    looked_at: set[str] = set()
    nothing_new: str | None = None
    for path in chain.from_iterable(map(visible_below, paths)):
        folder = os.path.dirname(path)
        if folder == nothing_new:
            continue
        names = {name.partition("=")[0] for name in folder.split(os.sep) if "=" in name}
        new = {unquote(name) for name in names} & columns.keys() - looked_at
        if not new:
            nothing_new = folder
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
