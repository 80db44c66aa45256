"""Columns of JSON lines that one program wrote, with the same keys in the same order and the same spaces.

The values of such lines lie between pieces of text that are the same in all lines. Where they are is known from the
quotes, so that no line is parsed. Lines that differ are left out, as long as they are few.
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

_LINE_END, _SPACE, _QUOTE, _MINUS, _ZERO, _ESCAPE = b'\n "-0\\'
_IN_QUOTES: Final = (Kind.STR, Kind.DATETIME, Kind.DATE)
_MEMBER: Final = re.compile(rb'([{,][ \t]*"([^"]*)"[ \t]*:[ \t]*)("[^"]*"|[^",{}\[\] \t]+)')
_END: Final = re.compile(rb"[ \t]*}")
_INTEGER: Final = re.compile(rb"-?(?:0|[1-9]\d{0,17})")
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")

_PADDING: Final = 16
_LONGEST_NUMBER: Final = 32
_FEW: Final = 16
"""Where one line of 16 is written otherwise, or one number of 16 has an exponent, Arrow's own reader is faster."""

_INLINE: Final = 12
"""Arrow's views hold texts of up to this many bytes themselves."""

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

    @property
    def quotes(self) -> int:
        """The number of quotes in a line."""
        return sum(piece.count(b'"') for piece in self.pieces)

    def has(self, fields: Sequence[Field]) -> bool:
        """Returns whether all fields are there, once and with quotes where they are due; others must be texts."""
        texts = dict(zip(self.names, self.texts, strict=True))
        due = {field.column.encode(): field.type.kind in _IN_QUOTES for field in fields}
        return (
            len(texts) == len(self.names)
            and due.keys() <= texts.keys()
            and texts == {**texts, **due}
            and all(is_text for name, is_text in texts.items() if name not in due)
        )


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


def alike_columns(
    text: bytes, starts: _Places, ends: _Places, fields: Sequence[Field], line_ends: int
) -> tuple[list[pa.Array], _Places] | None:
    """Cuts lines that are written alike into columns; returns these and the numbers of the lines; None: most differ.

    The text is UTF-8; each of its ``line_ends`` stands behind one line. Times are texts in the columns.
    """
    if not len(ends):
        return None
    form = _form_of(text[starts[0] : ends[0]])
    if form is None or not form.has(fields):
        return None
    signs = np.frombuffer(text, np.uint8)
    lines = np.arange(len(ends))
    quotes = np.flatnonzero(signs == _QUOTE)
    if len(quotes) == form.quotes * len(ends):
        lines_of_quotes = quotes.reshape(len(ends), -1)
        good = (starts <= lines_of_quotes[:, 0]) & (lines_of_quotes[:, -1] < ends)
    else:
        first = np.searchsorted(quotes, starts)
        good = np.searchsorted(quotes, ends) - first == form.quotes
        places = np.minimum(first[:, None] + np.arange(form.quotes), len(quotes) - 1)
        lines_of_quotes = quotes[places]
    if b"\\" in text or np.count_nonzero(signs < _SPACE) > line_ends:
        odd = np.flatnonzero((signs == _ESCAPE) | ((signs < _SPACE) & (signs != _LINE_END)))
        good = good & (np.searchsorted(odd, starts) == np.searchsorted(odd, ends))
    padded = text + bytes(_PADDING)
    while True:
        if not good.all():
            lines, lines_of_quotes = lines[good], lines_of_quotes[good]
            if len(lines) * _FEW < len(ends) * (_FEW - 1):
                return None
        found = _attempt(padded, starts[lines], ends[lines], lines_of_quotes, form, fields)
        if found is None or isinstance(found, list):
            return None if found is None else (found, lines)
        good = found


def _attempt(
    padded: bytes, starts: _Places, ends: _Places, quotes: _Places, form: _Form, fields: Sequence[Field]
) -> list[pa.Array] | _Truths | None:
    """Cuts lines into columns; returns a mask of those that may fit the form if some do not; None: it does not pay."""
    begins: list[_Places] = []
    quote = 0
    for piece in form.pieces:
        count = piece.count(b'"')
        begins.append(quotes[:, quote] - piece.index(b'"') if count else ends - len(piece))
        quote += count
    bounds = list(zip(begins, form.pieces, [*begins[1:], ends], strict=True))
    good: _Truths = (begins[0] == starts) & (begins[-1] == ends - len(form.pieces[-1]))
    for begin, piece, end in bounds:
        good &= begin + len(piece) <= end
    if not good.all():
        return good
    for begin, piece, _ in bounds:
        good &= _gathered(padded, begin, f"S{len(piece)}") == piece
    if not good.all():
        return good
    columns: list[pa.Array] = []
    for field in fields:
        begin, piece, end = bounds[form.names.index(field.column.encode())]
        values = _Values(padded, begin + len(piece), end)
        fitting, column = _bools(values) if field.type.kind is Kind.BOOL else _cast(values, field)
        if fitting is None or not fitting.all():
            return fitting
        columns.append(column)
    return columns


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
        """Whether each of them has a letter e or E."""
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


def _bools(values: _Values) -> tuple[_Truths, pa.Array]:
    """Which of the texts are bools, and their values."""
    true = values.equal(b"true")
    return true | values.equal(b"false"), pa.array(true)


def _cast(values: _Values, field: Field) -> tuple[_Truths | None, pa.Array | None]:
    """Which of the texts are values of a field, if that is not too much work, and the values if all are."""
    kind = field.type.kind
    if kind in _IN_QUOTES:
        return np.ones(1, bool), values.views().cast(pa.string())
    good = _ints(values) if kind is Kind.INT else _floats(values)
    if good is None or not good.all():
        return good, None
    try:
        return good, values.views().cast(arrow_type(field.type))
    except pa.ArrowInvalid:
        # Arrow does not say which it is.
        texts = map(values.text, range(len(good)))
        match = _INTEGER.fullmatch if kind is Kind.INT else _NUMBER.fullmatch
        good = np.array([match(text) is not None for text in texts])
        return (None if good.all() else good), None


def _ints(values: _Values) -> _Truths:
    """Which of the texts begin as ints do; what is behind is for Arrow to judge, which takes zeros in front."""
    lengths, first = values.lengths, values.signs(0)
    good: _Truths = _POSITIVE[first] & (lengths > 0)
    if not good.all():
        second = values.signs(1)
        good |= (first == _ZERO) & (lengths == 1)
        good |= (first == _MINUS) & (lengths > 1) & (_POSITIVE[second] | (second == _ZERO) & (lengths == 2))
    return good


def _floats(values: _Values) -> _Truths | None:
    """Which of the texts are JSON numbers, as far as Arrow does not judge it, and not the int -0."""
    lengths = values.lengths
    first = values.signs(0)
    good: _Truths = _POSITIVE[first]
    if not good.all():
        second, third = values.signs(1), values.signs(2)
        good |= (first == _ZERO) & ((lengths == 1) | _BEHIND_ZERO[second])
        below = _POSITIVE[second] | (second == _ZERO) & (lengths > 2) & _BEHIND_ZERO[third]
        good |= (first == _MINUS) & (lengths > 1) & below
    # Arrow takes a point without digits behind it.
    good &= (lengths > 0) & (lengths <= _LONGEST_NUMBER) & _DIGIT[values.last_signs()]
    exponents = np.flatnonzero(values.having_letter_e(min(int(lengths.max()), _LONGEST_NUMBER)) & good)
    if len(exponents) * _FEW > len(lengths) + _FEW:
        return None
    good[exponents] = [_NUMBER.fullmatch(values.text(place)) is not None for place in exponents.tolist()]
    return good
