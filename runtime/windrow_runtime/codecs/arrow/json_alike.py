"""Columns of JSON lines that one program wrote, with the same keys in the same order and the same spaces.

The values of such lines lie between pieces of text that are the same in all lines. Where they are is known from the
quotes, so that no line is parsed. Lines that differ, or have an escape, are left to pyarrow's reader of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow_runtime.codecs.arrow.encoding import arrow_type
from windrow_runtime.codecs.value_type import Field, Kind

# Any in this module: pyarrow has no types, and NumPy's types of bytes depend on their number.

_Places = npt.NDArray[np.int64]
_Truths = npt.NDArray[np.bool_]

_QUOTE, _SPACE, _ZERO, _MINUS = b'" 0-'
_MEMBER: Final = re.compile(rb'([{,][ \t]*"([^"]*)"[ \t]*:[ \t]*)("[^"]*"|[^",{}\[\] \t]+)')
_END: Final = re.compile(rb"[ \t]*}")
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")

_PADDING: Final = 16
_LONGEST_NUMBER: Final = 32
_FEW: Final = 16  # a column with an exponent in every so many of its numbers is not worth a closer look

_INLINE: Final = 12
"""Arrow's views hold texts of so many bytes themselves."""

_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
_LEADING: Final = _MASKS[np.minimum(np.arange(_INLINE + 1), 4)]
_FOLLOWING: Final = _MASKS[np.maximum(np.arange(_INLINE + 1) - 4, 0)]

_ONES: Final = np.uint64(0x0101010101010101)
_TOPS: Final = np.uint64(0x8080808080808080)
_LETTER_E: Final = np.uint64(0x6565656565656565)
_LOWER: Final = np.uint64(0x2020202020202020)


def _among(signs: bytes) -> _Truths:
    table = np.zeros(256, bool)
    table[list(signs)] = True
    return table


_DIGIT: Final = _among(b"0123456789")
_POSITIVE: Final = _among(b"123456789")
_BEHIND_ZERO: Final = _among(b".eE")


class _Form(NamedTuple):
    """How a line is written."""

    names: Sequence[bytes]
    texts: Sequence[bool]  # whether each value is a text in quotes
    pieces: Sequence[bytes]  # in front of each value, and behind the last one


def _form_of(line: bytes) -> _Form | None:
    """The form of a line without escapes."""
    names: list[bytes] = []
    texts: list[bool] = []
    pieces: list[bytes] = []
    at = 0
    before = b""  # the quote that ends the value in front
    while (member := _MEMBER.match(line, at)) is not None and member[1].startswith(b"," if names else b"{"):
        is_text = member[3].startswith(b'"')
        names.append(member[2])
        pieces.append(before + member[1] + (b'"' if is_text else b""))
        texts.append(is_text)
        before = b'"' if is_text else b""
        at = member.end()
    end = _END.fullmatch(line, at)
    return None if end is None or not names else _Form(names, texts, [*pieces, before + end.group()])


def alike_columns(text: bytes, ends: _Places, fields: Sequence[Field]) -> list[pa.Array] | None:
    """The columns of lines that are written alike; texts stand for times. ``None`` if that is not how lines are.

    The text is UTF-8, and has a line end behind each line, at the places given.
    """
    signs = np.frombuffer(text, np.uint8)
    if b"\\" in text or np.count_nonzero(signs < _SPACE) > len(ends):
        return None
    form = _form_of(text[: ends[0]])
    if form is None or len(set(form.names)) < len(form.names):
        return None
    places = {name.decode(): place for place, name in enumerate(form.names)}
    wanted = {field.column for field in fields}
    if not wanted <= places.keys() or not all(name in wanted or form.texts[place] for name, place in places.items()):
        return None
    padded = text + bytes(_PADDING)
    bounds = _bounds(padded, np.flatnonzero(signs == _QUOTE), ends, form)
    if bounds is None:
        return None
    columns: list[pa.Array] = []
    for field in fields:
        place = places[field.column]
        values = _Values(padded, *bounds[place])
        is_text = field.type.kind in (Kind.STR, Kind.DATETIME, Kind.DATE)
        if is_text != form.texts[place]:
            return None
        column = _bools(values) if field.type.kind is Kind.BOOL else _cast(values, field)
        if column is None:
            return None
        columns.append(column)
    return columns


def _bounds(padded: bytes, quotes: _Places, ends: _Places, form: _Form) -> list[tuple[_Places, _Places]] | None:
    """Where the values of each member begin and end in all lines, if all lines have the form."""
    counts = [piece.count(b'"') for piece in form.pieces]
    each = sum(counts)
    if len(quotes) != each * len(ends):
        return None
    of_line = quotes.reshape(len(ends), each)
    starts = np.concatenate([[0], ends[:-1] + 1])
    if not (of_line[:, -1] < ends).all():
        return None
    begins: list[_Places] = []
    quote = 0
    for piece, count in zip(form.pieces, counts, strict=True):
        begin = of_line[:, quote] - piece.index(b'"') if count else ends - len(piece)
        begins.append(begin)
        quote += count
    if not (begins[0] == starts).all() or not (begins[-1] == ends - len(form.pieces[-1])).all():
        return None
    bounds: list[tuple[_Places, _Places]] = []
    for begin, piece, end in zip(begins, form.pieces, [*begins[1:], ends], strict=True):
        if not (begin + len(piece) <= end).all() or not (_gathered(padded, begin, f"S{len(piece)}") == piece).all():
            return None
        bounds.append((begin + len(piece), end))
    return bounds[:-1]


