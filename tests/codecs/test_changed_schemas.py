"""The table of ``docs/kafka.md``: what readers get when producers add, remove or rename a field."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, make_dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.codecs.schemas import KINDS, classes, file, own_registry
from windrow import OutputTag, Pipeline, from_source
from windrow.errors import SourceError
from windrow.kafka import AvroFormat, ProtobufFormat
from windrow.sinks import CollectSink
from windrow.sources import JsonFileSource, MalformedRecord, ParquetFileSource
from windrow_kafka.registry.values import RegisteredReader, RegisteredWriter, registered_type
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.local import LocalRunner

# Any in this module: classes that are made here, and messages.

PAGE = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text()
ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
FORMATS = ("JSON", "Parquet", "Avro", "Protobuf")


def rows() -> dict[str, dict[str, str]]:
    """The rows of the table: what each format gives, by the change."""
    _, _, table = PAGE.partition("## When producers change a schema\n")
    head, *lines = ROW.findall(table.partition("\n\n\n")[0].partition("\n## ")[0])
    assert head == ("a field", *FORMATS)
    return {change: dict(zip(FORMATS, cells, strict=True)) for change, *cells in lines}


@dataclass(frozen=True)
class Reading:
    """What the reader has."""

    sensor: str
    celsius: float
    note: str | None
    unit: str = "C"


BEFORE: dict[str, tuple[Any, Any, int, int]] = {
    "sensor": (str, "a", 1, KINDS.TYPE_STRING),
    "celsius": (float, 20.5, 2, KINDS.TYPE_DOUBLE),
    "note": (str | None, "dry", 3, KINDS.TYPE_STRING),
    "unit": (str, "F", 4, KINDS.TYPE_STRING),
}
"""The fields that producers wrote: their types, a value, and their numbers and types in Protobuf."""

CHANGES: dict[str, tuple[str, dict[str, tuple[Any, Any, int, int]]]] = {
    "that is new": ("", {**BEFORE, "place": (str, "roof", 5, KINDS.TYPE_STRING)}),
    "that is gone, and has a default in the type": ("unit", {k: v for k, v in BEFORE.items() if k != "unit"}),
    "that is gone, and may be None": ("note", {k: v for k, v in BEFORE.items() if k != "note"}),
    "that is gone, and is neither": ("celsius", {k: v for k, v in BEFORE.items() if k != "celsius"}),
    "that is renamed, and is neither": (
        "celsius",
        {("degrees" if k == "celsius" else k): v for k, v in BEFORE.items()},
    ),
}


def of_files(kind: str, folder: Path, written: dict[str, Any]) -> Any:
    """What the interpreter reads from a file."""
    tag = OutputTag("malformed", MalformedRecord)
    source: Any
    if kind == "JSON":
        (folder / "1.json").write_text(json.dumps(written))
        source = JsonFileSource(folder, Reading, on_malformed=tag)
    else:
        pq.write_table(pa.Table.from_pylist([written]), folder / "1.parquet")
        source = ParquetFileSource(folder, Reading, on_malformed=tag)
    read, refused = CollectSink[Reading](), CollectSink[MalformedRecord]()
    stream = from_source(source)
    result = LocalRunner().run(Pipeline("read", stream.sink_to(read), stream.get_side_output(tag).sink_to(refused)))
    elements: list[Any] = list(result.collected(read))
    elements += result.collected(refused)
    (element,) = elements
    return element


def message_of(fields: dict[str, tuple[Any, Any, int, int]]) -> Any:
    """The class of messages with these fields, of which the note is optional."""
    numbered = {f"{name}_" if name == "note" else name: (number, of) for name, (_, _, number, of) in fields.items()}
    return classes(file(Reading=numbered))["Reading"]


def of_registry(kind: str, fields: dict[str, tuple[Any, Any, int, int]]) -> Any:
    """What readers with a registry read of what a producer with these fields wrote."""
    address = own_registry()
    writing: Any = AvroFormat(address)
    reading: Any = writing
    if kind == "Protobuf":
        writing, reading = (ProtobufFormat(address, message_of(each)) for each in (fields, BEFORE))
    producer = make_dataclass("Reading", [(name, type_form) for name, (type_form, *_) in fields.items()])
    value = producer(*(value for _, value, _, _ in fields.values()))
    encoded = RegisteredWriter(writing, registered_type(writing, producer)).encode([value], ["t"])
    (element,) = RegisteredReader(reading, registered_type(reading, Reading)).values(encoded)
    return element


def shown(field: str, element: Any) -> str:
    """What a reader gets, in the words of the table."""
    if isinstance(element, (MalformedRecord, MalformedValue)):
        return "a malformed record"
    expected = {name: value for name, (_, value, _, _) in BEFORE.items()}
    found = asdict(element)
    value = found.get(field)
    assert {name: each for name, each in found.items() if name != field} == {
        name: each for name, each in expected.items() if name != field
    }
    if not field:
        return "is skipped"
    if value == expected[field]:
        return "is read, by its number"
    return "is its default" if field == "unit" and value == "C" else f"is `{value!r}`".replace("''", '""')


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_reader_gets_what_the_table_says(change: str, kind: str, tmp_path: Path) -> None:
    field, fields = CHANGES[change]
    try:
        if kind in ("JSON", "Parquet"):
            element = of_files(kind, tmp_path, {name: value for name, (_, value, _, _) in fields.items()})
        else:
            element = of_registry(kind, fields)
        said = shown(field, element)
    except SourceError:
        said = "the run fails"
    assert said == rows()[change][kind]


def test_the_table_has_no_other_rows() -> None:
    assert set(rows()) == set(CHANGES)
