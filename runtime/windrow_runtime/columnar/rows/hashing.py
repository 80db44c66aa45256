"""Hashes keys in columns, in every process alike: hashes decide in which key group and page a key lies."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from windrow_runtime.codecs.stable_hash import stable_hash
from windrow_runtime.columnar import Hashes, Ints

_NONE = -(2**63) + 11  # None may share a hash with a number
_NONE_SUM = crc32(b"0")
_PYTHONS_PRIME = 2**61 - 1


def hash_keys(keys: pa.Array) -> Hashes:
    """A hash of 64 bits, all of them well mixed, for each key of an Arrow array."""
    kind = keys.type
    if types.is_null(kind):
        return _mixed(np.zeros(len(keys), np.uint64))
    if types.is_string(kind) or types.is_binary(kind):
        # Distinct keys alone get here, so each is hashed once a task. None has the length of no text.
        texts = keys.cast(pa.binary()).to_pylist()
        sums = [0xFFFF_FFFF_FFFF if text is None else crc32(text) | len(text) << 32 for text in texts]
        return _mixed(np.array(sums, np.uint64))
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
    """Deals the keys of an Arrow array out to parts that are about alike, for as long as a batch runs.

    The keys are those of one group, and there are at most 256 parts. Unlike :func:`hash_keys` it goes through texts as
    columns, and so asks for no distinct keys.
    """
    is_text = types.is_string(keys.type) or types.is_binary(keys.type)
    hashes = _hashes_of_texts(keys) if is_text else hash_keys(keys)
    return (bits_in_group(hashes) % np.uint64(count)).astype(np.uint8)


def _hashes_of_texts(texts: pa.Array) -> Hashes:
    """Eight bytes of all texts at a time; None is an empty text."""
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
