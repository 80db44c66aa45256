"""A bound for the time in which stored keys are put into sets and dicts.

Keys whose hashes are equal are compared with each other, so n of them take n * n / 2 comparisons. Whoever writes bytes
can choose such keys: Python's hash of an int is its remainder by 2**61 - 1. Keys of a genuine state collide seldom, or,
as powers of two do, some hundred at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from windrow_runtime.codecs.malformed import damaged_state

UNCHECKED: Final = 64
"""Even if all keys collide, a set of this size takes no more time for each key than a larger one may take."""
_COMPARISONS_PER_KEY: Final = 64
_EXTRA_COMPARISONS: Final = 1 << 22
_NUMBERS: Final = frozenset({bool, int, float, complex, Decimal, Fraction})
"""Two numbers are compared in little time; two tuples may share a long beginning."""


class CollisionBudget:
    """Counts the comparisons that the keys of one page, or of one column, may take beyond a few for each key."""

    def __init__(self) -> None:
        self._left = _EXTRA_COMPARISONS

    def check(self, keys: Sequence[Any]) -> None:  # Any: keys of every type
        """Refuse keys that would take long to be put into a set or a dict.

        Args:
            keys: The keys; all different in a genuine state.

        Raises:
            CheckpointError: If too many have equal hashes.
        """
        if len(keys) <= UNCHECKED:
            return
        hashes = list(map(hash, keys))
        if len(set(hashes)) == len(hashes):
            return
        comparisons = sum(count * count for count in Counter(hashes).values() if count > 1)
        if comparisons <= _COMPARISONS_PER_KEY * len(keys):
            return
        if set(map(type, keys)) <= _NUMBERS:
            self._left -= comparisons
            if self._left >= 0:
                return
        raise damaged_state(
            f"{len(keys)} keys with {len(set(hashes))} different hashes", expected="keys whose hashes differ"
        )
