"""Groups of rows by key and by the pane that they fall into."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["Cells", "Ints", "Keys", "cells_of", "encode_keys"]

# Any in this module: pyarrow has no types.

Ints: TypeAlias = npt.NDArray[np.int64]

_SPACIOUS: Final = 8
"""So many cells for each row are laid out side by side; where there would be more, rows are sorted."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys as numbers.

    Attributes:
        codes: The place of each row's key among the distinct ones.
        distinct: The distinct keys, an Arrow array in order of appearance.
    """

    codes: Ints
    distinct: Any


def encode_keys(keys: Any) -> Keys:
    """The keys of an Arrow array as numbers; None is a key as any other."""
    if keys.type.id == 0:  # without keys, every key is None
        return Keys(np.zeros(len(keys), np.int64), keys[:1])
    encoded = keys.dictionary_encode(null_encoding="encode")
    return Keys(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary)


@dataclass(frozen=True)
class Cells:
    """Rows by key and place in time.

    Attributes:
        groups: The cell of each row.
        codes: The key of each cell, by its number.
        places: The place in time of each cell.
    """

    groups: Groups
    codes: Ints
    places: Ints

    @cached_property
    def count(self) -> int:
        """How many cells there are."""
        return len(self.codes)


def cells_of(codes: Ints, keys: int, places: Ints) -> Cells:
    """Groups rows.

    Args:
        codes: The number of each row's key.
        keys: How many keys there are.
        places: The place of each row in time: any number. Cells come in order of places.
    """
    rows = len(codes)
    if not rows:
        empty = np.zeros(0, np.int64)
        return Cells(Groups(empty, 0), empty, empty)
    origin = int(places.min())
    span = int(places.max()) - origin + 1
    limit = _SPACIOUS * rows + 1024
    if span > limit:
        found, ranks = np.unique(places, return_inverse=True)
    else:
        found, ranks = np.arange(origin, origin + span), places - origin
    if len(found) * keys <= limit:
        at = ranks * keys + codes
        present = np.zeros(len(found) * keys, np.bool_)
        present[at] = True
        filled = np.flatnonzero(present)
        numbers = np.zeros(len(present), np.int64)
        numbers[filled] = np.arange(len(filled))
        ids = numbers[at]
    else:
        # Only as far apart as rows are: a year between two elements is no year of cells.
        filled, ids = np.unique(ranks * keys + codes, return_inverse=True)
    return Cells(Groups(ids, len(filled)), filled % keys, found[filled // keys])
