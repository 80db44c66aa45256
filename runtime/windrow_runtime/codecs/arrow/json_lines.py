"""JSON lines as columns, where pyarrow reads them as :class:`JsonDecoder` does.

pyarrow takes more than JSON, ignores where lines end, and loses the difference between some values. Each guard here
stands for one such case: what it finds is read line by line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from windrow.plan.records import hook_of
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.arrow.json_alike import alike_columns
from windrow_runtime.codecs.arrow.text_blocks import BlockRead, DoubtfulRows, plain_rows, read_lines
from windrow_runtime.codecs.text_files import LineRecords
from windrow_runtime.codecs.value_type import Kind, RecordShape, RecordType

# Any in this module: pyarrow has no types.

_KINDS: Final = frozenset({Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.STR, Kind.DATETIME, Kind.DATE})
_TIMES: Final = (Kind.DATETIME, Kind.DATE)

_NEWLINE, _OPEN, _CLOSE = b"\n{}"

_SHALLOW: Final = 1000
"""A line with fewer bytes, or a fifth as many opening brackets, is not nested too deeply for Python's reader."""

_LONGEST_INT: Final = 4_300
"""Python makes no int of more digits, and takes a line with one, in a member that no field has too, for no JSON."""

_LONG_INT: Final = re.compile(rb"[0-9]{%d}" % _LONGEST_INT)
_NO_NUMBER: Final = re.compile(rb"[:,\[][ \t]*-?(?:NaN|Inf)")
_ROW: Final = re.compile(r" in row (\d+)$")
_MINUS_ZERO: Final = -(2**63)  # the bits of -0.0 as an int

# The texts of which Arrow makes what Python makes of them; no offset leads out of the years 1 to 9999. A leap day may
# be none.
_DAY: Final = (
    r"^(?:000[2-9]|00[1-9]\d|0[1-9]\d\d|[1-8]\d{3}|9[0-8]\d\d|99[0-8]\d|999[0-8])"
    r"-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|[12]\d))"
)
_MOMENT: Final = (
    rf"{_DAY}[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{{1,6}})?(?:Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)$"
)
_LEAP_DAY: Final = "-02-29"


def line_by_line(kind: RecordType) -> str | None:
    """The reason why lines of a type are read one by one; None: they can be read as columns."""
    root = kind.root
    if kind.single or root.kind is not Kind.RECORD:
        return f"{kind.name} is no record"
    if root.shape is RecordShape.TYPED_DICT:
        return f"the keys of {kind.name} keep the order of the text"
    made_by = hook_of(root.python_type)
    if made_by is not None:
        return f"{kind.name} has a {made_by}"
    for field in kind.columns:
        if field.type.kind not in _KINDS:
            return f"{kind.name}.{field.name} is a {field.type}"
        if field.type.time_format is not None:
            return f"{kind.name}.{field.name} is {field.type.time_format}"
    return None


