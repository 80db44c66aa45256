"""JSON lines as columns: msgspec reads each line into a struct, and Arrow makes arrays of the structs' values.

Lines that msgspec refuses, and those whose times only Python can tell, are left to
:class:`~windrow_runtime.codecs.json.decoder.JsonDecoder`, which reads them or knows what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa

from windrow.plan.records import hook_of
from windrow_runtime.codecs.arrow.encoding import arrow_type
from windrow_runtime.codecs.arrow.text_blocks import BlockRead, PlainRows, is_utf_8, left_out, split_block
from windrow_runtime.codecs.arrow.text_scalars import absent_is_none, read_columns
from windrow_runtime.codecs.json.decoder import bounded_numbers
from windrow_runtime.codecs.text_files import LineRecords
from windrow_runtime.codecs.value_type import Field, Kind, RecordShape, RecordType

# Any in this module: pyarrow has no types, and structs have fields that are known at run time alone.

_ANNOTATIONS: Final[dict[Kind, Any]] = {
    Kind.BOOL: bool,
    **bounded_numbers(),
    Kind.STR: str,
    Kind.DATETIME: str,  # for Arrow to read
    Kind.DATE: str,
}
_TIMES: Final = (Kind.DATETIME, Kind.DATE)

_LONG_INT: Final = re.compile(rb"[0-9]{4300}")
"""Python makes no int of so many digits, and its reader takes a line with one for no JSON, in any member."""

_IN_LONG_INT: Final = 1 << 12
"""An int of 4,300 digits has digits at, and after, one of the positions of a text that are this far apart."""


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
        if field.type.kind not in _ANNOTATIONS:
            return f"{kind.name}.{field.name} is a {field.type}"
        if field.type.time_format is not None:
            return f"{kind.name}.{field.name} is {field.type.time_format}"
    return None


@dataclass(frozen=True)
class JsonBlocks:
    """Reads the lines of a file as columns, if :func:`line_by_line` has no reason against the type."""

    records: LineRecords

    @property
    def kind(self) -> RecordType:
        return self.records.kind

    def end_of_rows(self, data: bytes, *, whole: bool) -> int:
        return len(data) if whole else data.rfind(b"\n") + 1

    def read_plain(self, file: BinaryIO) -> Iterable[tuple[int, object]]:
        return self.records.read_lines(file, self._decode_plainly)

    @cached_property
    def _decode_plainly(self) -> Callable[[str], object]:
        return self.records.decoder()

    @cached_property
    def _decode(self) -> Callable[[bytes | str], Any]:
        # A struct that the garbage collector does not know takes less time; it holds no other.
        fields = [_struct_field(f"column_{i}", field) for i, field in enumerate(self.kind.columns)]
        return msgspec.json.Decoder(msgspec.defstruct("Line", fields, kw_only=True, gc=False)).decode

    def _decode_with_care(self, line: bytes) -> Any:
        """Refuses what msgspec passes over in members that no field has: wrong bytes, and ints that are too long."""
        if _LONG_INT.search(line) is not None:
            raise ValueError("an int is too long")
        return self._decode(line.decode())

    def read(self, block: bytes) -> Iterable[BlockRead]:
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = block.removesuffix(b"\n").split(b"\n")
        columns, others = self.read_texts(lines, block)
        plain = (
            PlainRows(number - before, number, lines[number] + b"\n")
            for before, number in enumerate(others)
            if lines[number].strip()
        )
        return [split_block(block, columns, plain, self.records)]

    def read_texts(self, lines: Sequence[bytes], block: bytes) -> tuple[pa.RecordBatch, list[int]]:
        """Reads texts of a block; returns columns of most, and the numbers of the others, which are read one by one."""
        is_clear = is_utf_8(block) and not _may_have_long_ints(block)
        structs, refused = _decoded(lines, self._decode if is_clear else self._decode_with_care)
        cells = [
            pa.array(
                list(map(attrgetter(f"column_{i}"), structs)),
                pa.string() if field.type.kind in _TIMES else arrow_type(field.type),
            )
            for i, field in enumerate(self.kind.columns)
        ]
        columns, good = read_columns(cells, self.kind)
        return columns, left_out(refused, good)


def _struct_field(name: str, field: Field) -> tuple[str, Any, Any]:
    annotation = _ANNOTATIONS[field.type.kind]
    default = None if absent_is_none(field) else msgspec.NODEFAULT
    marked = msgspec.field(default=default, name=field.column)
    return name, annotation | None if field.type.nullable else annotation, marked


def _may_have_long_ints(text: bytes) -> bool:
    return any(text[at : at + 64].isdigit() for at in range(0, len(text), _IN_LONG_INT))


def _decoded(lines: Sequence[bytes], decode: Callable[[bytes], Any]) -> tuple[list[Any], list[int]]:
    """Decodes lines; returns what becomes of them, and the numbers of those that are refused."""
    structs: list[Any] = []
    refused: list[int] = []
    rest = iter(lines)
    while len(structs) + len(refused) < len(lines):
        try:
            # What was decoded before a line that is refused stays in the list.
            structs.extend(map(decode, rest))
        except (ValueError, RecursionError):
            refused.append(len(structs) + len(refused))
    return structs, refused
