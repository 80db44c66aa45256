"""Groups rows by number, by key, and by key and slice; and hashes keys, to the same values in every process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple, final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from windrow_spark.columnar import Floats, Hashes, Ints, Mask
from windrow_spark.stable_hash import stable_hash

# Any: numbers of several types.

_ROW_BITS: Final = 32  # there are at most 2 ** 31 rows at a time

_SPACIOUS: Final = 8
"""The most possible cells (pairs of key and slice) per row for which an array of all is faster than sorting rows."""

_BLOCK: Final = 1 << 14
"""The rows of a block: so few that temporary arrays stay in the processor's cache."""


@final
class Groups:
    """The group of each row. Row numbers ascend in order of arrival."""

    def __init__(self, ids: Ints, count: int) -> None:
        """Stores the group of each row, from 0 to ``count - 1``. A group may have no rows."""
        self.ids = ids.astype(np.int64, copy=False)
        self.count = count

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.ids)

    @cached_property
    def sizes(self) -> Ints:
        """The number of rows in each group."""
        return np.bincount(self.ids, minlength=self.count)

    @cached_property
    def largest(self) -> int:
        """The number of rows in the largest group."""
        return int(self.sizes.max()) if self.count else 0

    @cached_property
    def starts(self) -> Ints:
        """The index in ``order`` at which each group begins."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def order(self) -> Ints:
        """The row numbers, group by group; inside a group in order of arrival."""
        rows = np.arange(len(self), dtype=np.int64)
        if len(self) < 2 or bool((self.ids[1:] >= self.ids[:-1]).all()):
            return rows
        # Group and row are packed into one int: sorting these takes a tenth of the time of sorting rows by group.
        words = (self.ids << _ROW_BITS) | rows
        words.sort()
        return words & ((1 << _ROW_BITS) - 1)

    @cached_property
    def ranks(self) -> Ints:
        """The number of each row in its group, from 0, in order of arrival."""
        ranks = np.empty(len(self), np.int64)
        ranks[self.order] = np.arange(len(self)) - self.starts[self.ids[self.order]]
        return ranks

    def ordered_by(self, codes: Ints, bound: int) -> Ints:
        """Sorts row numbers by group, then by code (from 0 to ``bound - 1``), then by arrival."""
        row_bits, code_bits = len(self).bit_length(), bound.bit_length()
        if row_bits + code_bits + self.count.bit_length() > 63:
            return np.lexsort((codes, self.ids))
        words = (((self.ids << code_bits) | codes) << row_bits) | np.arange(len(self), dtype=np.int64)
        words.sort()
        return words & ((1 << row_bits) - 1)

    @cached_property
    def first_rows(self) -> Ints:
        """The number of each group's first row; -1 for a group without rows."""
        firsts = np.full(self.count, -1, dtype=np.int64)
        # Of several rows for one group numpy keeps the one assigned last.
        firsts[self.ids[::-1]] = np.arange(len(self) - 1, -1, -1, dtype=np.int64)
        return firsts

    @cached_property
    def last_rows(self) -> Ints:
        """The number of each group's last row; -1 for a group without rows."""
        lasts = np.full(self.count, -1, dtype=np.int64)
        lasts[self.ids] = np.arange(len(self), dtype=np.int64)
        return lasts

    def blocks(self) -> Iterator[tuple[slice, Ints]]:
        """Yields slices of rows with their groups, for computations whose temporary arrays should stay small."""
        for start in range(0, len(self), _BLOCK):
            rows = slice(start, start + _BLOCK)
            yield rows, self.ids[rows]

    def where(self, rows: Mask | Ints) -> Groups:
        """Selects rows, by a mask or by their numbers, whose order then counts as the order of arrival."""
        return Groups(self.ids[rows], self.count)

    def totals(self, values: NDArray[Any]) -> Floats:
        """Sums the floats of each group, one value per row; they are added one after the other."""
        return np.bincount(self.ids, values, self.count).astype(np.float64, copy=False)

    def int_totals(self, values: Ints) -> Ints:
        """Sums the ints of each group; the caller ensures that no sum overflows."""
        totals = np.zeros(self.count, dtype=np.int64)
        np.add.at(totals, self.ids, values)
        return totals


