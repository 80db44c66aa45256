"""Records, column by column: taking records apart into columns, and building them again."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeVar

from windrow_runtime.codecs.malformed import UnfitError
from windrow_runtime.codecs.record_type import Field, RecordShape, ValueType

T = TypeVar("T")

_MSGSPEC_CACHE: Final = "__msgspec_cache__"


def scatter(values: Sequence[T], valid: Sequence[bool]) -> list[T | None]:
    """The values at the places that are valid, ``None`` at the others."""
    following = iter(values)
    return [next(following) if ok else None for ok in valid]


def record_columns(values: Sequence[object], record: ValueType, path: str) -> list[list[object]]:
    """The columns of records of exactly the class of ``record``.

    Raises:
        UnfitError: A TypedDict lacks a key, or has one that its type does not have.
    """
    if record.shape is RecordShape.TYPED_DICT:
        return _dict_columns(values, record, path)
    return [list(map(attrgetter(field.name), values)) for field in record.fields]


def _dict_columns(values: Sequence[object], record: ValueType, path: str) -> list[list[object]]:
    dicts = [value for value in values if isinstance(value, dict)]
    known = {field.name for field in record.fields}
    unknown = set().union(*dicts) - known
    if unknown:
        raise UnfitError(path, f"has a key that its type does not have: {min(map(repr, unknown))}")
    columns: list[list[object]] = []
    for field in record.fields:
        if field.absent_allowed:
            column = [value.get(field.name) for value in dicts]
            if any(cell is None and field.name in value for cell, value in zip(column, dicts, strict=True)):
                raise UnfitError(f"{path}.{field.name}", "None in a field that is not Optional", str(field.type))
            columns.append(column)
            continue
        try:
            columns.append(list(map(itemgetter(field.name), dicts)))
        except KeyError:
            raise UnfitError(f"{path}.{field.name}", "the key is missing", str(field.type)) from None
    return columns


def build_records(
    record: ValueType, fields: Sequence[Field], columns: Sequence[Sequence[object]], count: int, path: str
) -> list[object]:
    """Records from columns. Fields that are not among ``fields`` take their defaults.

    Raises:
        UnfitError: The constructor, such as a ``__post_init__``, refused the values.
    """
    if record.shape is RecordShape.TYPED_DICT:
        return _build_dicts(fields, columns, count)
    try:
        if len(fields) == len(record.fields) and not record.by_keyword:
            return construct(record.python_type, columns)
        names = [field.name for field in fields]
        rows = zip(*columns, strict=True) if columns else repeat((), count)
        return [record.python_type(**dict(zip(names, row, strict=True))) for row in rows]
    except Exception as error:  # constructors are the user's and may raise anything
        raise refused_record(record, path, error) from error


def refused_record(record: ValueType, path: str, error: Exception) -> UnfitError:
    """The error for values that the constructor of a record refuses."""
    return UnfitError(path, f"{record.python_type.__name__} refuses the record: {type(error).__name__}: {error}")


# Any: a class of the user's.
def construct(kind: type[Any], columns: Sequence[Sequence[object]]) -> list[object]:
    """Calls a class once for each row of columns, which are all its fields, in order."""
    if is_plain_named_tuple(kind):
        # This does the same as the constructor, in half the time.
        return list(map(tuple.__new__, repeat(kind), zip(*columns, strict=True)))
    return list(map(kind, *columns))


def is_plain_named_tuple(kind: type[Any]) -> bool:
    """Returns whether the constructor of a class is the one that ``namedtuple`` wrote."""
    return _is_plain_named_tuple(kind)  # type: ignore[arg-type]  # mypy takes a class for its instances here


@lru_cache(maxsize=1024)
def _is_plain_named_tuple(kind: type[Any]) -> bool:
    return (
        issubclass(kind, tuple)
        and kind.__bases__[0] is tuple
        and getattr(kind.__new__, "__module__", None) == f"namedtuple_{kind.__name__}"
    )


def _build_dicts(fields: Sequence[Field], columns: Sequence[Sequence[object]], count: int) -> list[object]:
    names = [field.name for field in fields]
    rows = zip(*columns, strict=True) if columns else repeat((), count)
    dicts = [dict(zip(names, row, strict=True)) for row in rows]
    for field in fields:
        if field.absent_allowed:
            for value in dicts:
                if value[field.name] is None:
                    del value[field.name]
    return list(dicts)


def build_tuples(columns: Sequence[Sequence[object]]) -> list[object]:
    """Tuples from the columns of their parts."""
    return list(zip(*columns, strict=True))


def has_generated(record: type, method: str) -> bool:
    """Returns whether a dataclass's method is the one that the decorator wrote.

    The decorator leaves no mark, but it compiles from a text. ``python -c`` does that too, hence the second
    look.
    """
    code = getattr(getattr(record, method, None), "__code__", None)
    if not inspect.iscode(code) or code.co_filename != "<string>":
        return False
    qualified: str = getattr(code, "co_qualname", "__create_fn__")
    return qualified.startswith("__create_fn__")


def forget_msgspec(kinds: Iterable[type]) -> None:
    """Takes from classes what msgspec keeps on them: with that, no class of the main program can be pickled.

    Decoders hold what they need of it themselves.
    """
    for kind in kinds:
        if _MSGSPEC_CACHE in vars(kind):
            delattr(kind, _MSGSPEC_CACHE)
