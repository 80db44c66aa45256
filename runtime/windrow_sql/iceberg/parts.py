"""Lists the data files that a task has written, in a file beside them: the driver reads the lists of a batch.

A task names its list before it writes files, since Spark takes nothing from a task at its end. A list is a manifest of
Iceberg's, which has the partitions and statistics of the files, so that the driver reads no footers. No snapshot names
it. Lists and files of a task that was killed stay until somebody removes orphan files.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, NamedTuple
from uuid import uuid4

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus, ManifestFile, write_manifest
from pyiceberg.table import Table

_LOG: Final = logging.getLogger("windrow")
_FILES_AT_ONCE: Final = 8


class FileList(NamedTuple):
    """Where the list of a task's files is, and which layout of the table the files have."""

    location: str
    table: str  # the UUID
    schema: int
    spec: int

    @classmethod
    def of(cls, table: Table) -> FileList:
        """Returns a new list for files of a table."""
        location = table.location_provider().new_data_location(f"windrow-{uuid4().hex}.avro")
        return cls(location, str(table.metadata.table_uuid), table.schema().schema_id, table.spec().spec_id)

    def dump(self) -> bytes:
        """Returns the text that the driver gets."""
        return json.dumps(self).encode()

    @classmethod
    def load(cls, text: bytes) -> FileList:
        """Reads the text of :meth:`dump`."""
        return cls(*json.loads(text))

    def write(self, table: Table, files: Iterable[DataFile]) -> None:
        """Writes the list of at least one file."""
        spec, schema = table.specs()[self.spec], table.schemas()[self.schema]
        with write_manifest(2, spec, schema, table.io.new_output(self.location), 0, "deflate") as writer:
            for file in files:
                writer.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file))

    def read(self, io: FileIO) -> list[DataFile]:
        """Returns the files of the list; raises a ``FileNotFoundError`` if there is none."""
        manifest = ManifestFile.from_args(
            manifest_path=self.location, partition_spec_id=self.spec, sequence_number=0, added_snapshot_id=0
        )
        return [entry.data_file for entry in manifest.fetch_manifest_entry(io)]


def read_lists(io: FileIO, lists: Sequence[FileList]) -> list[DataFile]:
    """Returns the files of several lists."""
    with ThreadPoolExecutor(_FILES_AT_ONCE) as threads:
        return [file for files in threads.map(lambda each: each.read(io), lists) for file in files]


def delete_files(io: FileIO, locations: Iterable[str]) -> None:
    """Deletes files that no snapshot names; those that cannot be deleted stay, as those of killed tasks do.

    A batch whose files are added already is done, also where this process may not delete.
    """

    def delete(location: str) -> None:
        try:
            with suppress(FileNotFoundError):
                io.delete(location)
        except Exception as error:  # the errors of each file system
            # Its text may have secrets.
            _LOG.warning("a file of an Iceberg table cannot be deleted (%s): %s", type(error).__name__, location)

    with ThreadPoolExecutor(_FILES_AT_ONCE) as threads:
        for _ in threads.map(delete, locations):
            pass
