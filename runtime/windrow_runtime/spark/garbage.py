"""Python's cyclic garbage collector, while many small objects are made that form no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["rare_collections"]

_RARE = (500_000, 20, 100)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Lets the collector run seldom.

    By default it looks at all young objects whenever 700 more have been made than freed. While a task turns a batch of
    records into objects, all of them live, that doubles the time. Cycles that the user's functions make are still
    collected, only later.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(*_RARE)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
