"""Writes batches to a Delta Lake table, a commit each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.transaction import AddAction

from windrow.addresses.paths import local_path
from windrow.addresses.redaction import longest_first, redact
from windrow.errors import InvalidArgumentError
from windrow.plan import Step
from windrow.sinks import DeltaSink
from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.malformed import UnfitError, misfit, short_repr
from windrow_runtime.codecs.text_forms import NO_VALUE
from windrow_runtime.codecs.value_type import JSON_CELLS, Kind
from windrow_runtime.operators.changes import kind_of, value_of
from windrow_runtime.operators.errors import field_errors
from windrow_runtime.outputs.folder_names import check_folder_names
from windrow_runtime.outputs.output import Identity, TableOutput, check_key, check_newest

_BACKTRACE = re.compile(r"\s*\n\s+0: .*", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def _quoted(name: str) -> str:
    """Quotes the name of a column for an expression of the merge."""
    return "`" + name.replace("`", "``") + "`"


class DeltaOutput(TableOutput):
    """Writes the batches of a Delta sink: appends them, or merges them by key."""

    hint = "check the path, and the storage_options of an object store"
    _delta: DeltaTable

    # Any: elements of every type, and pyarrow has no types.
    def __init__(self, step: Step, sink: DeltaSink[Any], identity: Identity) -> None:
        super().__init__(step, sink)
        self.refuse_lengths("Delta Lake")
        partition_by = self.fields_named(sink.partition_by, "partition_by")
        for field in partition_by:
            if field.type.kind in (*JSON_CELLS, Kind.BYTES):
                raise InvalidArgumentError(
                    # Readers take the escapes with which bytes are named for the bytes.
                    "a field of bytes or of JSON, or with parts, cannot lay out the files of a table",
                    given=f"{field.name}: {field.type}",
                    expected="a field of one plain value",
                    where=step.where,
                )
        key = self.fields_named(sink.key, "the key of the table")
        check_key(key, self._record_type, step.where)
        self._key = [field.column for field in key]
        self._sink = sink
        self._partition_by = [field.column for field in partition_by]
        self._text_partitions = [field for field in partition_by if field.type.scalar_kind is Kind.STR]
        self._is_mounted = local_path(sink.path) is not None
        self._app = f"windrow {identity.query} {identity.sink}"
        self.schema = arrow_schema(self._record_type)

    def open(self) -> None:
        options = self._sink.storage_options or None
        with self.failures("the Delta table cannot be made ready"):
            # If two processes create the table, the second uses that of the first.
            self._delta = DeltaTable.create(
                self._sink.path, self.schema, mode="ignore", partition_by=self._partition_by, storage_options=options
            )
            self._check_table()

    def check(self, batch: int, *, again: bool) -> None:
        with self.failures("the Delta table cannot be read"):
            newest = self._delta.transaction_version(self._app)
        check_newest(newest, batch, again=again, target=self._shown, where=self._where)

    def write(self, batch: int, values: Sequence[object]) -> None:
        """Write a batch in one commit, unless the table has it."""
        rows = self.encoded(list(map(value_of, values)))
        with self.failures("the Delta table refused a batch", batch, len(values)):
            note = self._note(batch)
            if note is None:
                return
            if self._key:
                self._merge(rows, [kind_of(value).is_withdrawal for value in values], note)
            else:
                write_deltalake(self._delta, self._with_all_columns(rows), mode="append", commit_properties=note)

    def _note(self, batch: int) -> CommitProperties | None:
        """Returns the note of a batch for its commit; None: the table has the batch."""
        self._delta.update_incremental()
        last = self._delta.transaction_version(self._app)
        if last == batch:
            return None
        check_newest(last, batch, again=True, target=self._shown, where=self._where)
        # The commit fails if another one of the same application has come in between.
        return CommitProperties(app_transactions=[Transaction(self._app, batch)])

    # What workers need, to write files

    # Any: a record batch.
    def encoded(self, elements: Sequence[object]) -> Any:
        """Returns the rows of elements; refuses those that do not fit the table."""
        with field_errors(self._where):
            rows = encode_batch(elements, self._record_type)
            self._check_partitions(rows, elements)
        return rows

    def checks_rows(self) -> bool:
        """Returns whether the table has conditions that a writer has to check for each row, as the library does.

        A table that somebody has changed, so that files of elements do not fit it, is refused.
        """
        with self.failures("the Delta table cannot be read"):
            self._delta.update_incremental()
            self._check_table()
            settings, fields = self._delta.metadata().configuration, self._delta.schema().fields
        own = {field.column: field.column_type.nullable for field in self._record_type.columns}
        return any(name.startswith(("delta.constraints.", "delta.columnMapping.")) for name in settings) or any(
            (not field.nullable and own.get(field.name, True))
            or any(key.startswith("delta.") for key in field.metadata)
            for field in fields
        )

    # Any: a table of Arrow.
    def append(self, batch: int, rows: Any) -> None:
        """Appends rows in one commit, unless the table has the batch."""
        with self.failures("the Delta table refused a batch", batch, rows.num_rows):
            note = self._note(batch)
            if note is not None:
                write_deltalake(self._delta, self._with_all_columns(rows), mode="append", commit_properties=note)

    def commit(self, batch: int, files: Sequence[AddAction], count: int) -> bool:
        """Adds files with ``count`` rows to the table in one commit; returns whether the table lacked the batch."""
        with self.failures("the Delta table refused a batch", batch, count):
            note = self._note(batch)
            if note is not None:
                schema = self._delta.schema()
                self._delta.create_write_transaction([*files], "append", schema, commit_properties=note)
            return note is not None

    # Any: a record batch.
    def _check_partitions(self, rows: Any, elements: Sequence[object]) -> None:
        """Refuses texts that name the partition of null, as an empty one does, or a folder with too long a name."""
        for field in self._text_partitions:
            texts = rows.column(field.column)
            row = max([pc.index(texts, text).as_py() for text in ("", NO_VALUE)])  # -1 where there is none
            if row >= 0:
                reason = f"{short_repr(texts[row].as_py())} is null once it names a partition of a Delta table"
                fault = UnfitError(f"{self._record_type.name}.{field.name}", reason, "another text, or None")
                hint = "map such texts to another one, or partition by another field"
                raise misfit(elements[row], fault, self._record_type.name, hint)
            if self._is_mounted:
                check_folder_names(self._record_type, field, field.column, texts, elements)

    # Any: a record batch.
    def _merge(self, rows: Any, withdrawn: list[bool], commit: CommitProperties) -> None:
        """Inserts or updates the last row of each key, or deletes the table's row if the last one is a withdrawal."""
        keys = zip(*[rows.column(name).to_pylist() for name in self._key], strict=True)
        last = sorted({key: row for row, key in enumerate(keys)}.values())
        columns = {name: rows.column(name).take(last) for name in rows.schema.names}
        mark = next(name for name in map("withdrawn{}".format, count()) if name not in columns)
        source = pa.table({**columns, mark: pa.array([withdrawn[row] for row in last])})
        assignments = {_quoted(name): f"source.{_quoted(name)}" for name in columns}
        same = " AND ".join(f"target.{_quoted(name)} = source.{_quoted(name)}" for name in self._key)
        merger = self._delta.merge(source, same, "source", "target", commit_properties=commit)
        merger = merger.when_matched_delete(f"source.{mark}").when_matched_update(assignments, f"NOT source.{mark}")
        merger.when_not_matched_insert(assignments, f"NOT source.{mark}").execute()

    # Any: a record batch, or a table.
    def _with_all_columns(self, rows: Any) -> Any:
        """Returns the rows with columns of nulls for those that only the table has."""
        schema = pa.schema(self._delta.schema().to_arrow())
        columns = {name: rows.column(name) for name in rows.schema.names}
        return type(rows).from_arrays(
            [columns[field.name] if field.name in columns else pa.nulls(rows.num_rows, field.type) for field in schema],
            names=schema.names,
        )

    def _check_table(self) -> None:
        columns = {field.name: field for field in self._delta.schema().fields}
        faults: list[str] = []
        for field in Schema.from_arrow(self.schema).fields:
            column = columns.pop(field.name, None)
            if column is None:
                faults.append(f"{field.name}: no such column; expected {field.type}")
            elif column.type != field.type:
                faults.append(f"{field.name}: the column is {column.type}; expected {field.type}")
        faults += [
            f"{column.name}: the column is not nullable, and {self._record_type.name} has no such field"
            for column in columns.values()
            if not column.nullable
        ]
        partitions = self._delta.metadata().partition_columns
        if partitions != self._partition_by:
            faults.append(f"the table is partitioned by {partitions}, the sink by {self._partition_by}")
        self.refuse("the Delta table", faults, hint="change the table or the record type, or write to a new table")

    def clean(self, text: str) -> str:
        text = _COLOUR.sub("", _BACKTRACE.sub("", text))
        # The longest secrets are removed first, since a shorter one may be part of them.
        return redact(text, longest_first([*self._sink.storage_options.values(), *self._sink.secrets]))
