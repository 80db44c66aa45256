"""What a columnar step emits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Fired"]

# Any in this module: pyarrow has no types.

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fired:
    """Windows that fired, as columns side by side.

    Attributes:
        keys: The keys, an Arrow array.
        starts: The starts of the windows, in milliseconds; of no meaning for the window of all time.
        ends: Their ends.
        stamps: Their last timestamps, which the results carry.
        results: The results of the aggregate, an Arrow array.
    """

    keys: Any
    starts: Ints
    ends: Ints
    stamps: Ints
    results: Any

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, start: int, count: int) -> Fired:
        """Some that follow each other: so many, or what is left."""
        part = slice(start, start + count)
        return Fired(
            self.keys.slice(start, count),
            self.starts[part],
            self.ends[part],
            self.stamps[part],
            self.results.slice(start, count),
        )
