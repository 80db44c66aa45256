"""Remembers which files were read by digests of their names, which take a fifth of the room of the names.

A digest has 128 bits of BLAKE2b. That two of ten million names have the same one has a chance of 1.5e-25, and nobody
knows how to find such names on purpose. The second of them would be taken for read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

import numpy as np

# Any in this module: arrays of numpy.

DIGEST_BYTES: Final = 16
_AT_ONCE: Final = 1 << 16  # names; sorted ones are found in a large array twice as fast as others


class FileDigests:
    """A set of names that can say whether it has one, and not which it has."""

    def __init__(self) -> None:
        self._sorted = _as_array(b"")
        self._added = bytearray()
        self._size = 0

    def __len__(self) -> int:
        """Returns how many digests were added; one may have been added twice."""
        return self._size

    def add(self, digests: bytes) -> None:
        """Add the digests of names, as :func:`digests_of` returns them."""
        self._added += digests
        self._size += len(digests) // DIGEST_BYTES

    def without(self, names: Iterable[str]) -> Iterator[str]:
        """Yields the names that were not added."""
        if self._added:
            self._sorted = np.concatenate([self._sorted, _as_array(self._added)])
            self._sorted.sort()
            self._added = bytearray()
        if not len(self._sorted):
            yield from names
            return
        left = iter(names)
        while some := list(islice(left, _AT_ONCE)):
            wanted = _as_array(digests_of(some))
            order = np.argsort(wanted)
            places = np.searchsorted(self._sorted, wanted[order])
            is_new = self._sorted[np.minimum(places, len(self._sorted) - 1)] != wanted[order]
            for index in np.sort(order[is_new]).tolist():
                yield some[index]


def digests_of(names: Iterable[str]) -> bytes:
    """Returns the digests of names, one after the other."""
    return b"".join(
        [blake2b(name.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest() for name in names]
    )


def _as_array(digests: bytes | bytearray) -> Any:
    # numpy ignores NUL at the end of such a value, which changes nothing: all have the same length.
    return np.frombuffer(digests, dtype=f"S{DIGEST_BYTES}")
