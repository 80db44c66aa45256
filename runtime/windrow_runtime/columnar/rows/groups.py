"""Groups rows by number, by key, and by key and slice; and hashes keys, in every process alike."""

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

from windrow_runtime.codecs.stable_hash import stable_hash
from windrow_runtime.columnar import Floats, Hashes, Ints, Mask

# Any: numbers of several types.

_ROW_BITS: Final = 32  # each step takes at most 2 ** 31 rows

_SPACIOUS: Final = 8
"""Where there would be more cells than this for each row, rows are sorted; else cells are laid out side by side."""

_BLOCK: Final = 1 << 14
"""Rows worked on at a time: what is between input and output then stays in the cache, and needs no new memory."""


@final
class Groups:
    """Rows by group. The order of rows is their order of arrival."""

    def __init__(self, ids: Ints, count: int) -> None:
        """Takes the group of each row, from 0 to ``count - 1``. A group may have no rows."""
        self.ids = ids.astype(np.int64, copy=False)
        self.count = count

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.ids)

    @cached_property
    def sizes(self) -> Ints:
        """The rows of each group."""
        return np.bincount(self.ids, minlength=self.count)

    @cached_property
    def largest(self) -> int:
        """The rows of the largest group."""
        return int(self.sizes.max()) if self.count else 0

    @cached_property
    def starts(self) -> Ints:
        """The place at which each group begins in ``order``."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def order(self) -> Ints:
        """The row numbers, group by group; inside a group in order of arrival."""
        rows = np.arange(len(self), dtype=np.int64)
        if len(self) < 2 or bool((self.ids[1:] >= self.ids[:-1]).all()):
            return rows
        # Group and row in one word: sorting words takes a tenth of the time of sorting row numbers by group.
        words = (self.ids << _ROW_BITS) | rows
        words.sort()
        return words & ((1 << _ROW_BITS) - 1)

    def ordered_by(self, codes: Ints, bound: int) -> Ints:
        """The row numbers by group, inside it by code (from 0 to ``bound - 1``), of equals in order of arrival."""
        row_bits, code_bits = len(self).bit_length(), bound.bit_length()
        if row_bits + code_bits + self.count.bit_length() > 63:
            return np.lexsort((codes, self.ids))
        words = (((self.ids << code_bits) | codes) << row_bits) | np.arange(len(self), dtype=np.int64)
        words.sort()
        return words & ((1 << row_bits) - 1)

    @cached_property
    def first_rows(self) -> Ints:
        """The first row of each group; -1 where it has none."""
        found = np.full(self.count, -1, dtype=np.int64)
        # Of several rows for one place numpy keeps the one assigned last.
        found[self.ids[::-1]] = np.arange(len(self) - 1, -1, -1, dtype=np.int64)
        return found

    @cached_property
    def last_rows(self) -> Ints:
        """The last row of each group; -1 where it has none."""
        found = np.full(self.count, -1, dtype=np.int64)
        found[self.ids] = np.arange(len(self), dtype=np.int64)
        return found

    def blocks(self) -> Iterator[tuple[slice, Ints]]:
        """Runs of rows, and the groups of their rows: for steps whose arrays in between are better small."""
        for start in range(0, len(self), _BLOCK):
            rows = slice(start, start + _BLOCK)
            yield rows, self.ids[rows]

    def where(self, rows: Mask | Ints) -> Groups:
        """Some of the rows, in the same groups; the order of row numbers takes the place of that of arrival."""
        return Groups(self.ids[rows], self.count)

    def totals(self, values: NDArray[Any]) -> Floats:
        """The sum of the floats of each group, one value per row; added one after the other."""
        return np.bincount(self.ids, values, self.count).astype(np.float64, copy=False)

    def int_totals(self, values: Ints) -> Ints:
        """The sum of the ints of each group; the caller knows that it does not overflow."""
        found = np.zeros(self.count, dtype=np.int64)
        np.add.at(found, self.ids, values)
        return found


class Keys(NamedTuple):
    """Keys as numbers."""

    codes: Ints  # the place of each row's key among the distinct ones
    distinct: pa.Array  # in order of appearance


def encode_keys(keys: pa.Array) -> Keys:
    """The keys of an Arrow array as numbers; None is a key as any other."""
    if keys.type.id == 0:  # without keys, every key is None
        return Keys(np.zeros(len(keys), np.int64), keys[:1])
    if types.is_struct(keys.type):
        return _encode_tuples(keys)
    encoded = keys.dictionary_encode(null_encoding="encode")
    return Keys(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary)


def _encode_tuples(keys: pa.Array) -> Keys:
    """The keys that are tuples as numbers."""
    first, *others = map(encode_keys, keys.flatten())
    codes = first.codes
    for part in others:
        # Two numbers below 2 ** 31 are one below 2 ** 62; then they are numbered anew.
        codes = encode_keys(pa.array(codes * max(1, len(part.distinct)) + part.codes)).codes
    count = int(codes.max()) + 1 if len(codes) else 0
    return Keys(codes, keys.take(pa.array(Groups(codes, count).first_rows)))


def is_among(keys: pa.Array, wanted: pa.Array) -> Mask:
    """Marks the keys that are among some others."""
    codes = encode_keys(pa.concat_arrays([wanted, keys])).codes
    found = np.zeros(len(codes), np.bool_)
    found[codes[: len(wanted)]] = True
    return found[codes[len(wanted) :]]


class Cells(NamedTuple):
    """Rows by key and place in time."""

    groups: Groups  # the cell of each row
    codes: Ints  # the key of each cell, by its number
    places: Ints  # the place in time of each cell


def cells_of(of_rows: Keys, places: Ints) -> Cells:
    """Groups rows by their key and their place in time; in order of places."""
    codes, keys, rows = of_rows.codes, len(of_rows.distinct), len(places)
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


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # as SplitMix64 goes on from one number to the next
_NONE = -(2**63) + 11  # None may share a hash with a number
_NONE_SUM = crc32(b"0")
_PYTHONS_PRIME = 2**61 - 1


def hash_keys(keys: pa.Array) -> Hashes:
    """A hash of 64 bits, all of them well mixed, for each key of an Arrow array."""
    kind = keys.type
    if types.is_null(kind):
        return _mixed(np.zeros(len(keys), np.uint64))
    if types.is_string(kind) or types.is_binary(kind):
        return _hashes_of_texts(keys)
    if types.is_struct(kind):
        hashes = np.zeros(len(keys), np.uint64)
        for part in keys.flatten():
            hashes = _mixed(hashes * _GOLDEN ^ hash_keys(part))
        return hashes
    numbers: Ints = keys.cast(pa.int64()).fill_null(_NONE).to_numpy(zero_copy_only=False)
    return _mixed(numbers.view(np.uint64))


def bits_in_group(hashes: Hashes) -> Hashes:
    """The upper 32 bits of hashes, which differ among the keys of a group; the low bits decide the group."""
    return hashes >> np.uint64(32)


def pages_of(bits: Hashes, count: int) -> Ints:
    """The pages of keys, as :func:`~windrow_runtime.storage.keyed_pages.page_of` gives them one by one."""
    reach = 1 << (count - 1).bit_length()
    pages: Ints = (bits & (reach - 1)).astype("int64")
    return pages - (pages >= count) * (reach >> 1)


def parts_of(keys: pa.Array, count: int) -> npt.NDArray[np.uint8]:
    """Deals the keys of a group, as they are in a column, out to at most 256 parts that are about alike."""
    return (bits_in_group(hash_keys(keys)) % np.uint64(count)).astype(np.uint8)


def _hashes_of_texts(texts: pa.Array) -> Hashes:
    """Hashes eight bytes of all texts at a time; None has a length that no text has."""
    missing = np.asarray(texts.is_null()) if texts.null_count else None
    texts = texts.cast(pa.binary()).fill_null(b"")
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    padded = np.zeros(last - first + 8, np.uint8)
    if data is not None:
        padded[: last - first] = np.frombuffer(data, np.uint8, last - first, first)
    # A word of eight bytes begins at each byte.
    words = np.ndarray((last - first + 1,), "<u8", padded, strides=(1,))
    places, lengths = bounds[:-1] - first, np.diff(bounds)
    hashes = lengths.astype(np.uint64)
    if missing is not None:
        hashes[missing] = np.uint64(0xFFFF_FFFF_FFFF)
    rows = np.flatnonzero(lengths)
    for done in range(0, int(lengths.max(initial=0)), 8):
        rows = rows[lengths[rows] > done]
        # What lies behind a text is moved out of its last word.
        behind = np.maximum(8 - (lengths[rows] - done), 0).astype(np.uint64) * np.uint64(8)
        hashes[rows] = _mixed(hashes[rows] ^ words[places[rows] + done] << behind)
    return _mixed(hashes)


def stable_hashes(keys: pa.Array) -> Hashes:
    """The hash of each key of an Arrow array, as :func:`~windrow_runtime.codecs.stable_hash` gives it one by one."""
    kind = keys.type
    if types.is_string(kind) or types.is_binary(kind):
        # A text begins with its kind, and a checksum can be continued.
        begun = crc32(b"s" if types.is_string(kind) else b"b")
        texts = keys.cast(pa.binary()).to_pylist()
        sums = [_NONE_SUM if text is None else crc32(text, begun) for text in texts]
        return _finished(np.array(sums, np.uint64))
    if types.is_int64(kind) and not keys.null_count:
        numbers = keys.to_numpy()
        if not len(numbers) or (numbers.min() > -_PYTHONS_PRIME and numbers.max() < _PYTHONS_PRIME):
            # Python's hash of a number is the number, up to there, but that of -1 is -2.
            view = memoryview(np.where(numbers == -1, -2, numbers).astype("<i8").tobytes())
            begun = crc32(b"i")
            sums = [crc32(view[start : start + 8], begun) for start in range(0, len(view), 8)]
            return _finished(np.array(sums, np.uint64))
    if types.is_struct(kind):
        tuples = zip(*[part.to_pylist() for part in keys.flatten()], strict=True)
        return np.array(list(map(stable_hash, tuples)), np.uint64)
    return np.array(list(map(stable_hash, keys.to_pylist())), np.uint64)


def _finished(sums: Hashes) -> Hashes:
    # As stable_hash does it for one.
    mask = np.uint64(0xFFFF_FFFF)
    sums = (sums ^ sums >> np.uint64(16)) * np.uint64(0x85EBCA6B) & mask
    sums = (sums ^ sums >> np.uint64(13)) * np.uint64(0xC2B2AE35) & mask
    return sums ^ sums >> np.uint64(16)


def _mixed(bits: Hashes) -> Hashes:
    # The last steps of SplitMix64 (Steele, Lea, Flood 2014).
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return bits ^ bits >> np.uint64(31)
