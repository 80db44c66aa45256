"""Writes batches to an Iceberg table, a snapshot each."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, TableProperties
from pyiceberg.utils.config import Config, merge_config

from windrow.addresses.paths import local_path
from windrow.addresses.redaction import longest_first, redact, secrets_in
from windrow.errors import SinkError
from windrow.plan import Step
from windrow.sinks import IcebergSink
from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.value_type import RecordField
from windrow_runtime.operators.errors import field_errors
from windrow_runtime.outputs.folder_names import check_folder_names
from windrow_runtime.outputs.output import Identity, TableOutput, check_newest
from windrow_sql.iceberg.columns import column_faults, columns_of, named_partitions, partition_faults
from windrow_sql.iceberg.commits import Append
from windrow_sql.iceberg.parts import FileList, delete_files, read_lists

# Any in this module: elements of every type, pyarrow has no types, and a configuration has texts and more of its kind.

_PAUSES: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0, 2.0, 2.0, 0.0)
"""The longest pause after each attempt to commit where other commits came in between, in seconds."""
_OF_NEW_TABLES: Final = {
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
}
"""Each batch adds a file of metadata with all snapshots, and a manifest; readers open all manifests."""
_VERSIONS: Final = (1, 2)
"""The versions of Iceberg's format that the library writes."""


def catalog_properties(sink: IcebergSink[Any]) -> Mapping[str, Any]:
    """Returns the properties of the catalog, with those that the library's configuration on this machine has."""
    return merge_config(Config().get_catalog_config(sink.catalog) or {}, dict(sink.properties))


