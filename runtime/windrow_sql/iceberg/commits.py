"""Commits files to an Iceberg table in one snapshot, with properties, if the table is as it was loaded.

The library's own transaction tries again where another commit has come in between. It drops the requirement on the
branch then, so that of two drivers which write one batch both would add it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate, TableRequirement, TableUpdate
from pyiceberg.utils.properties import property_as_bool


class Append(Transaction):
    """One snapshot with files, and properties of the table that its commit sets.

    Args:
        table: The table, as it was loaded.
        files: The files, which were written for the table's partition spec.
        properties: The properties of the table.
        summary: What the summary of the snapshot has besides counts.
    """

    def __init__(
        self, table: Table, files: Iterable[DataFile], properties: Mapping[str, str], summary: Mapping[str, str]
    ) -> None:
        super().__init__(table)
        self._staged: tuple[TableUpdate, ...] = ()
        self._required: tuple[TableRequirement, ...] = ()
        snapshots = self.update_snapshot(snapshot_properties=dict(summary))
        merges = property_as_bool(
            table.metadata.properties,
            TableProperties.MANIFEST_MERGE_ENABLED,
            TableProperties.MANIFEST_MERGE_ENABLED_DEFAULT,
        )
        with snapshots.merge_append() if merges else snapshots.fast_append() as added:
            for file in files:
                added.append_data_file(file)
        self.snapshot_id = added.snapshot_id
        self._staged += (SetPropertiesUpdate(updates=dict(properties)),)

    @property
    def table_metadata(self) -> TableMetadata:
        """The metadata of the table as it was loaded; the library would copy it, with all snapshots, each time."""
        return self._table.metadata

    def _apply(self, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...] = ()) -> Transaction:
        """Keeps what the snapshot changes, and that the branch has to be where it was."""
        self._staged += updates
        self._required += requirements
        return self

    def commit_transaction(self) -> Table:
        """Commits once.

        Raises:
            CommitFailedException: If the table has another newest snapshot, or is another table.
        """
        unchanged = AssertTableUUID(uuid=self._table.metadata.table_uuid)
        self._table._do_commit(self._staged, (unchanged, *self._required))
        return self._table
