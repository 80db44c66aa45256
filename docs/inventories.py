"""Writes inventories of Python and PySpark, so that the reference links to their pages though a build has no network.

They hold the names that signatures of windrow may have. Sphinx reads them in place of those that lie beside the pages
of the other projects.
"""

from __future__ import annotations

import builtins
import importlib
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

__all__ = ["PYSPARK", "PYTHON", "entries_of_pyspark", "entries_of_python", "write"]

PYTHON: Final = "https://docs.python.org/3"
PYSPARK: Final = "https://spark.apache.org/docs/latest/api/python"

_MODULES: Final = (
    *(
        "collections.abc",
        "contextlib",
        "datetime",
        "decimal",
        "enum",
        "os",
        "pathlib",
        "re",
        "types",
        "typing",
        "uuid",
        "zoneinfo",
    ),
)
_OF_FUNCTIONS: Final = ("bool", "float", "int", "object", "type")
"""The types that Python describes among its functions; it describes the others on the page of types."""

_SPARK: Final = {
    "pyspark.sql": ("Column", "DataFrame", "Row", "SparkSession"),
    "pyspark.ss": ("streaming.DataStreamReader", "streaming.DataStreamWriter", "streaming.StreamingQuery"),
}
_SPARK_MODULES: Final = {"Column": "column", "DataFrame": "dataframe", "Row": "types", "SparkSession": "session"}
"""The modules that define the classes of ``pyspark.sql``, by which some signatures name them."""


def entries_of_python() -> Iterator[tuple[str, str]]:
    """Yields the classes of Python that signatures may name, each with its place in Python's pages."""
    for module in _MODULES:
        members = vars(importlib.import_module(module))
        exported = members.get("__all__", ())
        for name, member in sorted(members.items()):
            is_public = name in exported or (getattr(member, "__module__", None) == module and not name.startswith("_"))
            if isinstance(member, type) and is_public:
                yield f"{module}.{name}", f"library/{module}.html#{module}.{name}"
    # Imports for type checkers alone leave the bare name in a signature.
    yield "datetime", "library/datetime.html#datetime.datetime"
    for name, kind in sorted(vars(builtins).items()):
        if isinstance(kind, type) and not name.startswith("_"):
            page = "exceptions" if issubclass(kind, BaseException) else "stdtypes"
            yield name, f"library/{'functions' if name in _OF_FUNCTIONS else page}.html#{name}"


def entries_of_pyspark() -> Iterator[tuple[str, str]]:
    """Yields the classes of PySpark that signatures may name, each with its place in PySpark's pages."""
    for folder, names in _SPARK.items():
        for name in names:
            place = f"reference/{folder}/api/pyspark.sql.{name}.html#pyspark.sql.{name}"
            yield f"pyspark.sql.{name}", place
            if name in _SPARK_MODULES:
                yield f"pyspark.sql.{_SPARK_MODULES[name]}.{name}", place
            yield name.rpartition(".")[2], place


def write(folder: Path) -> Mapping[str, tuple[str, str]]:
    """Writes both inventories, and returns them for Sphinx: the address of the pages, and the file."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping: dict[str, tuple[str, str]] = {}
    for project, address, entries in (
        ("python", PYTHON, entries_of_python()),
        ("pyspark", PYSPARK, entries_of_pyspark()),
    ):
        lines = "".join(f"{name} py:class 1 {place} -\n" for name, place in entries)
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
        head += "# The remainder of this file is compressed using zlib.\n"
        file = folder / f"{project}.inv"
        file.write_bytes(head.encode() + zlib.compress(lines.encode()))
        mapping[project] = (address, str(file))
    return mapping