class IcebergOutput(TableOutput):
    """Appends the batches of an Iceberg sink.

    Args:
        step: The step of the sink.
        sink: The sink.
        identity: The identity under which the table notes batches.
        properties: The properties of the catalog; by default those of the sink and of this machine's configuration.
    """

    hint = "check the table, and the catalog with its properties; the namespace has to exist"
    table: Table

    def __init__(
        self, step: Step, sink: IcebergSink[Any], identity: Identity, properties: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(step, sink)
        self.refuse_lengths("Iceberg")
        self._sink = sink
        self._identity = identity
        self._properties = catalog_properties(sink) if properties is None else properties
        self._note = f"windrow.{identity.query}.{identity.sink}"

    def open(self) -> None:
        with self.failures("the Iceberg table cannot be made ready"):
            try:
                self.load()
            except NoSuchTableError:
                schema = arrow_schema(self._record_type)
                # If two processes create the table, the second uses that of the first.
                self.table = load_catalog(self._sink.catalog, **self._properties).create_table_if_not_exists(
                    self._sink.table, schema, properties=_OF_NEW_TABLES
                )
            self._check_table()

    def load(self) -> None:
        """Loads the table, which exists."""
        self.table = load_catalog(self._sink.catalog, **self._properties).load_table(self._sink.table)

    @property
    def _folders(self) -> Sequence[tuple[RecordField, str]]:
        """The fields whose texts name folders in a mounted file system, and the names of their partitions."""
        if local_path(self.table.location()) is None:
            return []
        names = named_partitions(self.table.spec(), self.table.schema())
        return [(field, names[field.column]) for field in self._record_type.columns if field.column in names]

    def check(self, batch: int, *, again: bool) -> None:
        with self.failures("the Iceberg table cannot be read"):
            self.table.refresh()
        self._check_newest(batch, again=again)

    def write(self, batch: int, values: Sequence[object]) -> None:
        """Write a batch in one snapshot, unless the table has it."""
        rows = self.encoded(values)
        with self.failures("the Iceberg table refused a batch", batch, len(values)):
            self.table.refresh()
            if self._newest() == batch:
                return
            self._check_newest(batch, again=True)
            self._check_table()
            files = self.new_files([rows])
            if not self._commit(batch, files, ()):
                delete_files(self.table.io, [file.file_path for file in files])

    def close(self) -> None:
        self.table.catalog.close()

    # What workers need, to write files

    # Any: a record batch.
    def encoded(self, elements: Sequence[object]) -> Any:
        """Returns the rows of elements; refuses those that do not fit the table."""
        with field_errors(self._where):
            rows = encode_batch(elements, self._record_type)
            for field, partition in self._folders:
                check_folder_names(self._record_type, field, partition, rows.column(field.column), elements)
            return rows

    # Any: record batches.
    def new_files(self, rows: Sequence[Any]) -> list[DataFile]:
        """Writes rows to new files, by the columns and partitions of the table as it was loaded."""
        return list(_dataframe_to_data_files(self.table.metadata, pa.Table.from_batches(rows), self.table.io))

    def publish(self, batch: int, lists: Sequence[FileList]) -> None:
        """Adds the files of lists to the table in one snapshot, or deletes them if the table has the batch."""
        with self.failures("the Iceberg table cannot be read"):
            self.table.refresh()
            try:
                files = read_lists(self.table.io, lists)
            except FileNotFoundError as error:
                raise SinkError(
                    "a file that a worker wrote is not where the driver looks for it",
                    given=self.clean(str(error)),
                    expected="a location of the table that the driver and all workers share",
                    where=self._where,
                    hint="keep the warehouse in an object store, or where every machine has it mounted at one path",
                ) from None
        count = sum(file.record_count for file in files)
        left = [each.location for each in lists]
        with self.failures("the Iceberg table refused a batch", batch, count):
            if not self._commit(batch, files, lists):
                left += [file.file_path for file in files]
            delete_files(self.table.io, left)

    def _commit(self, batch: int, files: Sequence[DataFile], lists: Sequence[FileList]) -> bool:
        """Adds files to the table; returns whether the table lacked the batch.

        Where another commit comes in between, it begins anew, with the table as it is then.
        """
        summary = {
            "windrow.query": self._identity.query,
            "windrow.sink": self._identity.sink,
            "windrow.batch": str(batch),
        }
        own: set[int] = set()
        for pause in _PAUSES:
            # An answer of the catalog may have been lost, so that a commit of this call is there.
            if any(self.table.metadata.snapshot_by_id(snapshot) is not None for snapshot in own):
                return True
            if self._newest() == batch:
                # Or it was there, and its snapshot has expired: then the files stay, which later snapshots have.
                return bool(own) and not self._has_snapshot(summary)
            self._check_newest(batch, again=True)
            self._check_table()
            self._check_layouts(lists)
            append = Append(self.table, files, {self._note: str(batch)}, summary)
            own.add(append.snapshot_id)
            try:
                append.commit_transaction()
            except CommitFailedException:
                if not pause:
                    raise
                time.sleep(random.uniform(0, pause))
                self.table.refresh()
            else:
                return True
        raise AssertionError("the last attempt returns or raises")

    def _has_snapshot(self, summary: Mapping[str, str]) -> bool:
        """Returns whether the table has a snapshot with the entries of a summary."""
        summaries = [snapshot.summary for snapshot in self.table.snapshots()]
        return any(each is not None and all(each[name] == summary[name] for name in summary) for each in summaries)

    def _newest(self) -> int | None:
        note = self.table.metadata.properties.get(self._note)
        return None if note is None else int(note)

    def _check_newest(self, batch: int, *, again: bool) -> None:
        check_newest(self._newest(), batch, again=again, target=self._shown, where=self._where)

    def _check_table(self) -> None:
        version = self.table.format_version
        faults = [] if version in _VERSIONS else [f"the table has the format version {version}; expected 1 or 2"]
        faults += column_faults(self._record_type, self.table.schema())
        faults += partition_faults(self._record_type, self.table.spec(), self.table.schema())
        self.refuse("the Iceberg table", faults, hint="change the table or the record type, or write to a new table")

    def _check_layouts(self, lists: Sequence[FileList]) -> None:
        """Refuses files that were written for other columns or partitions than the table has now."""
        schemas, current = self.table.schemas(), self.table.schema()
        for uuid, schema, spec in {(each.table, each.schema, each.spec) for each in lists}:
            is_same = uuid == str(self.table.metadata.table_uuid) and spec == self.table.spec().spec_id
            written = schemas.get(schema)
            if (
                not is_same
                or written is None
                or columns_of(self._record_type, written) != columns_of(self._record_type, current)
            ):
                raise SinkError(
                    "the Iceberg table was changed while workers wrote files for it",
                    given=self._shown,
                    expected="the same columns and partitions for all of a batch",
                    where=self._where,
                    hint="nothing of the batch was written; run again from the checkpoint to write it",
                )

    def clean(self, text: str) -> str:
        properties = dict(_texts(self._properties))
        if hasattr(self, "table"):  # a catalog may give a login for the files of a table
            properties |= _texts(self.table.io.properties)
        secrets = secrets_in(properties)
        return redact(text, longest_first([*secrets, *self._sink.secrets]))


def _texts(properties: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields the names and values of properties, also of those within others."""
    for name, value in properties.items():
        if isinstance(value, Mapping):
            yield from _texts(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)
