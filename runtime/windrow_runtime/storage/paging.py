"""Which page a key lies in, and how large pages are: what pages of objects and pages of columns have in common.

Keys lie in pages by linear hashing. Pages are added and taken away one at a time, at the end. A page that is added
takes over some keys of one other page, its half, and gives them back to it when it is taken away; all other keys stay
where they are. Where keys lie is part of what is stored: :func:`page_of` and :func:`half_of` must give for ever what
they give now.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PageSizes", "half_of", "page_of"]


def page_of(bits: int, count: int) -> int:
    """The page of a key.

    Args:
        bits: What of the key's hash tells it apart from other keys of its group; at least 0.
        count: How many pages there are; at least 1.
    """
    reach = 1 << (count - 1).bit_length()
    page = bits & (reach - 1)
    return page if page < count else page - (reach >> 1)


def half_of(page: int) -> int:
    """The page that has the keys of another one, from 1 on, as long as that one is not there."""
    return page - (1 << (page.bit_length() - 1))


@dataclass(frozen=True, slots=True)
class PageSizes:
    """How large the pages of a state are to be, which goes with how many keys a batch touches.

    A key that is touched costs its whole page, and a page costs something by itself. So pages are dense where a batch
    touches all of them anyway, and small where it touches few keys of many. Between a size that is too large and one
    that is too small lies a factor of four at least, so that batches of one kind do not split and join pages for ever.

    The methods ask about a batch that touches ``keys`` keys, and a state of ``total`` bytes in ``count`` pages.

    Attributes:
        small: Bytes of a page where batches touch few keys.
        dense: Bytes of a page where they touch all pages.
        least: Pages that have fewer bytes on average are joined whatever a batch touches; 0: they are not.
        keys_per_page_for_full_scan: Above this many touched keys for each page nearly every page is touched, and all
            are read.
        sparse_factor: A batch is sparse if this many times its keys are fewer than there would be small pages.
        split_budget_when_due: A batch in which timers are due splits at most this many bytes of pages for later
            batches.
    """

    small: int
    dense: int
    least: int
    keys_per_page_for_full_scan: int
    sparse_factor: int = 4
    split_budget_when_due: int = 64 << 10

    def touch_all(self, keys: int, count: int) -> bool:
        """Whether a batch has so many keys that it leaves few pages untouched."""
        return keys > self.keys_per_page_for_full_scan * count

    def are_few(self, keys: int, total: int) -> bool:
        """Whether a batch would leave most pages untouched, were they small."""
        return self.sparse_factor * keys < total // self.small

    def most_keys(self, total: int, count: int) -> int:
        """So many keys and more are alike to all questions."""
        return max(self.keys_per_page_for_full_scan * count, total // (self.sparse_factor * self.small)) + 1

    def are_too_large(self, total: int, count: int) -> bool:
        """Whether pages are too large for any batch."""
        return total > 2 * self.dense * count

    def are_too_large_for_few(self, keys: int, total: int, count: int) -> bool:
        """Whether pages are larger than they are to be for a batch that touches few keys of many."""
        return total > 2 * self.small * count and self.are_few(keys, total)

    def are_too_small(self, keys: int, total: int, count: int) -> bool:
        """Whether pages are too small for any batch, or for one that touches all of them."""
        is_dense = self.touch_all(keys, count) and not self.are_few(keys, total)
        return count > 2 and total < (self.dense // 2 if is_dense else self.least) * count

    def count_of(self, total: int, page_bytes: int) -> int:
        """In how many pages of some size a state is laid out; two at least, as one lies in the group's record."""
        return max(2, -(-total // page_bytes))

    def split_ahead(self, read: int, has_due: bool) -> int:
        """How many bytes a batch may split for batches to come, which may be of another kind.

        At most as many as it has ``read`` itself. Whether something was due says nothing about batches to come.
        """
        return min(read, self.split_budget_when_due) if has_due else read
