"""Columns of state as MessagePack: a tag, numbers as bytes, scalars, and the columns within a column.

The decoder knows the one shape that it reads. It builds no dictionaries, so nothing is hashed here; it refuses a length
that goes beyond the end of the bytes before it makes room for it; and it refuses columns that are nested too deeply.
Compressed bytes are made larger again within bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import Any, Final, TypeAlias

import msgspec

from windrow_runtime.codecs.malformed import damaged_state

Scalar: TypeAlias = "bool | int | float | str | None"
"""The values that MessagePack carries as they are: ints of 64 bits, and text without lone surrogates."""

_LENGTH: Final = Struct("<I")
_SMALL: Final = 256
_ANY_RATIO: Final = 16 << 20  # compressed bytes may give this many, however few they are
_LARGEST_RATIO: Final = 256


class Packed(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """A column of values, taken apart."""

    # No field has a default: a few bytes shall not make a column.
    tag: str  # how the values were taken apart
    data: bytes  # numbers side by side, or text and bytes joined
    scalars: Sequence[Scalar]  # values that MessagePack carries, or names
    columns: Sequence[Packed]  # the columns within


def packed(tag: str, data: bytes = b"", scalars: Sequence[Scalar] = (), columns: Sequence[Packed] = ()) -> Packed:
    """A column with the parts that it needs."""
    return Packed(tag, data, scalars, columns)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Packed)

encode: Final = _ENCODER.encode
"""The bytes of a column."""


def is_encodable(values: Sequence[Scalar]) -> bool:
    """Returns whether MessagePack can carry these values: no int beyond 64 bits, no lone surrogate."""
    try:
        encode(values)
    except (OverflowError, UnicodeEncodeError):
        return False
    return True


def decode(data: bytes) -> Packed:
    """The column that :func:`encode` was given, or else a CheckpointError."""
    try:
        return _DECODER.decode(data)
    except Exception as error:  # the decoder has many errors, and each says that these bytes are not ours
        raise damaged_state(f"{data[:16].hex()}: {type(error).__name__}: {error}") from error


@cache
def _zstd() -> Any:  # pyarrow has no types
    import pyarrow as pa

    return pa.Codec("zstd", compression_level=1)


def _most_of(size: int) -> int:
    """The most bytes that ``size`` compressed ones may give: a few bytes are not to fill the memory."""
    return max(_ANY_RATIO, min(_LARGEST_RATIO * size, (1 << 32) - 1))


def compress(data: bytes) -> bytes:
    """The bytes, smaller where that is worth it. Undone by :func:`decompress`."""
    if len(data) >= _SMALL:
        smaller: bytes = _zstd().compress(data, asbytes=True)
        if len(data) <= _most_of(len(smaller)):
            return _LENGTH.pack(len(data)) + smaller
    return _LENGTH.pack(0) + data


def decompress(data: bytes) -> bytes:
    """The bytes that :func:`compress` was given, or else a CheckpointError."""
    if len(data) < _LENGTH.size:
        raise damaged_state(f"{len(data)} bytes", message="stored state is cut off")
    (length,) = _LENGTH.unpack_from(data)
    if not length:
        return data[_LENGTH.size :]
    if length > _most_of(len(data) - _LENGTH.size):
        raise damaged_state(f"{length} of {len(data)} bytes")
    try:
        plain: bytes = _zstd().decompress(data[_LENGTH.size :], length, asbytes=True)
    except OSError as error:
        raise damaged_state(str(error)) from error
    return plain