class Keys(NamedTuple):
    """Dictionary-encoded keys of rows."""

    codes: Ints  # the index of each row's key among the distinct ones
    distinct: pa.Array  # in order of appearance


def encode_keys(keys: pa.Array) -> Keys:
    """Dictionary-encodes the keys of an Arrow array; None is a key like any other."""
    if keys.type.id == 0:  # without keys, every key is None
        return Keys(np.zeros(len(keys), np.int64), keys[:1])
    if types.is_struct(keys.type):
        return _encode_tuples(keys)
    encoded = keys.dictionary_encode(null_encoding="encode")
    return Keys(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary)


def _encode_tuples(keys: pa.Array) -> Keys:
    """Dictionary-encodes keys that are tuples."""
    first, *others = map(encode_keys, keys.flatten())
    codes = first.codes
    for part in others:
        # Two codes below 2 ** 31 become one below 2 ** 62, and these are numbered anew.
        codes = encode_keys(pa.array(codes * max(1, len(part.distinct)) + part.codes)).codes
    count = int(codes.max()) + 1 if len(codes) else 0
    return Keys(codes, keys.take(pa.array(Groups(codes, count).first_rows)))


def is_among(keys: pa.Array, wanted: pa.Array) -> Mask:
    """Marks the keys that are among the wanted ones."""
    codes = encode_keys(pa.concat_arrays([wanted, keys])).codes
    is_wanted = np.zeros(len(codes), np.bool_)
    is_wanted[codes[: len(wanted)]] = True
    return is_wanted[codes[len(wanted) :]]


class Cells(NamedTuple):
    """Rows grouped by cell: a key and a number that stands for a time, such as that of a slice."""

    groups: Groups  # the cell of each row
    codes: Ints  # the number of each cell's key
    places: Ints  # the time number of each cell


