"""Iceberg tables in a folder, with a catalog in a file of SQLite."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from windrow.sinks import IcebergSink

__all__ = ["catalog_in", "iceberg_rows", "iceberg_sink", "table_in"]


def _properties(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def catalog_in(folder: Path) -> Catalog:
    """The catalog of a folder, with the namespace ``db``."""
    catalog = load_catalog("test", **_properties(folder))
    catalog.create_namespace_if_not_exists("db")
    return catalog


# Any: elements of every type.
def iceberg_sink(folder: Path, table: str = "db.t", **properties: str) -> IcebergSink[Any]:
    """A sink of a table in the catalog of a folder, whose namespace exists."""
    catalog_in(folder).close()
    return IcebergSink(table, catalog="test", properties={**_properties(folder), **properties})


def table_in(folder: Path, table: str = "db.t") -> Table:
    """A table as it is now."""
    with closing(catalog_in(folder)) as catalog:
        return catalog.load_table(table)


def iceberg_rows(folder: Path, table: str = "db.t") -> list[tuple[object, ...]]:
    """The rows of a table, in the order of its columns."""
    found = table_in(folder, table).scan().to_arrow()
    return sorted(zip(*found.to_pydict().values(), strict=True), key=repr)