@dataclass(frozen=True)
class JsonBlocks:
    """Reads the lines of a file; the type is one that :func:`line_by_line` has no reason against."""

    records: LineRecords

    @property
    def kind(self) -> RecordType:
        return self.records.kind

    @staticmethod
    def end_of_rows(data: bytes) -> int:
        return data.rfind(b"\n") + 1

    def read_plain(self, file: BinaryIO) -> Iterable[tuple[int, object]]:
        return self.records.read_lines(file, self._decode)

    @cached_property
    def _decode(self) -> Callable[[str], object]:
        return self.records.decoder()

    def read(self, block: bytes) -> BlockRead:
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        text = block if block.endswith(b"\n") else block + b"\n"
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE)
        starts = np.concatenate([[0], ends[:-1] + 1])
        left_out = _without_object(text, starts, ends)
        objects = np.delete(np.arange(len(ends)), left_out)
        alike = alike_columns(text, starts[objects], ends[objects], self.kind.columns, len(ends))
        if alike is not None:
            columns, kept = alike
            batch, is_good = self._checked(columns)
            kept = objects[kept[is_good]]
            others = np.delete(np.arange(len(ends)), kept)
            cells = zip(others.tolist(), starts[others].tolist(), (ends[others] + 1).tolist(), strict=True)
            lines = [(number, text[start:end]) for number, start, end in cells if text[start:end].strip(b" \t\n")]
            return BlockRead(batch, plain_rows(lines, kept.tolist() if lines else ()), len(ends))
        lines = list(enumerate(text.splitlines(keepends=True)))
        places = set(left_out)
        good = [line for line in lines if line[0] not in places]
        doubtful = [lines[place] for place in left_out if lines[place][1].strip(b" \t\n")]
        if not left_out:
            try:
                return BlockRead(self._parsed(text, len(ends)), (), len(ends))
            except DoubtfulRows as doubt:
                places = set(doubt.places)
                doubtful = [lines[place] for place in doubt.places]
                good = [line for line in lines if line[0] not in places]
        batch, plain = read_lines(good, doubtful, self._parsed, self.kind)
        return BlockRead(batch, plain, len(ends))

    @cached_property
    def _options(self) -> Any:
        fields = [
            field.with_type(pa.string()) if column.type.kind in _TIMES else field
            for field, column in zip(arrow_schema(self.kind), self.kind.columns, strict=True)
        ]
        return pj.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")

    def _checked(self, columns: Sequence[pa.Array]) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_]]:
        """The columns of rows that are good for sure, and which these are."""
        good = np.ones(len(columns[0]), bool)
        for column, field in zip(columns, self.kind.columns, strict=True):
            if column.null_count and (not field.type.nullable or field.default is not None):
                good &= column.is_valid().to_numpy(zero_copy_only=False)
            if field.type.kind is Kind.FLOAT:
                good &= np.isfinite(_floats(column))
            elif field.type.kind in _TIMES:
                good &= _good_times(column, _MOMENT if field.type.kind is Kind.DATETIME else f"{_DAY}$")
        schema = arrow_schema(self.kind)
        if not good.all():
            columns = [column.filter(pa.array(good)) for column in columns]
        return pa.RecordBatch.from_arrays(
            [column.cast(wanted) for column, wanted in zip(columns, schema.types, strict=True)], schema=schema
        ), good

    def _parsed(self, text: bytes, count: int) -> pa.RecordBatch:
        """The columns of a text that has an object in each line, and nothing that only pyarrow reads."""
        reading = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
        try:
            table = pj.read_json(pa.BufferReader(text), read_options=reading, parse_options=self._options)
        except pa.ArrowInvalid as error:
            row = _ROW.search(str(error))
            raise DoubtfulRows([int(row[1])] if row is not None and int(row[1]) < count else ()) from None
        if table.num_rows != count:
            raise DoubtfulRows
        columns = [table.column(field.column).combine_chunks() for field in self.kind.columns]
        for column, field in zip(columns, self.kind.columns, strict=True):
            if field.type.kind is Kind.FLOAT:
                _check_zeros(column, text)
            elif field.type.kind is Kind.STR and b"\\" in text:
                _check_characters(column)
        batch, good = self._checked(columns)
        if not good.all():
            raise DoubtfulRows(np.flatnonzero(~good).tolist())
        return batch


def _without_object(text: bytes, starts: npt.NDArray[np.intp], ends: npt.NDArray[np.intp]) -> list[int]:
    """The lines, by number, that are blank, or have no object that pyarrow reads as Python does.

    All others begin and end as an object does, so that no object spans lines: none may follow another one within a
    third.
    """
    signs = np.frombuffer(text, np.uint8)
    suspect = (signs[starts] != _OPEN) | (signs[ends - 1] != _CLOSE) | (ends - starts >= _SHALLOW)
    if not _is_plain(text):
        suspect[:] = True
    places = np.flatnonzero(suspect)
    bounds = zip(places.tolist(), starts[places].tolist(), ends[places].tolist(), strict=True)
    return [place for place, start, end in bounds if not _is_object(text[start:end].strip(b" \t"))]


def _is_object(line: bytes) -> bool:
    is_deep = len(line) >= _SHALLOW and line.count(b"[") + line.count(b"{") >= _SHALLOW // 5
    is_long = len(line) >= _LONGEST_INT and _LONG_INT.search(line) is not None
    return line.startswith(b"{") and line.endswith(b"}") and not is_deep and not is_long and _is_plain(line)


def _is_plain(text: bytes) -> bool:
    """Returns whether a text is UTF-8 and has nothing that pyarrow takes for a number or for the end of the text."""
    if b"\0" in text or ((b"N" in text or b"I" in text) and _NO_NUMBER.search(text) is not None):
        return False
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _floats(column: pa.Array) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = (column.fill_null(0.0) if column.null_count else column).to_numpy()
    return values


def _check_zeros(column: pa.Array, text: bytes) -> None:
    """Refuses negative zeros if one of them may be the int -0, which is no negative zero."""
    negative = _floats(column).view(np.int64) == _MINUS_ZERO
    if negative.any() and any(b"-0" + end in text for end in (b",", b"}", b" ", b"\t")):
        raise DoubtfulRows(np.flatnonzero(negative).tolist())


def _good_times(column: pa.Array, pattern: str) -> npt.NDArray[np.bool_]:
    """The rows whose text Arrow reads as Python does."""
    good: npt.NDArray[np.bool_] = pc.match_substring_regex(column, pattern).fill_null(True).to_numpy(False)
    leaps = np.flatnonzero(pc.match_substring(column, _LEAP_DAY).fill_null(False).to_numpy(False) & good)
    if len(leaps):
        years = pc.utf8_slice_codeunits(column.take(pa.array(leaps)), 0, 4).cast(pa.int64()).to_numpy()
        good[leaps] = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    return good


def _check_characters(column: pa.Array) -> None:
    """Refuses halves of surrogate pairs, which may be written as escapes."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raise DoubtfulRows from None
