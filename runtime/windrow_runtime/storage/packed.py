"""Columns of state as MessagePack: a tag, numbers as bytes, scalars, and the columns within a column.

The decoder knows the one shape that it reads. It builds no dictionaries, so nothing is hashed here; it refuses a length
that goes beyond the end of the bytes before it makes room for it; and it refuses columns that are nested too deeply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from windrow_runtime.codecs.malformed import damaged_state

Scalar: TypeAlias = "bool | int | float | str | None"
"""The values that MessagePack carries as they are: ints of 64 bits, and text without lone surrogates."""


class Packed(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """A column of values, taken apart.

    Attributes:
        tag: How the values were taken apart.
        data: Numbers side by side, or text and bytes joined.
        scalars: Values that MessagePack carries, or names.
        columns: The columns within.
    """

    # No field has a default: a few bytes shall not make a column.
    tag: str
    data: bytes
    scalars: Sequence[Scalar]
    columns: Sequence[Packed]


def packed(tag: str, data: bytes = b"", scalars: Sequence[Scalar] = (), columns: Sequence[Packed] = ()) -> Packed:
    """A column with the parts that it needs."""
    return Packed(tag, data, scalars, columns)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Packed)


def is_encodable(values: Sequence[Scalar]) -> bool:
    """Returns whether MessagePack can carry these values: no int beyond 64 bits, no lone surrogate."""
    try:
        _ENCODER.encode(values)
    except (OverflowError, UnicodeEncodeError):
        return False
    return True


def encode(column: Packed) -> bytes:
    """The bytes of a column."""
    return _ENCODER.encode(column)


def decode(data: bytes) -> Packed:
    """The column that :func:`encode` was given.

    Raises:
        CheckpointError: If the bytes are not those of a column.
    """
    try:
        return _DECODER.decode(data)
    except Exception as error:  # the decoder has many errors, and each says that these bytes are not ours
        raise damaged_state(f"{data[:16].hex()}: {type(error).__name__}: {error}") from error
