"""Converts paths for Spark: adds a scheme, and escapes characters of patterns unless the path is a pattern.

Spark takes each path that it reads for a pattern, also in a checkpoint. A backslash escapes a character. But Spark
cannot read a path with such a character if it also has a name with a colon.
"""

from __future__ import annotations

import os
import re
import string
from typing import Final
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from windrow.addresses.paths import local_path
from windrow.addresses.patterns import WILDCARD, alternatives, hadoop_pattern, pattern_regex, split_pattern
from windrow.addresses.redaction import redact_address
from windrow.errors import InvalidArgumentError
from windrow_runtime.inputs.checks import path_missing
from windrow_spark.checkpoint.storage import unset_elsewhere

FILE_COLUMN: Final = "_metadata.file_path AS __file"
"""A column with the URL of each row's file, which :func:`path_of_url` converts into a path."""

FILE_SCHEMA: Final = "path string, modificationTime timestamp, length long, content binary"
"""The columns of Spark's format ``binaryFile``, in which each row is a file."""

LINE_SCHEMA: Final = "__text string"
"""The column of Spark's format ``text``, in which each row is a line."""

_SIGNS: Final = re.compile(r"[{}\[\]*?\\]")
"""The characters of patterns."""

_URL_SIGNS: Final = frozenset(string.ascii_letters + string.digits + "/-_.!~*'():@&=+$,;")
"""The characters that Java leaves as they are in the path of a URL."""


def as_spark_path(path: str | os.PathLike[str]) -> str:
    """Adds the scheme to a path that Spark writes; a relative path begins at the driver's folder on every machine."""
    text = os.fspath(path)
    local = local_path(text)
    # Path.as_uri would escape spaces, for example, which Hadoop takes literally.
    return text if local is None else f"file://{os.path.abspath(local)}"


def path_of_url(url: str) -> str:
    """Returns the path of a file, from the URL that Spark gives for it, or its address in another file system."""
    parts = urlsplit(url)
    path = url2pathname(parts.path)
    return path if parts.scheme in ("", "file") else f"{parts.scheme}://{parts.netloc}{path}"


def url_of_path(path: str) -> str:
    """Returns the URL of a file or folder of a mounted file system, as Spark notes it in its log of files."""
    return "file://" + "".join(sign if sign in _URL_SIGNS or ord(sign) > 127 else quote(sign) for sign in path)


def as_read_path(path: str | os.PathLike[str]) -> str:
    """Escapes a path for Spark's readers, and refuses one that Spark cannot read."""
    escaped = _SIGNS.sub(r"\\\g<0>", as_spark_path(path))
    _check_colons(escaped, os.fspath(path))
    return escaped


def source_path(spark: SparkSession, path: str) -> str:
    """Converts the path of a file source for Spark's readers, and refuses one that does not exist on this machine."""
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
    pattern_path = f"{base}{'' if base.endswith('/') else '/'}{hadoop_pattern(pattern)}"
    _check_colons(pattern_path, path)
    return pattern_path


def _check_colons(spark_path: str, path: str) -> None:
    names = spark_path.partition("://")[2].partition("/")[2].split("/")
    if _SIGNS.search(spark_path) and any(":" in name for name in names):
        raise InvalidArgumentError(
            "Spark cannot read a path with a colon besides one of the signs of patterns",
            given=redact_address(path),
            expected="a path without a colon, or without any of { } [ ] * ? and the backslash",
            hint="rename the folder, or use a link to it that has another name",
        )


def exists_for_spark(spark: SparkSession, path: str) -> bool:
    """Returns whether Spark finds a path or a pattern in a file system that it knows."""
    try:
        return bool(spark.read.options(**unset_elsewhere(spark)).schema(LINE_SCHEMA).text(path).schema)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return False
