"""The folder that tests give to Java as Spark's home: the installed Spark without its archive of pyspark."""

from __future__ import annotations

import atexit
import tempfile
from importlib.util import find_spec
from pathlib import Path

__all__ = ["home_without_archive"]


def home_without_archive() -> str | None:
    """Make a folder that links to the commands and the jars of the installed Spark.

    Spark starts a Python process of its own for each query, for each source that is written in Python and for each
    error that it looks up. They take pyspark from the archive in its home, whose modules Python compiles anew in each
    process, which takes a second. Without the archive they take the installed package, which is the same.

    Returns:
        The folder, which goes with this process; None if pyspark is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    folder = tempfile.TemporaryDirectory(prefix="windrow-spark-home-")
    atexit.register(folder.cleanup)
    for entry in Path(spec.origin).parent.iterdir():
        if entry.name in ("bin", "jars", "sbin"):
            Path(folder.name, entry.name).symlink_to(entry)
    return folder.name
