"""Makes the readers and the encoders of text files, by the class of a source or a sink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from windrow.errors import InvalidArgumentError
from windrow.sinks import CsvFileSink, FileSink, JsonFileSink, TextFileSink
from windrow.sources import CsvFileSource, FileSource, JsonFileSource, TextFileSource
from windrow_runtime.codecs.csv import CsvEncoder
from windrow_runtime.codecs.csv_forms import CsvForms
from windrow_runtime.codecs.json.encoder import JsonEncoder, JsonLines
from windrow_runtime.codecs.malformed import short_repr
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.text_files import CsvRecords, DocumentRecords, LineRecords, TextRecords

# Any in this module: sources and sinks of elements of every type.


def text_records(source: FileSource[Any]) -> TextRecords | None:
    """Makes the reader of a source whose files are text; ``None`` for other sources."""
    if isinstance(source, TextFileSource):
        return LineRecords(record_type(str), source.encoding, json=False)
    if isinstance(source, (JsonFileSource, CsvFileSource)):
        element_type = record_type(source.record_type).in_timezone(source.timezone)
        if isinstance(source, JsonFileSource):
            if not source.lines:
                return DocumentRecords(element_type, source.encoding)
            return LineRecords(element_type, source.encoding, json=True)
        forms = CsvForms(
            frozenset(source.nulls),
            frozenset(text.lower() for text in source.true_values),
            frozenset(text.lower() for text in source.false_values),
            source.float_names,
            source.integral_floats,
            source.decimal,
            source.thousands,
        )
        return CsvRecords(element_type, source.encoding, source.delimiter, source.header, forms)
    return None


@dataclass(frozen=True, slots=True)
class LineEncoder:
    """Makes lines of the elements of a sink, and says with what its files begin and how their names end."""

    encode: Callable[[object], str]  # a line without its end; InvalidArgumentError for an element that has none
    ending: str
    header: str | None = None
    json: JsonLines | None = None  # encodes many elements at once, where lines are JSON

    def encode_all(self, values: Sequence[object]) -> str:
        """The lines of elements, each with its end; an ``InvalidArgumentError`` for an element that has none."""
        if self.json is not None:
            return self.json.encode(values)
        return "".join([f"{self.encode(value)}\n" for value in values])


def line_encoder(sink: FileSink[Any], record_type: RecordType) -> LineEncoder | None:
    """Makes the encoder of a sink whose files have lines; ``None`` for other sinks."""
    if isinstance(sink, JsonFileSink):
        return LineEncoder(JsonEncoder(record_type).encode, ".json", json=JsonLines(record_type))
    if isinstance(sink, CsvFileSink):
        encoder = CsvEncoder(record_type, sink.delimiter)
        return LineEncoder(encoder.encode, ".csv", encoder.header if sink.header else None)
    return LineEncoder(_line, ".txt") if isinstance(sink, TextFileSink) else None


def _line(value: object) -> str:
    if not isinstance(value, str):
        reason = "it is no str"
    elif "\n" in value or "\r" in value:
        reason = "it has a line end within"
    elif value.startswith("\ufeff"):
        reason = "it begins with a byte order mark, which is no part of a file's first line"
    else:
        try:
            value.encode()
        except UnicodeEncodeError:
            reason = "it has half a surrogate pair"
        else:
            return value
    raise InvalidArgumentError(
        f"an element is no line of text: {reason}",
        given=short_repr(value),
        expected="a str without line ends",
        hint="split it with flat_map, or write it with JsonFileSink",
    )
