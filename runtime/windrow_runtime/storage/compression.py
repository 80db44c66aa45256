"""Bytes made smaller, and made again within bounds."""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Any, Final

from windrow_runtime.codecs.malformed import damaged_state

_LENGTH: Final = Struct("<I")
_SMALL: Final = 256
_ANY_RATIO: Final = 16 << 20  # this many bytes may come of the fewest
_LARGEST_RATIO: Final = 256


@cache
def _zstd() -> Any:  # pyarrow has no types
    import pyarrow as pa

    return pa.Codec("zstd", compression_level=1)


def _most_of(size: int) -> int:
    """The most bytes that ``size`` compressed ones may give: a few bytes are not to fill the memory."""
    return max(_ANY_RATIO, min(_LARGEST_RATIO * size, (1 << 32) - 1))


def compress(data: bytes) -> bytes:
    """The bytes, smaller where that is worth it. Undone by :func:`decompress`."""
    if len(data) < _SMALL:
        return _LENGTH.pack(0) + data
    smaller: bytes = _zstd().compress(data, asbytes=True)
    if len(data) > _most_of(len(smaller)):
        return _LENGTH.pack(0) + data
    return _LENGTH.pack(len(data)) + smaller


def decompress(data: bytes) -> bytes:
    """The bytes that :func:`compress` was given.

    Raises:
        CheckpointError: If the bytes are damaged.
    """
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
