"""A hash of keys that is the same in every process.

Python's ``hash`` of texts differs from process to process, but a key must reach the same key group from every worker
and after every restart.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import numbers
import sys
import uuid
from collections.abc import Callable
from decimal import Decimal
from zlib import crc32

from windrow.errors import InvalidArgumentError

from windrow_runtime.codecs.record_type import type_name
from windrow_runtime.codecs.records import has_generated, short_repr

__all__ = ["stable_hash"]

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)
_MASK = 0xFFFFFFFF


def stable_hash(key: object) -> int:
    """A hash of a key, from 0 to 2**32 - 1.

    Equal keys have equal hashes, in all processes and across restarts: 1, 1.0 and True; aware datetimes of one moment
    in several zones; a NamedTuple and a plain tuple. All NaNs have one hash. All bits are well mixed, so the remainder
    by a small number is evenly spread.

    Args:
        key: A text, bytes, number, ``None``, Enum member, UUID, datetime, date or timedelta, or a tuple, frozenset,
            frozen dataclass or frozen msgspec Struct of these.

    Raises:
        InvalidArgumentError: The key is of another type, or mutable.
    """
    kind = type(key)
    if kind is str:
        try:
            checksum = crc32(b"s" + key.encode())  # type: ignore[attr-defined]
        except UnicodeEncodeError:
            checksum = crc32(_bytes_of(key))
    else:
        checksum = crc32(_bytes_of(key))
    # A CRC is linear in its input: without this, regular keys make regular remainders. MurmurHash3's last step.
    checksum = ((checksum ^ (checksum >> 16)) * 0x85EBCA6B) & _MASK
    checksum = ((checksum ^ (checksum >> 13)) * 0xC2B2AE35) & _MASK
    return checksum ^ (checksum >> 16)


def _bytes_of(key: object) -> bytes:
    """Bytes that are equal for equal keys; the first one tells kinds that are never equal apart."""
    writer = _WRITERS.get(type(key))
    if writer is None:
        writer = _writer_for(type(key), key)
        # Classes of the user's are few, and the table of a worker lives as long as the worker.
        _WRITERS[type(key)] = writer
    return writer(key)
