"""Reads fields of records from the names of folders such as ``day=2026-01-31``, as Spark and Hive write them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from windrow.errors import InvalidArgumentError
from windrow.sources import FileSource
from windrow_runtime.codecs.csv import cell_parser
from windrow_runtime.codecs.malformed import MalformedValue, UnfitError
from windrow_runtime.codecs.text_forms import NO_VALUE
from windrow_runtime.codecs.value_type import JSON_CELLS, DefaultFactory, Kind, RecordField, RecordType

# Any in this module: sources of every type.


def folder_values(file: str) -> dict[str, str]:
    """Returns the texts in the names of a path's folders, by column; the innermost folder of a column counts."""
    segments = (part.partition("=") for part in os.path.dirname(file).split(os.sep) if "=" in part)
    return {unquote(name): unquote(text, errors="strict") for name, _, text in segments}


@dataclass(frozen=True)
class FolderFields:
    """The fields of a record type whose values come from folder names; workers get a copy."""

    record_type: RecordType
    fields: tuple[RecordField, ...]

    @cached_property
    def rest(self) -> RecordType:
        """The type of the records in files, without the fields that folders give."""
        return self.record_type.without(self.fields)

    def values_of(self, file: str) -> dict[str, object] | MalformedValue:
        """Returns the values that a file's folders give, by field; keys of a ``TypedDict`` may be absent."""
        try:
            texts = folder_values(file)
        except UnicodeDecodeError:
            return MalformedValue(file, "the name of a folder is not UTF-8", self.record_type.name)
        alike = {name.lower(): text for name, text in texts.items()}
        values: dict[str, object] = {}
        for field in self.fields:
            path = f"{self.record_type.name}.{field.name}"
            # Hive writes names in lower case.
            text = texts.get(field.column, alike.get(field.column.lower()))
            try:
                _set_value(values, field, text, path)
            except UnfitError as error:
                raw = "no such folder" if text is None else f"{field.column}={text}"
                return MalformedValue(raw, f"{error.reason}, from the folders of the file", error.path)
        return values

    def kind_of(self, values: dict[str, object]) -> RecordType:
        """Returns the record type for a file, in which the values that its folders give are constants."""
        present = [field for field in self.record_type.columns if field not in self.fields or field.name in values]
        columns = tuple(
            replace(field, constant=DefaultFactory(values[field.name])) if field in self.fields else field
            for field in present
        )
        return replace(self.record_type, root=replace(self.record_type.root, fields=columns), columns=columns)


def _set_value(values: dict[str, object], field: RecordField, text: str | None, path: str) -> None:
    """Sets the value of a field, unless its key is absent."""
    if text is None:
        if field.required:
            raise UnfitError(path, f"no folder {field.column}=...")
        if field.default is not None:
            values[field.name] = field.default()
        elif not field.absent_allowed:
            values[field.name] = None
    elif text not in (NO_VALUE, ""):
        values[field.name] = cell_parser(replace(field.type, time_format=None), path)(text)
    elif field.type.nullable:
        values[field.name] = None
    elif field.type.kind is Kind.STR:
        values[field.name] = ""
    elif field.default is not None:
        values[field.name] = field.default()
    elif not field.absent_allowed:
        raise UnfitError(path, "null in a required field")


def folder_fields(source: FileSource[Any], record_type: RecordType) -> FolderFields | None:
    """Returns the fields that folders of a source give; raises an ``InvalidArgumentError`` for unsuitable fields."""
    if not source.partitions:
        return None
    by_name = {field.name: field for field in record_type.columns} if record_type.root.kind is Kind.RECORD else {}
    for name in source.partitions:
        field = by_name.get(name)
        if record_type.single or field is None or field.type.kind in JSON_CELLS or field.type.kind is Kind.NONE:
            raise InvalidArgumentError(
                "the name of a folder cannot fill this field",
                given=f"{name}: {'no field of ' + record_type.name if field is None else field.column_type}",
                expected=f"fields of {record_type.name} with values that a cell of CSV can hold",
                hint=f"name fields of it: {', '.join(by_name)}" if by_name else "give the source a record type",
            )
    if len(source.partitions) == len(record_type.columns):
        raise InvalidArgumentError(
            "all fields of a record come from the names of folders, and none from the files",
            given=source.describe(),
            expected="a field that is not in partitions",
        )
    return FolderFields(record_type, tuple(by_name[name] for name in source.partitions))