def cells_of(of_rows: Keys, time_numbers: Ints) -> Cells:
    """Groups rows by key and time number; cells are sorted by time number, then by key."""
    codes, keys, rows = of_rows.codes, len(of_rows.distinct), len(time_numbers)
    if not rows:
        empty = np.zeros(0, np.int64)
        return Cells(Groups(empty, 0), empty, empty)
    origin = int(time_numbers.min())
    span = int(time_numbers.max()) - origin + 1
    limit = _SPACIOUS * rows + 1024
    if span > limit:
        distinct_times, ranks = np.unique(time_numbers, return_inverse=True)
    else:
        distinct_times, ranks = np.arange(origin, origin + span), time_numbers - origin
    if len(distinct_times) * keys <= limit:
        at = ranks * keys + codes
        present = np.zeros(len(distinct_times) * keys, np.bool_)
        present[at] = True
        filled = np.flatnonzero(present)
        numbers = np.zeros(len(present), np.int64)
        numbers[filled] = np.arange(len(filled))
        ids = numbers[at]
    else:
        # Times are ranked: a year between two elements does not lead to a year of cells.
        filled, ids = np.unique(ranks * keys + codes, return_inverse=True)
    return Cells(Groups(ids, len(filled)), filled % keys, distinct_times[filled // keys])


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the increment of SplitMix64
_NONE = -(2**63) + 11  # None may share a hash with a number
_NONE_SUM = crc32(b"0")
_PYTHONS_PRIME = 2**61 - 1


def hash_keys(keys: pa.Array) -> Hashes:
    """Hashes each key of an Arrow array to 64 bits, all of them well mixed."""
    arrow_type = keys.type
    if types.is_null(arrow_type):
        return _mixed(np.zeros(len(keys), np.uint64))
    if types.is_string(arrow_type) or types.is_binary(arrow_type):
        return _hashes_of_texts(keys)
    if types.is_struct(arrow_type):
        hashes = np.zeros(len(keys), np.uint64)
        for part in keys.flatten():
            hashes = _mixed(hashes * _GOLDEN ^ hash_keys(part))
        return hashes
    numbers: Ints = keys.cast(pa.int64()).fill_null(_NONE).to_numpy(zero_copy_only=False)
    return _mixed(numbers.view(np.uint64))


def bits_in_group(hashes: Hashes) -> Hashes:
    """Returns the upper 32 bits of hashes, which tell apart keys of one key group; the lower bits choose the group."""
    return hashes >> np.uint64(32)


def pages_of(bits: Hashes, count: int) -> Ints:
    """Returns the page of each key, as :func:`~windrow_spark.storage.keyed_pages.page_of` does for one."""
    reach = 1 << (count - 1).bit_length()
    pages: Ints = (bits & (reach - 1)).astype("int64")
    return pages - (pages >= count) * (reach >> 1)


def parts_of(keys: pa.Array, count: int) -> npt.NDArray[np.uint8]:
    """Assigns each key of a column to one of ``count`` parts, at most 256, which get about equally many keys."""
    return (bits_in_group(hash_keys(keys)) % np.uint64(count)).astype(np.uint8)


def _hashes_of_texts(texts: pa.Array) -> Hashes:
    """Hashes texts, eight bytes of all of them at a time; None is hashed as a length that no text has."""
    missing = np.asarray(texts.is_null()) if texts.null_count else None
    texts = texts.cast(pa.binary()).fill_null(b"")
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    padded = np.zeros(last - first + 8, np.uint8)
    if data is not None:
        padded[: last - first] = np.frombuffer(data, np.uint8, last - first, first)
    # A view of the bytes in which a word of eight bytes begins at each byte.
    words = np.ndarray((last - first + 1,), "<u8", padded, strides=(1,))
    starts, lengths = bounds[:-1] - first, np.diff(bounds)
    hashes = lengths.astype(np.uint64)
    if missing is not None:
        hashes[missing] = np.uint64(0xFFFF_FFFF_FFFF)
    rows = np.flatnonzero(lengths)
    for done in range(0, int(lengths.max(initial=0)), 8):
        rows = rows[lengths[rows] > done]
        # The bytes after the end of a text are shifted out of its last word.
        unused_bits = np.maximum(8 - (lengths[rows] - done), 0).astype(np.uint64) * np.uint64(8)
        hashes[rows] = _mixed(hashes[rows] ^ words[starts[rows] + done] << unused_bits)
    return _mixed(hashes)


def stable_hashes(keys: pa.Array) -> Hashes:
    """Hashes each key of an Arrow array, as :func:`~windrow_spark.stable_hash.stable_hash` does for one."""
    arrow_type = keys.type
    if types.is_string(arrow_type) or types.is_binary(arrow_type):
        # The checksum covers a letter for the type, then the text; it is computed once for the letter.
        seed = crc32(b"s" if types.is_string(arrow_type) else b"b")
        texts = keys.cast(pa.binary()).to_pylist()
        sums = [_NONE_SUM if text is None else crc32(text, seed) for text in texts]
        return _finished(np.array(sums, np.uint64))
    if types.is_int64(arrow_type) and not keys.null_count:
        numbers = keys.to_numpy()
        if not len(numbers) or (numbers.min() > -_PYTHONS_PRIME and numbers.max() < _PYTHONS_PRIME):
            # Python's hash of an int below that prime is the int itself, but that of -1 is -2.
            view = memoryview(np.where(numbers == -1, -2, numbers).astype("<i8").tobytes())
            seed = crc32(b"i")
            sums = [crc32(view[start : start + 8], seed) for start in range(0, len(view), 8)]
            return _finished(np.array(sums, np.uint64))
    if types.is_struct(arrow_type):
        tuples = zip(*[part.to_pylist() for part in keys.flatten()], strict=True)
        return np.array(list(map(stable_hash, tuples)), np.uint64)
    return np.array(list(map(stable_hash, keys.to_pylist())), np.uint64)


def _finished(sums: Hashes) -> Hashes:
    # The same mixing as in stable_hash.
    mask = np.uint64(0xFFFF_FFFF)
    sums = (sums ^ sums >> np.uint64(16)) * np.uint64(0x85EBCA6B) & mask
    sums = (sums ^ sums >> np.uint64(13)) * np.uint64(0xC2B2AE35) & mask
    return sums ^ sums >> np.uint64(16)


def _mixed(bits: Hashes) -> Hashes:
    # The last steps of SplitMix64 (Steele, Lea, Flood 2014).
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return bits ^ bits >> np.uint64(31)