def _gathered(data: bytes, places: _Places, kind: str) -> Any:
    """The values of a type of NumPy's that begin at places of some bytes."""
    size = np.dtype(kind).itemsize
    return np.ndarray((len(data) - size + 1,), kind, data, strides=(1,))[places]


class _Values:
    """The texts of the values of a member in all lines."""

    def __init__(self, data: bytes, begins: _Places, ends: _Places) -> None:
        self._data = data
        self._begins = begins
        self.lengths = ends - begins

    def signs(self, number: int) -> npt.NDArray[np.uint8]:
        """The bytes at a place of each text, or behind texts that are shorter."""
        signs: npt.NDArray[np.uint8] = _gathered(self._data, self._begins + number, "u1")
        return signs

    def last_signs(self) -> npt.NDArray[np.uint8]:
        """The last bytes of texts, none of which is empty."""
        signs: npt.NDArray[np.uint8] = _gathered(self._data, self._begins + self.lengths - 1, "u1")
        return signs

    def equal(self, text: bytes) -> _Truths:
        """Whether each of them is a text."""
        found: _Truths = (_gathered(self._data, self._begins, f"S{len(text)}") == text) & (self.lengths == len(text))
        return found

    def views(self) -> pa.Array:
        """The texts as an Arrow array, which shares their bytes."""
        words = np.empty((len(self.lengths), 2), np.uint64)
        held = np.minimum(self.lengths, _INLINE)
        leading = _gathered(self._data, self._begins, "u4").astype(np.uint64) & _LEADING[held]
        words[:, 0] = self.lengths.view(np.uint64) | leading << np.uint64(32)
        following = _gathered(self._data, self._begins + 4, "u8") & _FOLLOWING[held]
        places = self._begins.view(np.uint64) << np.uint64(32)
        words[:, 1] = np.where(self.lengths > _INLINE, places, following)
        buffers = [None, pa.py_buffer(words), pa.py_buffer(self._data)]
        return pa.Array.from_buffers(pa.string_view(), len(words), buffers)

    def having_letter_e(self, longest: int) -> _Truths:
        """Whether there is the letter e, of whatever case, in each of them."""
        found = np.zeros(len(self.lengths), bool)
        for at in range(0, longest, 8):
            mask = _MASKS[np.clip(self.lengths - at, 0, 8)]
            others = (
                _gathered(self._data, np.minimum(self._begins + at, len(self._data) - 8), "u8") & mask | _LOWER
            ) ^ _LETTER_E
            found |= ((others - _ONES) & ~others & _TOPS) != 0
        return found

    def text(self, place: int) -> bytes:
        """One of them."""
        begin = int(self._begins[place])
        return self._data[begin : begin + int(self.lengths[place])]


def _bools(values: _Values) -> pa.Array | None:
    true = values.equal(b"true")
    return pa.array(true) if (true | values.equal(b"false")).all() else None


def _cast(values: _Values, field: Field) -> pa.Array | None:
    kind = field.type.kind
    if kind is Kind.INT and not _are_ints(values):
        return None
    if kind is Kind.FLOAT and not _are_floats(values):
        return None
    try:
        return values.views().cast(arrow_type(field.type) if kind in (Kind.INT, Kind.FLOAT) else pa.string())
    except pa.ArrowInvalid:
        return None


def _are_ints(values: _Values) -> bool:
    """Returns whether texts begin as ints do; what is behind is for Arrow to judge, which takes zeros in front."""
    lengths, first = values.lengths, values.signs(0)
    good = _POSITIVE[first] & (lengths > 0)
    if not good.all():
        second = values.signs(1)
        is_zero, is_minus = first == _ZERO, first == _MINUS
        good |= is_zero & (lengths == 1)
        good |= is_minus & (lengths > 1) & (_POSITIVE[second] | (second == _ZERO) & (lengths == 2))
    return bool(good.all())


def _are_floats(values: _Values) -> bool:
    """Returns whether texts are JSON numbers, as far as Arrow does not judge it, and none is the int -0."""
    lengths = values.lengths
    longest = int(lengths.max())
    if longest > _LONGEST_NUMBER or not lengths.min() > 0:
        return False
    first = values.signs(0)
    good = _POSITIVE[first]
    if not good.all():
        second, third = values.signs(1), values.signs(2)
        good |= (first == _ZERO) & ((lengths == 1) | _BEHIND_ZERO[second])
        below = _POSITIVE[second] | (second == _ZERO) & (lengths > 2) & _BEHIND_ZERO[third]
        good |= (first == _MINUS) & (lengths > 1) & below
    # Arrow takes a point without digits behind it.
    if not good.all() or not _DIGIT[values.last_signs()].all():
        return False
    exponents = np.flatnonzero(values.having_letter_e(longest)).tolist()
    if len(exponents) * _FEW > len(lengths) + _FEW:
        return False
    return all(_NUMBER.fullmatch(values.text(place)) is not None for place in exponents)
