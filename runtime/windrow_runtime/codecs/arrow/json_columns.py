"""Reads JSON lines as columns: msgspec reads lines into structs, and Arrow makes arrays of their values.

Lines that msgspec refuses, and those whose times only Python can tell, are left to
:class:`~windrow_runtime.codecs.json.decoder.JsonDecoder`, which reads them or knows what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from operator import attrgetter
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow.plan.records import hook_of
from windrow_runtime.codecs.arrow.encoding import arrow_type
from windrow_runtime.codecs.arrow.text_blocks import BlockRead, PlainRows, is_utf_8, left_out, split_block
from windrow_runtime.codecs.arrow.text_scalars import absent_is_none, read_columns
from windrow_runtime.codecs.json.decoder import bounded_numbers
from windrow_runtime.codecs.text_files import LineRecords
from windrow_runtime.codecs.value_type import Kind, RecordField, RecordShape, RecordType, ValueType

# Any in this module: pyarrow has no types, and structs have fields that are known at run time alone.

_ANNOTATIONS: Final[dict[Kind, Any]] = {
    Kind.BOOL: bool,
    **bounded_numbers(),
    Kind.STR: str,
    Kind.DATETIME: str,  # for Arrow to read
    Kind.DATE: str,
}
_TIMES: Final = (Kind.DATETIME, Kind.DATE)
_NUMBERS: Final = {Kind.INT: np.int64, Kind.FLOAT: np.float64}
_LINE_FEED, _OPEN, _CLOSE = b"\n{}"

_LONG_INT: Final = re.compile(rb"[0-9]{4300}")
"""Python makes no int of so many digits, and its reader takes a line with one for no JSON, in any member."""

_IN_LONG_INT: Final = 1 << 12
"""An int of 4,300 digits has digits at, and after, one of the positions of a text that are this far apart."""


def line_by_line(record_type: RecordType) -> str | None:
    """The reason why lines of a type are read one by one; None: they can be read as columns."""
    root = record_type.root
    if record_type.single or root.kind is not Kind.RECORD:
        return f"{record_type.name} is no record"
    if root.shape is RecordShape.TYPED_DICT:
        return f"the keys of {record_type.name} keep the order of the text"
    made_by = hook_of(root.python_type)
    if made_by is not None:
        return f"{record_type.name} has a {made_by}"
    for field in record_type.columns:
        if field.type.kind not in _ANNOTATIONS:
            return f"{record_type.name}.{field.name} is a {field.type}"
        if field.type.time_format is not None:
            return f"{record_type.name}.{field.name} is {field.type.time_format}"
    return None


class _Decoded(NamedTuple):
    """The structs that were decoded from lines, and the lines without one."""

    structs: Sequence[Any]
    refused: Sequence[int]  # the numbers of the lines that have none
    lines: Sequence[bytes] = ()  # if they had to be taken apart


@dataclass(frozen=True)
class JsonBlocks:
    """Reads the lines of a file as columns, if :func:`line_by_line` has no reason against the type."""

    records: LineRecords

    @property
    def record_type(self) -> RecordType:
        return self.records.record_type

    def end_of_rows(self, data: bytes, *, whole: bool) -> int:
        return len(data) if whole else data.rfind(b"\n") + 1

    def read_plain(self, file: BinaryIO) -> Iterable[tuple[int, object]]:
        return self.records.read_lines(file, self._decode_plainly)

    @cached_property
    def _decode_plainly(self) -> Callable[[str], object]:
        return self.records.decoder()

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        # A struct that the garbage collector does not know takes less time; it holds no other.
        fields = [_struct_field(f"column_{i}", field) for i, field in enumerate(self.record_type.columns)]
        return msgspec.json.Decoder(msgspec.defstruct("Line", fields, kw_only=True, gc=False))

    def _decode_with_care(self, line: bytes) -> Any:
        """Refuses what msgspec passes over in members that no field has: wrong bytes, and ints that are too long."""
        if _LONG_INT.search(line) is not None:
            raise ValueError("an int is too long")
        return self._decoder.decode(line.decode())

    def read(self, block: bytes) -> Iterable[BlockRead]:
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        decoded = self._decode_lines(block, len(block) - block.endswith(b"\n"))
        columns, others = self._columns(decoded)
        lines = (decoded.lines or block.split(b"\n")) if others else []
        plain = (
            PlainRows(number - before, number, lines[number] + b"\n")
            for before, number in enumerate(others)
            if lines[number].strip()
        )
        count = len(decoded.structs) + len(decoded.refused)
        return [split_block(block, columns, plain, self.records, count, others)]

    def read_texts(self, texts: Sequence[bytes]) -> tuple[pa.RecordBatch, list[int]]:
        """Reads texts; returns columns of most, and the numbers of the others, which are to be read one by one."""
        lines = b"\n".join(texts)
        if lines.count(b"\n") == len(texts) - 1:
            return self._columns(self._decode_lines(lines, len(lines)))
        return self._columns(_decoded(texts, self._decoder.decode if _is_clear(lines) else self._decode_with_care))

    def _decode_lines(self, text: bytes, end: int) -> _Decoded:
        """Decodes many lines at a time; from the first lines on in which one does not fit, each line alone."""
        if not _is_clear(text):
            return _decoded(text[:end].split(b"\n"), self._decode_with_care)
        structs: list[Any] = []
        begin = 0
        while begin <= end:
            line_end = text.find(b"\n", begin + self.records.sizes.together, end)
            last = end if line_end < 0 else line_end
            together = self._decode_together(memoryview(text)[begin:last])
            if together is None:
                return _decoded(text[:end].split(b"\n"), self._decoder.decode, structs)
            structs += together
            begin = last + 1
        return _Decoded(structs, [])

    def _decode_together(self, lines: memoryview) -> list[Any] | None:
        """Decodes lines of which each is an object; ``None`` if one may be something else, or does not fit.

        Msgspec takes several objects in a line, and objects of several lines. But within an object JSON has no line end
        between ``}`` and ``{``. So where each line end is there, no object has several lines, and if there are as many
        objects as lines, each line is one.
        """
        count = _lines_of_objects(np.frombuffer(lines, np.uint8))
        if not count:
            return None
        try:
            structs = self._decoder.decode_lines(lines)
        except (ValueError, RecursionError):
            return None
        return structs if len(structs) == count else None

    def _columns(self, decoded: _Decoded) -> tuple[pa.RecordBatch, list[int]]:
        """Returns columns of the good rows, and the numbers of the others."""
        structs = decoded.structs
        cells = [_cells(structs, f"column_{i}", field.type) for i, field in enumerate(self.record_type.columns)]
        columns, good = read_columns(cells, self.record_type)
        return columns, left_out(decoded.refused, good)


def _cells(structs: Sequence[Any], name: str, value: ValueType) -> pa.Array:
    """The values that structs have in a field, times as texts."""
    values = map(attrgetter(name), structs)
    if value.kind in _NUMBERS and not value.nullable:
        return pa.array(np.fromiter(values, _NUMBERS[value.kind], len(structs)))
    return pa.array(list(values), pa.string() if value.kind in _TIMES else arrow_type(value))


def _struct_field(name: str, field: RecordField) -> tuple[str, Any, Any]:
    annotation = _ANNOTATIONS[field.type.kind]
    default = None if absent_is_none(field) else msgspec.NODEFAULT
    marked = msgspec.field(default=default, name=field.column)
    return name, annotation | None if field.type.nullable else annotation, marked


def _may_have_long_ints(text: bytes) -> bool:
    return any(text[at : at + 64].isdigit() for at in range(0, len(text), _IN_LONG_INT))


def _is_clear(text: bytes) -> bool:
    """Returns whether no line of a text has to be decoded with care."""
    return is_utf_8(text) and not _may_have_long_ints(text)


def _lines_of_objects(signs: npt.NDArray[np.uint8]) -> int:
    """The number of lines in the bytes of a text; 0 unless each line begins with ``{`` and ends with ``}``."""
    if len(signs) < 2 or signs[0] != _OPEN or signs[-1] != _CLOSE:
        return 0
    ends = signs[1:-1] == _LINE_FEED
    if (((signs[:-2] != _CLOSE) | (signs[2:] != _OPEN)) & ends).any():
        return 0
    return int(np.count_nonzero(ends)) + 1


def _decoded(lines: Sequence[bytes], decode: Callable[[bytes], Any], first: Sequence[Any] = ()) -> _Decoded:
    """Decodes lines each alone, but for the first ones, whose structs are known."""
    structs = [*first]
    refused: list[int] = []
    rest = islice(lines, len(structs), None)
    while len(structs) + len(refused) < len(lines):
        try:
            # The list keeps the structs that were decoded before a refused line.
            structs.extend(map(decode, rest))
        except (ValueError, RecursionError):
            refused.append(len(structs) + len(refused))
    return _Decoded(structs, refused, lines)
