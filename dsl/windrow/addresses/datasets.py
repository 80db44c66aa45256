"""Names the data that sources read and sinks write, by OpenLineage's conventions, without secrets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from windrow.addresses.database_url import DatabaseUrl
from windrow.addresses.paths import local_path, real_path
from windrow.addresses.redaction import redact_address


class Dataset(NamedTuple):
    """The name of data that a source reads or a sink writes, under which catalogs of lineage know it.

    Attributes:
        namespace: Where it is, such as ``kafka://broker:9092``, ``s3://bucket`` or ``file``.
        name: Its name there, such as a topic or a path.
    """

    namespace: str
    name: str


def path_dataset(path: str) -> Dataset:
    """Returns the name of a file or a folder."""
    if local_path(path) is not None:
        return Dataset("file", real_path(path))
    scheme, _, rest = redact_address(path).partition("://")
    authority, _, name = rest.partition("/")
    store = "s3" if scheme.lower() in {"s3a", "s3n"} else scheme.lower()  # Hadoop's names for the store
    return Dataset(f"{store}://{authority}", name.strip("/") or "/")


def topic_datasets(servers: str, topics: Iterable[str]) -> list[Dataset]:
    """Returns the names of topics; the first of the servers stands for all of a cluster."""
    return [Dataset(f"kafka://{servers.split(',', maxsplit=1)[0].strip()}", topic) for topic in topics]


def table_dataset(url: DatabaseUrl, table: str, schema: str | None) -> Dataset:
    """Returns the name of a table of a database."""
    if url.backend == "sqlite":
        file = url.masked.partition("://")[2].partition("?")[0].removeprefix("/")
        return Dataset("file", f"{real_path(file) if file and file != ':memory:' else ':memory:'}/{table}")
    where = url.masked.partition("://")[2].partition("?")[0].rpartition("@")[2]
    host, _, database = where.partition("/")
    port = "" if host.rpartition("]")[2].partition(":")[1] else ":5432"
    return Dataset(f"postgres://{host or 'localhost'}{port}", ".".join([database, schema or "public", table]))
