"""The working set of a state: the keys that batches touch again and again, which lie together, apart from pages.

A batch that touches few keys of many reads a page for nearly each of them. But what a stream has touched lately it
mostly touches again (Denning, The working set model for program behavior, 1968). So such keys lie in the group's own
record: a batch that touches them alone takes as long however many keys are stored beside them.

A key comes in when it is touched again while its last touch is remembered, so that keys that come once displace none
(Johnson and Shasha, 2Q, 1994). Those that have not been touched leave when there are some times as many as a batch
touches, since a batch reads all that is here.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "WORKING_SET",
    "how_many_come",
    "how_many_leave",
    "keys_lately",
    "largest_informative_batch",
    "seen_after",
]

WORKING_SET: Final = -1
"""Its number among those of pages."""

_MOST_BYTES: Final = 256 << 10
_LEAST_BYTES_OF_A_KEY: Final = 16
# To read and write a key here takes up to a tenth of the time of its page.
_TIMES_KEPT: Final = 4
_TIMES_REMEMBERED: Final = 2
_LEAST_KEPT: Final = 32
_LEAST_REMEMBERED: Final = 128
_LEAVE_AT_ONCE: Final = 64
_BYTES_SEEN: Final = 4


def largest_informative_batch(total: int) -> int:
    """A batch that touches so many keys, of a state of ``total`` bytes, says nothing of a working set.

    They are most of the state, where keys are small, or more than a working set takes.
    """
    return min(total, _MOST_BYTES) // _LEAST_BYTES_OF_A_KEY


def seen_after(seen: bytes, fresh: bytes, keys: int) -> bytes:
    """What is remembered of touches after a batch: up to 32 bits of each key's hash, the oldest first.

    Args:
        seen: What was remembered.
        fresh: The keys that this batch has touched, and that are not in the working set.
        keys: How many keys it has touched in all.
    """
    # A small batch among large ones makes it forget a part alone.
    kept = max(_TIMES_REMEMBERED * keys, len(seen) // _BYTES_SEEN * 3 // 4, _LEAST_REMEMBERED)
    return (seen + fresh)[-_BYTES_SEEN * kept :]


def keys_lately(seen: bytes, keys: int) -> int:
    """About how many keys batches have touched lately, as far as what is remembered tells.

    Args:
        seen: What is remembered.
        keys: How many keys this batch has touched.
    """
    return max(keys, len(seen) // (_BYTES_SEEN * _TIMES_REMEMBERED))


def how_many_come(size: int, bytes_of_a_key: float) -> int:
    """How many keys may come into a working set.

    Args:
        size: Its size in bytes.
        bytes_of_a_key: What each of them takes, on average.
    """
    return max(0, int((_MOST_BYTES - size) / max(bytes_of_a_key, _LEAST_BYTES_OF_A_KEY)))


def how_many_leave(held: int, keys: int, size: int, pages: int) -> tuple[int, int]:
    """How many keys are to leave a working set.

    Those that the batch has not touched go first, and of these the ones that came first. Others go only if the set is
    too large, since what it holds has grown.

    Args:
        held: How many keys are in it.
        keys: How many keys batches have touched lately.
        size: Its size in bytes.
        pages: How many pages there are: each key that leaves may touch another one.

    Returns:
        How many go if the batch has not touched them, and how many go in any case.
    """
    too_large = held - held * _MOST_BYTES // size if size > _MOST_BYTES else 0
    too_many = max(0, held - max(_TIMES_KEPT * keys, _LEAST_KEPT))
    at_once = max(_LEAVE_AT_ONCE, keys, held // _LEAVE_AT_ONCE)
    return max(too_large, too_many if pages <= at_once else min(too_many, at_once)), too_large
