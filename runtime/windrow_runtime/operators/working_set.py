"""The working set of a state: the keys that batches touch again and again, which lie together, apart from pages.

A batch that touches few keys of many reads a page for nearly each of them. But what a stream has touched lately it
mostly touches again (Denning, The working set model for program behavior, 1968). So such keys lie in the group's own
record: a batch that touches them alone takes as long however many keys are stored beside them.

A key comes in when it is touched again while its last touch is remembered, so that keys that come once displace none
(Johnson and Shasha, 2Q, 1994). Those that have not been touched leave when there are many times as many as a batch
touches: to read one here takes a hundredth of the time of its page.
"""

from __future__ import annotations

from typing import Final

__all__ = ["WORKING_SET", "how_many_leave", "most_worth", "seen_after", "takes_more"]

WORKING_SET: Final = -1
"""Its number among those of pages."""

_MOST_BYTES: Final = 256 << 10
_BYTES_OF_A_KEY: Final = 16
_TIMES_KEPT: Final = 16
_TIMES_REMEMBERED: Final = 4
_FEW: Final = 256
_LEAVE_AT_ONCE: Final = 64
_BYTES_SEEN: Final = 4


def most_worth(total: int) -> int:
    """A batch that touches fewer keys touches few of a state of ``total`` bytes, and those are worth remembering."""
    return total // _BYTES_OF_A_KEY


def takes_more(size: int) -> bool:
    """Whether keys still come into a working set of so many bytes."""
    return size < _MOST_BYTES


def seen_after(seen: bytes, fresh: bytes, keys: int) -> bytes:
    """What is remembered of touches after a batch: 32 bits of each key's hash, the oldest first.

    Args:
        seen: What was remembered.
        fresh: The keys that this batch has touched, and that are not in the working set.
        keys: How many keys it has touched in all.
    """
    return (seen + fresh)[-_BYTES_SEEN * _TIMES_REMEMBERED * keys :] if keys else seen


def how_many_leave(held: int, keys: int, size: int, pages: int) -> int:
    """How many keys are to leave a working set, the oldest first, none of those that this batch has touched.

    Args:
        held: How many keys are in it.
        keys: How many keys the batch has touched in all.
        size: Its size in bytes.
        pages: How many pages there are: each key that leaves may touch another one.
    """
    too_many = held - max(_TIMES_KEPT * keys, _FEW)
    if size > _MOST_BYTES:
        too_many = max(too_many, held - held * _MOST_BYTES // size)
    at_once = max(_LEAVE_AT_ONCE, keys, held // _LEAVE_AT_ONCE)
    return max(0, too_many if pages <= at_once else min(too_many, at_once))
