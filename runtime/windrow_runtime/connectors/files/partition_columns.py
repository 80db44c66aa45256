"""Splits the elements of a file sink by the fields that name its folders, as Spark and Hive name them."""

from __future__ import annotations

import datetime
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from windrow.errors import InvalidArgumentError
from windrow.plan import Step
from windrow.sinks import FileSink
from windrow_runtime.codecs.json.encoder import json_writer
from windrow_runtime.codecs.malformed import UnfitError, misfit, short_repr
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.codecs.text_forms import MAX_NAME_BYTES, NO_VALUE
from windrow_runtime.codecs.value_type import Kind, RecordField, RecordShape
from windrow_runtime.operators.topology import sink_of
from windrow_runtime.outputs.output import written_type

# Any in this module: sinks of elements of every type, and pyarrow has no types.

# The characters that Spark and Hive escape, and NUL, which no name may have.
_SPECIAL: Final = re.compile("[\x00-\x1f\"#%'*/:=?\\\\\x7f{\\[\\]^]")
_PLAIN: Final = frozenset({Kind.STR, Kind.INT, Kind.BOOL, Kind.DATE})


def escaped(text: str) -> str:
    """Escapes a text for the name of a folder."""
    return _SPECIAL.sub(lambda sign: f"%{ord(sign.group()):02X}", text)


def text_of(value: object) -> str | None:
    """Returns the text of a partition column's value; None for null and empty texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value.isoformat() if isinstance(value, datetime.date) else "" if value is None else str(value)
    return text or None


def segment(column: str, value: object) -> str:
    """Returns the name of a value's folder; an ``InvalidArgumentError`` for the text that names the folder of null."""
    text = text_of(value)
    if text == NO_VALUE:
        raise InvalidArgumentError(
            "the value of a field names the folder of null and of empty texts",
            given=f"{column}: {short_repr(value)}",
            expected="another text",
            hint="partition by another field, or filter such elements upstream",
        )
    return f"{escaped(column)}={NO_VALUE if text is None else escaped(text)}"


def _is_too_long(name: str) -> bool:
    # No character has more than four bytes.
    return len(name) * 4 > MAX_NAME_BYTES and len(name.encode()) > MAX_NAME_BYTES


