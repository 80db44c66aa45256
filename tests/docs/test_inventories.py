"""The inventories by which the reference links to the pages of Python and PySpark."""

from __future__ import annotations

import importlib
import re
import zlib
from pathlib import Path

import pytest

from docs import inventories


def test_files_have_what_sphinx_reads(tmp_path: Path) -> None:
    mapping = inventories.write(tmp_path)
    assert {project: address for project, (address, _) in mapping.items()} == {
        "python": "https://docs.python.org/3",
        "pyspark": "https://spark.apache.org/docs/latest/api/python",
    }
    for project, (_, file) in mapping.items():
        *head, body = Path(file).read_bytes().split(b"\n", 4)
        assert head[:2] == [b"# Sphinx inventory version 2", f"# Project: {project}".encode()]
        lines = zlib.decompress(body).decode().splitlines()
        assert len(lines) > 5
        assert all(re.fullmatch(r"[\w.]+ py:class 1 [\w./]+#[\w.]+ -", line) for line in lines)


PAGES = {
    "collections.abc.Iterable": "collections.abc",
    "datetime.timedelta": "datetime",
    "os.PathLike": "os",
    "int": "functions",
    "str": "stdtypes",
    "KeyError": "exceptions",
}


@pytest.mark.parametrize("name", PAGES)
def test_names_of_python_have_their_pages(name: str) -> None:
    assert dict(inventories.entries_of_python())[name] == f"library/{PAGES[name]}.html#{name}"


def test_names_of_pyspark_are_there() -> None:
    for name, place in inventories.entries_of_pyspark():
        module, _, kind = place.partition("#")[2].rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), kind), type)
        assert name.endswith(kind)
