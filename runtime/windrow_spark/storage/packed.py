"""Encodes columns of state as MessagePack: a tag, numbers as bytes, scalars, and nested columns.

The decoder accepts one shape alone. It builds no dictionaries, so nothing is hashed here; it refuses a length beyond
the end of the bytes before it allocates memory; and it refuses columns that are nested too deeply. Decompressed bytes
are limited in size.
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
_ANY_RATIO: Final = 16 << 20  # bytes that any number of compressed bytes may be decompressed to
_LARGEST_RATIO: Final = 256


class Packed(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """An encoded column of values."""

    # No field has a default: otherwise few bytes could decode to many columns.
    tag: str  # how the values were encoded
    data: bytes  # an array of numbers, or text and bytes joined
    scalars: Sequence[Scalar]  # values that MessagePack carries, or names
    columns: Sequence[Packed]  # the nested columns


def packed(tag: str, data: bytes = b"", scalars: Sequence[Scalar] = (), columns: Sequence[Packed] = ()) -> Packed:
    """Returns an encoded column; what is left out is empty."""
    return Packed(tag, data, scalars, columns)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Packed)

encode: Final = _ENCODER.encode
"""Encodes a column as bytes."""


def is_encodable(values: Sequence[Scalar]) -> bool:
    """Returns whether MessagePack can carry these values: no int beyond 64 bits, no lone surrogate."""
    try:
        encode(values)
    except (OverflowError, UnicodeEncodeError):
        return False
    return True


def decode(data: bytes) -> Packed:
    """Decodes a column that :func:`encode` encoded; raises a CheckpointError if the bytes are damaged."""
    try:
        return _DECODER.decode(data)
    except Exception as error:  # the decoder raises many errors, all of which mean that others wrote these bytes
        raise damaged_state(f"{data[:16].hex()}: {type(error).__name__}: {error}") from error


@cache
def _zstd() -> Any:  # pyarrow has no types
    import pyarrow as pa

    return pa.Codec("zstd", compression_level=1)


def _most_of(size: int) -> int:
    """Returns to how many bytes ``size`` bytes may be decompressed, so that few bytes cannot fill the memory."""
    return max(_ANY_RATIO, min(_LARGEST_RATIO * size, (1 << 32) - 1))


def compress(data: bytes) -> bytes:
    """Compresses bytes if they are long enough. Undone by :func:`decompress`."""
    if len(data) >= _SMALL:
        smaller: bytes = _zstd().compress(data, asbytes=True)
        if len(data) <= _most_of(len(smaller)):
            return _LENGTH.pack(len(data)) + smaller
    return _LENGTH.pack(0) + data


def decompress(data: bytes) -> bytes:
    """Decompresses bytes that :func:`compress` returned; raises a CheckpointError if they are damaged."""
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
