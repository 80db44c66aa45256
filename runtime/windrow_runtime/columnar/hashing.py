"""A hash of keys in columns that is the same in every process: it says in which key group a key lies."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

__all__ = ["hash_keys"]

_NONE = -(2**63) + 11  # None may share a hash with a number

# Any: pyarrow has no types.


def hash_keys(keys: Any) -> npt.NDArray[np.uint64]:
    """A hash of 64 bits, all of them well mixed, for each key of an Arrow array."""
    import pyarrow as pa
    from pyarrow import types

    kind = keys.type
    if types.is_null(kind):
        return _mixed(np.zeros(len(keys), np.uint64))
    if types.is_string(kind) or types.is_binary(kind):
        # Distinct keys alone get here, so each is hashed once a task. None has the length of no text.
        texts = keys.cast(pa.binary()).to_pylist()
        sums = [0xFFFF_FFFF_FFFF if text is None else crc32(text) | len(text) << 32 for text in texts]
        return _mixed(np.array(sums, np.uint64))
    numbers: npt.NDArray[np.int64] = keys.cast(pa.int64()).fill_null(_NONE).to_numpy(zero_copy_only=False)
    return _mixed(numbers.view(np.uint64))


def _mixed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    # The last steps of SplitMix64 (Steele, Lea, Flood 2014).
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = bits ^ bits >> np.uint64(31)
    return mixed