@dataclass(frozen=True)
class Partitions:
    """Splits elements by the fields that name folders; workers get a copy."""

    record_type: RecordType
    fields: tuple[RecordField, ...]

    @cached_property
    def rest(self) -> RecordType:
        """The type of the records in files, without the fields that name folders."""
        return self.record_type.without(self.fields)

    @property
    def columns(self) -> list[str]:
        """The names of the columns that name folders."""
        return [field.column for field in self.fields]

    def _values(self) -> Callable[[object], list[object]]:
        """Returns a function for the values that name an element's folder; it raises an ``UnfitError`` for misfits."""
        writers = [
            # Folders have dates in ISO 8601, whatever the format is in the files.
            (
                field.name,
                json_writer(replace(field.column_type, time_format=None), f"{self.record_type.name}.{field.name}"),
            )
            for field in self.fields
        ]
        if self.record_type.root.shape is RecordShape.TYPED_DICT:
            return lambda element: [
                write(element.get(name) if isinstance(element, dict) else None) for name, write in writers
            ]
        return lambda element: [write(getattr(element, name)) for name, write in writers]

    def split(self, values: Sequence[object]) -> Mapping[str, list[object]]:
        """Groups elements by folder, in their order, without the fields that name folders if they are dicts."""
        by_folder: defaultdict[str, list[object]] = defaultdict(list)
        columns = self.columns
        folders: dict[tuple[str | None, ...], str] = {}
        for value, folder_values in self.elements(values):
            texts = tuple(map(text_of, folder_values))
            folder = folders.get(texts)
            if folder is None:
                self._check_lengths(folder_values, value)
                folder = folders[texts] = "/".join(map(segment, columns, texts))
            by_folder[folder].append(value)
        return by_folder

    def elements(self, values: Sequence[object]) -> Iterator[tuple[object, list[object]]]:
        """Yields elements, dicts without the fields that name folders, each with the values of these fields."""
        values_of = self._values()
        root, name = self.record_type.root, self.record_type.name
        is_dict = root.shape is RecordShape.TYPED_DICT
        for value in values:
            try:
                if type(value) is not root.python_type and not root.admits(type(value)):
                    raise UnfitError(name, f"it is a {type(value).__name__}", str(root))
                named = values_of(value)
            except UnfitError as error:
                raise misfit(value, error, name) from error
            yield (self._without(value) if is_dict else value), named

    def _check_lengths(self, values: Sequence[object], element: object) -> None:
        """Refuse a value whose folder would have a name that is too long for a mounted file system."""
        for field, value in zip(self.fields, values, strict=True):
            name = segment(field.column, value)
            if _is_too_long(name):
                raise InvalidArgumentError(
                    f"the value of a field is too long to name a folder: {len(name.encode())} bytes",
                    given=short_repr(element),
                    expected=f"at most {MAX_NAME_BYTES} bytes of {field.column}=..., with special characters as %3A",
                    where=f"{self.record_type.name}.{field.name}",
                    hint="partition by a shorter field, such as a hash of this one, or filter such elements upstream",
                )

    def _without(self, value: object) -> object:
        assert isinstance(value, dict), "it was checked"
        names = {field.name for field in self.fields}
        return {name: item for name, item in value.items() if name not in names}

    def _refuse_long(self, rows: Any) -> None:
        """Raises an error for the first row with a value that is too long for the name of a folder."""
        from windrow_runtime.codecs.arrow.decoding import decode_batch

        for number, row in enumerate(rows.select(self.columns).to_pylist()):
            if any(_is_too_long(segment(column, value)) for column, value in row.items()):
                self._check_lengths(list(row.values()), *decode_batch(rows.slice(number, 1), self.record_type))

    def split_rows(self, rows: Any) -> Iterator[tuple[str, Any]]:
        """Does what :meth:`split` does, for an Arrow batch."""
        import numpy as np
        import pyarrow as pa

        if not rows.num_rows:
            return
        codes: Any = np.zeros(rows.num_rows, np.int64)
        names = [""]
        for column in self.columns:
            encoded = rows.column(rows.schema.get_field_index(column)).dictionary_encode(null_encoding="encode")
            # Only combinations that occur are numbered: all possible ones may exceed the memory, or 64 bits.
            pairs = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
            combinations, codes = np.unique(pairs, return_inverse=True)
            below = [segment(column, value) for value in encoded.dictionary.to_pylist()]
            if any(map(_is_too_long, below)):
                self._refuse_long(rows)
            outer, inner = np.divmod(combinations, len(below))
            names = [f"{names[a]}/{below[b]}" for a, b in zip(outer.tolist(), inner.tolist(), strict=True)]
        left = rows.select([field.column for field in self.rest.columns])
        # None and an empty text share a folder.
        merged = {name: number for number, name in enumerate(dict.fromkeys(names))}
        codes = np.array([merged[name] for name in names], np.int64)[codes]
        order = np.argsort(codes, kind="stable")
        ordered = left.take(pa.array(order))
        ends = np.cumsum(np.bincount(codes, minlength=len(merged))).tolist()
        begin = 0
        for name, end in zip(merged, ends, strict=True):
            yield name[1:], ordered.slice(begin, end - begin)
            begin = end


def folder_columns(partitions: Partitions | None) -> tuple[str, ...]:
    """Returns the columns that name the folders of a file sink, as folders spell them; none without partitions."""
    return () if partitions is None else tuple(map(escaped, partitions.columns))


def partitions_of(step: Step) -> Partitions | None:
    """Returns the partitions of a file sink, if any; ``InvalidArgumentError`` for fields that cannot name folders."""
    sink = sink_of(step)
    if not isinstance(sink, FileSink) or not sink.partition_by:
        return None
    element_type = written_type(step)
    by_name = {field.name: field for field in element_type.columns} if element_type.root.kind is Kind.RECORD else {}
    for name in sink.partition_by:
        field = by_name.get(name)
        if field is None or field.type.scalar_kind not in _PLAIN or field.column.startswith(("_", ".")):
            raise InvalidArgumentError(
                "a field of partition_by cannot name folders",
                given=f"{name}: {'no field of ' + element_type.name if field is None else field.column_type}",
                expected="a field of type str, int, bool, date or Enum, whose column does not begin with '_' or '.'",
                where=step.where,
                hint="map the field to the text that the folders are to have",
            )
    if len(sink.partition_by) == len(element_type.columns):
        raise InvalidArgumentError(
            "all fields of a record name folders, and none is left for the files",
            given=sink.describe(),
            expected="a field that is not in partition_by",
            where=step.where,
        )
    return Partitions(element_type, tuple(by_name[name] for name in sink.partition_by))
