"""Hashes keys, to the same number in every process.

Python's ``hash`` of texts differs from process to process, but a key must reach the same key group from every
worker and after every restart.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import inspect
import numbers
import uuid
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NoReturn
from zlib import crc32

from windrow.errors import InvalidArgumentError
from windrow.plan.records import has_generated
from windrow_runtime.codecs.malformed import short_repr
from windrow_runtime.codecs.record_type import type_name

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_MASK = 0xFFFFFFFF


def stable_hash(key: object) -> int:
    """A hash of a key, from 0 to 2**32 - 1.

    Equal keys have equal hashes, in all processes and across restarts: 1, 1.0 and True; aware datetimes of one moment
    in several zones; a NamedTuple and a plain tuple. All NaNs have one hash. All bits are well mixed, so the remainder
    by a small number is evenly spread. A key that is mutable or of another type is an ``InvalidArgumentError``.
    """
    checksum = crc32(_bytes_of(key))
    # A CRC is linear: without this, regular keys make regular remainders. It is MurmurHash3's last step.
    checksum = ((checksum ^ (checksum >> 16)) * 0x85EBCA6B) & _MASK
    checksum = ((checksum ^ (checksum >> 13)) * 0xC2B2AE35) & _MASK
    return checksum ^ (checksum >> 16)


def _bytes_of(key: object) -> bytes:
    """Bytes that are equal for equal keys; the first one tells kinds apart that are never equal."""
    writer = _WRITERS.get(type(key))
    if writer is None:
        writer = _writer_for(type(key), key)
        # Classes of keys are few, and an unknown one was refused in the line before.
        _WRITERS[type(key)] = writer
    return writer(key)


# Any, here and below: a writer gets only the classes for which _WRITERS or _writer_for() names it.
def _text(key: Any) -> bytes:
    try:
        return b"s" + str.encode(key)
    except UnicodeEncodeError:
        return b"s" + str.encode(key, "utf-8", "surrogatepass")


def _number(key: Any) -> bytes:
    if key != key:  # noqa: PLR0124 - a NaN; Python hashes those by identity
        return b"nan"
    # Of all hashes, Python defines only that of numbers exactly, across types and processes.
    return b"i" + hash(key).to_bytes(8, "little", signed=True)


def _decimal(key: Any) -> bytes:
    return b"nan" if key.is_nan() else _number(key)


def _joined(tag: bytes, parts: Iterable[bytes]) -> bytes:
    """Parts with their lengths, so that no two sequences of parts run together into the same bytes."""
    return tag + b"".join([len(part).to_bytes(4, "little") + part for part in parts])


def _tuple(key: Any) -> bytes:
    return _joined(b"t", map(_bytes_of, tuple.__iter__(key)))


def _datetime(key: Any) -> bytes:
    if key.utcoffset() is None:
        return b"n%d" % ((key.replace(tzinfo=None) - _EPOCH) // _MICROSECOND)
    return b"a%d" % ((key - _EPOCH_UTC) // _MICROSECOND)


def _enum(key: Any) -> bytes:
    # The name alone: a class may move to another module between two runs. A combination of flags may have none.
    name = key._name_
    return _joined(b"e", [_text(name) if name is not None else _bytes_of(key._value_)])


_Writer = Callable[[Any], bytes]

_WRITERS: dict[type, _Writer] = {
    str: _text,
    int: _number,
    bool: _number,
    float: _number,
    complex: _number,
    Decimal: _decimal,
    bytes: lambda key: b"b" + bytes(key),
    type(None): lambda _: b"0",
    tuple: _tuple,
    frozenset: lambda key: _joined(b"f", sorted(map(_bytes_of, key))),
    datetime.datetime: _datetime,
    datetime.date: lambda key: b"d%d" % key.toordinal(),
    datetime.timedelta: lambda key: b"l%d" % (key // _MICROSECOND),
    uuid.UUID: lambda key: b"u" + key.bytes[::-1],
}

# Enum last: a member of an Enum that is also a str or int equals its plain value. Subclasses of complex are numbers.
_BASES: tuple[type, ...] = (*(kind for kind in _WRITERS if kind is not complex), enum.Enum)

_HINTS: dict[type, str] = {
    list: "use a tuple",
    bytearray: "use bytes",
    set: "use a frozenset",
    dict: "use a tuple of its items, sorted",
}


def _writer_for(class_: type, key: object) -> _Writer:
    """The writer for a class that is not in the table: a subclass of one that is, an Enum or a record."""
    if dataclasses.is_dataclass(class_) and not issubclass(class_, enum.Enum):
        if class_.__hash__ is None or not has_generated(class_, "__eq__"):
            _refuse(class_, key, "declare the dataclass with frozen=True, and leave its equality as it is")
        return _fields_writer([field.name for field in dataclasses.fields(class_) if field.compare])
    equality: object = class_.__eq__
    for base in _BASES:
        if issubclass(class_, base):
            # Equality written in Python may hold where the bytes differ; numpy's and pandas' is written in C.
            if equality is not base.__eq__ and inspect.isfunction(equality):
                _refuse(class_, key, "it defines its own equality; use a key of a built-in type")
            return _WRITERS.get(base, _enum)
    if issubclass(class_, numbers.Number):  # Fraction, and numpy's integers
        return _number
    config = getattr(class_, "__struct_config__", None)
    if config is None:
        _refuse(class_, key, _HINTS.get(class_, "use one of its fields as the key, or a tuple of them"))
    if not config.frozen or not config.eq or inspect.isfunction(equality):
        _refuse(class_, key, "declare the Struct with frozen=True, and leave its equality as it is")
    return _fields_writer(list(getattr(class_, "__struct_fields__", ())))


def _fields_writer(names: list[str]) -> _Writer:
    return lambda key: _joined(b"r", [_bytes_of(getattr(key, name)) for name in names])


def _refuse(class_: type, key: object, hint: str) -> NoReturn:
    raise InvalidArgumentError(
        f"{type_name(class_)} cannot be a key",
        given=short_repr(key),
        expected="a str, number, bytes, None, Enum, UUID, datetime, date or timedelta, or a tuple, frozenset, "
        "frozen dataclass or frozen msgspec.Struct of these",
        hint=hint,
    )
