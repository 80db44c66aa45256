"""Finds fields that got defaults for want of a column, in files whose other columns belong to no field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from windrow_runtime.codecs.malformed import UnmatchedHeader, short_repr
from windrow_runtime.codecs.value_type import Kind, RecordField, ValueType


@dataclass(frozen=True, slots=True)
class Names:
    """The names of columns, each with those of the columns within it; within a list, a map or a struct."""

    columns: Mapping[str, Names] = field(default_factory=dict)
    parts: tuple[Names, ...] = ()  # the element of a list, or the key and the value of a map


def unmatched_columns(
    what: str, fields: Iterable[RecordField], names: Names, *, any_case: bool
) -> UnmatchedHeader | None:
    """Returns the fault of columns that lack fields and have names of no field; None: there is none.

    Args:
        what: Names the whole, such as ``"the header"``.
        fields: The fields of the elements.
        names: The names of the columns.
        any_case: Whether a column is that of a field whose letters are cased otherwise; not within structs.
    """
    lacking: list[str] = []
    unknown: list[str] = []
    for lacks, has in _levels(tuple(fields), names, "", any_case):
        # Only both together look like a misspelt name.
        if lacks and has:
            lacking += lacks
            unknown += has
    if not lacking:
        return None
    has_text, lacks_text = (", ".join(map(short_repr, texts)) for texts in (unknown, lacking))
    return UnmatchedHeader(f"{what} has {has_text}, which no field takes, and lacks {lacks_text}")


def missing_column(field: RecordField, fields: Iterable[RecordField], names: Iterable[str], path: str) -> list[str]:
    """Returns the fault of a field without a column: the field is required, or a column differs by case alone.

    Such a column, which is that of no other field, is nearly always meant, and some readers take it, so the field is
    not silently ``None``.
    """
    others = {each.column for each in fields}
    alike = [name for name in names if name.lower() == field.column.lower() and name not in others]
    if not alike and not field.required:
        return []
    hint = f" (there is {alike[0]!r}: names differ in case)" if alike else ""
    return [f"{path}: no such column; expected {field.type}{hint}"]


def _levels(
    fields: tuple[RecordField, ...], names: Names, prefix: str, any_case: bool
) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the fields without a column, and the columns without a field, of a record and of each one within it."""
    spelt = {name.lower() if any_case else name: name for name in names.columns}
    spelt |= {name: name for name in names.columns}
    named = {each.column: spelt.get(each.column, spelt.get(each.column.lower() if any_case else "")) for each in fields}
    fitting_names = set(named.values())
    # Files need not have the columns that folder names give.
    from_folders = {each.column for each in fields if each.constant is not None}
    lacking = [f"{prefix}{column}" for column, name in named.items() if name is None and column not in from_folders]
    yield lacking, [f"{prefix}{name}" for name in names.columns if name not in fitting_names]
    for each in fields:
        name = named[each.column]
        if name is not None:
            yield from _within(each.type, names.columns[name], f"{prefix}{each.column}")


def _within(value: ValueType, names: Names, path: str) -> Iterator[tuple[list[str], list[str]]]:
    if value.kind is Kind.RECORD and names.columns:
        yield from _levels(value.fields, names, f"{path}.", False)
    elif value.kind is Kind.TUPLE:
        for each in value.columns:
            if each.column in names.columns:
                yield from _within(each.type, names.columns[each.column], f"{path}{each.name}")
    else:
        marks = ("{key}", "{}") if value.kind is Kind.DICT else ("[]",)
        for part, below, mark in zip(value.arguments, names.parts, marks, strict=False):
            yield from _within(part, below, f"{path}{mark}")
