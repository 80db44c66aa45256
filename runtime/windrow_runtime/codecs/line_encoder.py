"""Elements as the lines of a text file, written in one way by every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windrow.errors import InvalidArgumentError
from windrow.sinks import CsvFileSink, FileSink, JsonFileSink, TextFileSink
from windrow_runtime.codecs.csv.encoder import CsvEncoder
from windrow_runtime.codecs.json.encoder import JsonEncoder
from windrow_runtime.codecs.malformed import short_repr
from windrow_runtime.codecs.record_type import RecordType


@dataclass(frozen=True, slots=True)
class LineEncoder:
    """Makes lines of the elements of a sink.

    Attributes:
        encode: Makes the line of an element, without its end; raises ``InvalidArgumentError`` for what has none.
        header: The first line of each file, if there is one.
        ending: How the names of files end.
    """

    encode: Callable[[object], str]
    ending: str
    header: str | None = None


# Any: sinks of every type of elements.
def line_encoder(sink: FileSink[Any], kind: RecordType) -> LineEncoder | None:
    """Makes the encoder of a sink whose files have lines; ``None`` for other sinks."""
    if isinstance(sink, JsonFileSink):
        return LineEncoder(JsonEncoder(kind).encode, ".json")
    if isinstance(sink, CsvFileSink):
        encoder = CsvEncoder(kind, sink.delimiter)
        return LineEncoder(encoder.encode, ".csv", encoder.header if sink.header else None)
    if isinstance(sink, TextFileSink):
        return LineEncoder(_line, ".txt")
    return None


def _line(value: object) -> str:
    if not isinstance(value, str):
        raise _no_line(value, "it is no str")
    if "\n" in value or "\r" in value:
        raise _no_line(value, "it has a line end within")
    if value.startswith("\ufeff"):
        raise _no_line(value, "it begins with a byte order mark, which is no part of a file's first line")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _no_line(value, "it has half a surrogate pair") from None
    return value


def _no_line(value: object, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"an element is no line of text: {reason}",
        given=short_repr(value),
        expected="a str without line ends",
        hint="split it with flat_map, or write it with JsonFileSink",
    )
