"""Finds what Avro has no form for in the type of a stream's elements, as far as annotations tell for sure."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import typing
from collections.abc import Iterator, Sequence

import typing_extensions

from windrow.formats import JsonValue, RawJson
from windrow.functions.type_names import type_name
from windrow.plan.hints import resolved_hints
from windrow.plan.records import is_named_tuple_class

# Typed as objects: they are compared with what get_origin() gives.
_WRAPPERS: tuple[object, ...] = (
    typing.Annotated, typing_extensions.Required, typing_extensions.NotRequired, typing_extensions.ReadOnly
)  # fmt: skip
_MAPS: tuple[object, ...] = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


@dataclasses.dataclass(frozen=True, slots=True)
class AvroMisfit:
    """A part of a type that Avro has no form for, such as ``Span.took: timedelta``, and what may stand in its place."""

    part: str
    expected: str


def avro_misfit(type_form: object) -> AvroMisfit | None:
    """The first part of a type that Avro has no form for; None: there is none, or nobody can tell yet."""
    return next(_misfits(type_form, type_name(type_form), ()), None)


def _misfits(type_form: object, path: str, within: tuple[object, ...]) -> Iterator[AvroMisfit]:
    origin, arguments = typing.get_origin(type_form), typing.get_args(type_form)
    if type_form is JsonValue or type_form is RawJson:
        yield AvroMisfit(f"{path}: {type_name(type_form)}", "str, with the JSON as its text, or a record")
    elif type_form is datetime.timedelta:
        yield AvroMisfit(f"{path}: timedelta", "int, such as a number of milliseconds")
    elif isinstance(type_form, typing.NewType):
        yield from _misfits(type_form.__supertype__, path, within)
    elif origin in _WRAPPERS:
        yield from _misfits(arguments[0], path, within)
    elif origin in _MAPS and len(arguments) == 2:
        if isinstance(arguments[0], type) and arguments[0] is not str:
            yield AvroMisfit(f"{path}: {type_name(type_form)}", "dict[str, ...]")
        yield from _misfits(arguments[1], f"{path}{{}}", within)
    elif isinstance(record := origin or type_form, type) and (names := _field_names(record)):
        # A record within itself is refused elsewhere.
        hints = {} if type_form in within else resolved_hints(record, include_extras=True)
        for name in names:
            yield from _misfits(hints.get(name), f"{path}.{name}", (*within, type_form))
    else:
        # Members of a union are at its own path; elements of a list, a set or a tuple are below.
        is_nested = isinstance(origin, type) and issubclass(origin, collections.abc.Iterable)
        for argument in arguments:
            yield from _misfits(argument, f"{path}[]" if is_nested else path, within)


def _field_names(record: type) -> Sequence[str]:
    """Returns the field names of a record class; an empty sequence if the class is no record."""
    if dataclasses.is_dataclass(record):
        return [each.name for each in dataclasses.fields(record)]
    if typing_extensions.is_typeddict(record):
        return list(resolved_hints(record))
    names: Sequence[str] = getattr(record, "_fields" if is_named_tuple_class(record) else "__struct_fields__", ())
    return names
