"""Converts paths for Spark: with a scheme, and literal unless windrow takes them for patterns.

Spark looks for patterns in each path that it reads, also in a checkpoint. A backslash makes it take the sign
behind it literally. But in a path with such a sign, Spark cannot take a name that holds a colon.
"""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from windrow.addresses.paths import local_path
from windrow.addresses.patterns import WILDCARD, alternatives, hadoop_pattern, pattern_regex, split_pattern
from windrow.addresses.redaction import redact_address
from windrow.errors import InvalidArgumentError
from windrow_runtime.inputs.checks import path_missing

FILE_COLUMN: Final = "_metadata.file_path AS __file"
"""A column with the URL of the file of each row; :func:`path_of_url` makes a path of it."""

FILE_SCHEMA: Final = "path string, modificationTime timestamp, length long, content binary"
"""The columns of Spark's format ``binaryFile``, in which each row is a file."""

LINE_SCHEMA: Final = "__text string"
"""The column of Spark's format ``text``, in which each row is a line."""

_SIGNS: Final = re.compile(r"[{}\[\]*?\\]")
"""Spark takes a path with one of these for a pattern."""


def as_spark_path(path: str | os.PathLike[str]) -> str:
    """Adds the scheme to a path that Spark writes; one without a scheme is as the driver sees it, on every machine."""
    text = os.fspath(path)
    local = local_path(text)
    # Not Path.as_uri: Hadoop takes the rest of the text as it is, spaces included.
    return text if local is None else f"file://{os.path.abspath(local)}"


def path_of_url(url: str) -> str:
    """Returns the path of a file, from the URL that Spark gives for it."""
    return url2pathname(urlsplit(url).path)


def as_read_path(path: str | os.PathLike[str]) -> str:
    """Makes a literal path for Spark's readers, and refuses one that Spark cannot read."""
    found = _SIGNS.sub(r"\\\g<0>", as_spark_path(path))
    _check_colons(found, os.fspath(path))
    return found


def source_path(spark: SparkSession, path: str) -> str:
    """Makes the path of a file source for Spark's readers, and refuses one that does not exist on this machine."""
    local = local_path(path)
    if local is None:
        literal = as_read_path(path)
        return path if WILDCARD.search(path) and not exists_for_spark(spark, literal) else literal
    literal, pattern = split_pattern(local)
    if not pattern:
        if not os.path.exists(literal):
            raise path_missing(path)
        return as_read_path(literal)
    for one in alternatives(pattern):
        pattern_regex(one)  # refuses a pattern that Spark would refuse in the middle of the run
    base = as_read_path(literal or ".")
    found = f"{base}{'' if base.endswith('/') else '/'}{hadoop_pattern(pattern)}"
    _check_colons(found, path)
    return found


def _check_colons(found: str, path: str) -> None:
    names = found.partition("://")[2].partition("/")[2].split("/")
    if _SIGNS.search(found) and any(":" in name for name in names):
        raise InvalidArgumentError(
            "Spark cannot read a path with a colon besides one of the signs of patterns",
            given=redact_address(path),
            expected="a path without a colon, or without any of { } [ ] * ? and the backslash",
            hint="rename the folder, or use a link to it that has another name",
        )


def exists_for_spark(spark: SparkSession, path: str) -> bool:
    """Returns whether Spark finds a path or a pattern in a file system that it knows."""
    try:
        return bool(spark.read.schema(LINE_SCHEMA).text(path).schema)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return False
