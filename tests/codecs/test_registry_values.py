"""Values by a schema registry: what is written is read, and what other schemas wrote is read by Avro's rules."""

from __future__ import annotations

import enum
import json
import pickle
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from io import BytesIO
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from tests.codecs.schemas import KINDS, MICROS, MILLIS, classes, file, record
from tests.codecs.strategies import elements_of
from tests.services.registry import Registry, running_registry
from windrow.errors import InvalidArgumentError, SinkError, SourceError
from windrow.kafka import AvroFormat, KafkaRecordSource, KafkaSink, KafkaSource, ProtobufFormat
from windrow_kafka.registry.values import RegisteredReader, RegisteredWriter, registered_type
from windrow_kafka.values import kafka_decoder, topic_values
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type

fastavro = pytest.importorskip("fastavro")

# Any in this module: values of every type, schemas as JSON, and generated classes of messages.


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    PLUS = "+"


@dataclass(frozen=True)
class Place:
    x: float
    name: str | None = None


class Digits(NamedTuple):
    precision: int
    scale: int


@dataclass(frozen=True)
class Everything:
    text: str
    number: int
    share: float
    is_on: bool
    raw: bytes
    at: datetime
    day: date
    price: Decimal
    cents: Annotated[Decimal, Digits(9, 2)]
    ident: uuid.UUID
    color: Color
    level: Level
    odd: Odd
    place: Place
    places: list[Place]
    tags: dict[str, int]
    pair: tuple[int, str]
    words: frozenset[str]
    tenths: tuple[float, ...]
    maybe: int | None
    moment: datetime | None
    elsewhere: Place | None
    nested: dict[str, list[Decimal]]


def of_two_places(element: object) -> Everything:
    """Fits the digits of the cents."""
    assert isinstance(element, Everything)
    return replace(element, cents=round(element.cents % 1000, 2))


everything = elements_of(record_type(Everything)).map(of_two_places)
AVRO = AvroFormat("mock://codecs")


def writer_of(form: Any, kind: Any) -> RegisteredWriter:
    return RegisteredWriter(form, registered_type(form, kind))


def reader_of(form: Any, kind: Any) -> RegisteredReader:
    return RegisteredReader(form, registered_type(form, kind))


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as found:
        yield found


@examples(60)
@given(st.lists(everything, min_size=1, max_size=4))
def test_avro_reads_what_it_has_written(values: list[Everything]) -> None:
    encoded = writer_of(AVRO, Everything).encode(values, ["t"] * len(values))
    assert reader_of(AVRO, Everything).values(encoded) == values
    source = KafkaSource("a:1", "t", Everything, value_format=AVRO)
    assert not isinstance(topic_values(source), str)


@pytest.mark.parametrize(
    ("kind", "values"),
    [(str, ["a"]), (int, [5]), (bytes, [b"x"]), (list[int], [[1]]), (str | None, ["a", None]),
     (Place | None, [Place(1.0), None])],
)  # fmt: skip
def test_values_that_are_no_records(kind: Any, values: list[Any]) -> None:
    encoded = writer_of(AVRO, kind).encode(values, ["t"] * len(values))
    assert reader_of(AVRO, kind).values(encoded) == values


def test_the_schema_says_what_the_type_says(registry: Registry) -> None:
    @dataclass
    class Reading:
        sensor: str
        at: datetime
        color: Color
        price: Annotated[Decimal, Digits(9, 2)]
        here: Place
        there: Place | None
        count: int = 1

    form = AvroFormat(registry.address)
    value = Reading("a", datetime(2026, 1, 1, tzinfo=UTC), Color.RED, Decimal("1.50"), Place(1.0), None)
    writer_of(form, Reading).encode([value, value], ["readings", "other"])
    assert registry.subjects == {"readings-value": [1], "other-value": [1]}
    schema = json.loads(registry.schemas[1]["schema"])
    place = [
        {"name": "x", "type": {"type": "double"}},
        {"name": "name", "type": ["null", {"type": "string"}], "default": None},
    ]
    assert {each["name"]: each["type"] for each in schema["fields"]} == {
        "sensor": {"type": "string"},
        "at": MICROS,
        "color": {"name": "Color", "type": "enum", "symbols": ["red", "blue"]},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "here": {"name": "Place", "type": "record", "fields": place},
        "there": ["null", "Place"],
        "count": {"type": "long"},
    }
    assert [each.get("default", "-") for each in schema["fields"]] == ["-", "-", "-", "-", "-", None, 1]


@dataclass(frozen=True)
class Reading:
    sensor: str
    celsius: float
    at: datetime
    place: Place = Place(0.5, "here")
    tags: list[str] = field(default_factory=lambda: ["new"])
    color: Color | None = None


def written_by(registry: Registry, schema: dict[str, Any], *data: Any) -> list[bytes]:
    """Values as another program writes them."""
    number = registry.register("in-value", {"schema": json.dumps(schema)})
    found = []
    for each in data:
        out = BytesIO(b"\0" + number.to_bytes(4))
        out.seek(5)
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), each)
        found.append(out.getvalue())
    return found


measured = partial(record, "com.acme.Measured")
OLD = measured(sensor="string", celsius="float", at=MILLIS, unit={"type": "map", "values": "int"})


def test_other_schemas_are_read_by_the_names_of_fields(registry: Registry) -> None:
    at = datetime(2026, 1, 1, 12, 30, 15, 250_000, UTC)
    place = record("Somewhere", name=["string", "null"], more="int", x="int")
    tint = {"type": "enum", "name": "Tint", "symbols": ["red", "blue", "green"]}
    new = measured(
        color=["null", tint], tags={"type": "array", "items": "string"}, place=place, at=MICROS,
        celsius=["null", "int"], sensor="string", extra="com.acme.Somewhere",
    )  # fmt: skip
    there = {"name": "there", "x": 3, "more": 1}
    rest = {"tags": [], "place": there, "at": at, "sensor": "b", "extra": there}
    values = [
        *written_by(registry, OLD, {"sensor": "a", "celsius": 1.5, "at": at, "unit": {}}),
        *written_by(registry, new, {"color": "blue", "celsius": 2, **rest}, {"color": None, "celsius": None, **rest},
                    {"color": "green", "celsius": 2, **rest}),
    ]  # fmt: skip
    first, second, none, green = reader_of(AvroFormat(registry.address), Reading).values(values)
    assert first == Reading("a", 1.5, at, Place(0.5, "here"), ["new"], None)
    assert second == Reading("b", 2.0, at, Place(3.0, "there"), [], Color.BLUE)
    assert (none.field, none.reason) == ("Reading.celsius", "by schema 2: null in a required field")
    assert (green.field, green.reason) == ("Reading.color", "by schema 2: 'green' is no value of Color")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (measured(sensor="string", celsius="int"), "Reading.at: the schema has no such field"),
        (measured(sensor="int", celsius="int", at=MILLIS), "Reading.sensor: the schema has int, not str"),
        (measured(sensor="string", celsius="int", at="long"), "Reading.at: the schema has long, not dat"),
        (measured(sensor="string", celsius=MILLIS, at=MILLIS), "Reading.celsius: the schema has long of"),
        ({"type": "string"}, "Reading: the schema has string, not Reading"),
    ],
)
def test_a_schema_that_does_not_fit_is_malformed(registry: Registry, schema: dict[str, Any], reason: str) -> None:
    registry.register("in-value", {"schema": json.dumps(schema)})
    reader = reader_of(AvroFormat(registry.address), Reading)
    bad, again = reader.values([b"\0\0\0\0\1abc"] * 2)
    assert type(bad) is MalformedValue
    assert bad.reason.startswith(f"schema 1 does not fit Reading: {reason}")
    assert again == bad
    assert registry.asked == ["GET /schemas/ids/1"]


def test_bytes_that_are_no_value_are_malformed(registry: Registry) -> None:
    (good,) = written_by(registry, OLD, {"sensor": "a", "celsius": 1.5, "at": 0, "unit": {}})
    registry.register("in-value", {"schema": "syntax", "schemaType": "PROTOBUF"})
    broken = [b"", b"\0\0\0", b"{}", b'{"a": 1}', b"\0\0\0\0\x09a", b"\0\0\0\0\2a", good[:-3], good + b"x", None]
    *reasons, last = reader_of(AvroFormat(registry.address), Reading).values([*broken, good])
    assert isinstance(last, Reading)
    assert [each.reason.partition(": EOF")[0] for each in reasons] == [
        "the value is cut off before the id of its schema", "the value is cut off before the id of its schema",
        "the value is without a leading zero byte", "the value is without a leading zero byte",
        "the registry has no schema 9", "schema 2 is one of PROTOBUF, not of AVRO", "is no value of schema 1",
        "by schema 1: 1 bytes are left after it", "the record has no value",
    ]  # fmt: skip


def test_a_sink_writes_by_the_schema_that_is_there(registry: Registry) -> None:
    form = AvroFormat(registry.address, subject="chosen", auto_register=False)
    writer = writer_of(form, Place)
    with pytest.raises(SinkError, match="the schema of chosen at http"):
        writer.encode([Place(1.0, "a")], ["t"])
    registry.register("chosen", {"schema": json.dumps(measured(name="string", x="float"))})
    (value,) = writer.encode([Place(1.5, "a")], ["t"])
    assert value == b"\0\0\0\0\1\x02a\0\0\xc0\x3f"
    with pytest.raises(InvalidArgumentError, match=r"does not fit the schema of chosen(.|\n)*'name': None"):
        writer.encode([Place(1.5, "a"), Place(1.5)], ["t", "t"])
    tenths = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}
    registry.register("digits", {"schema": json.dumps(measured(name=["null", "string"], x=tenths))})

    @dataclass
    class Priced:
        x: Decimal
        name: str | None = None

    digits = writer_of(AvroFormat(registry.address, subject="digits", auto_register=False), Priced)
    assert digits.encode([Priced(Decimal("1.50"))], ["t"]) == [b"\0\0\0\0\2\0\2\x0f"]


def test_a_schema_that_refers_to_others(registry: Registry) -> None:
    place = record("com.acme.Somewhere", name=["null", "string"], x="double")
    registry.register("place", {"schema": json.dumps(place)})
    outer = measured(sensor="string", celsius="double", at=MILLIS, place="com.acme.Somewhere")
    reference = {"name": "com.acme.Somewhere", "subject": "place", "version": 1}
    number = registry.register("in-value", {"schema": json.dumps(outer), "references": [reference]})
    out = BytesIO(b"\0" + number.to_bytes(4))
    out.seek(5)
    named: dict[str, Any] = {}
    fastavro.parse_schema(place, named_schemas=named)
    parsed = fastavro.parse_schema(outer, named_schemas=named)
    fastavro.schemaless_writer(out, parsed, {"sensor": "a", "celsius": 1.0, "at": 0, "place": {"name": None, "x": 2.0}})
    (found,) = reader_of(AvroFormat(registry.address), Reading).values([out.getvalue()])
    assert found.place == Place(2.0)


def test_a_registry_that_does_not_answer_fails_the_run_without_its_password() -> None:
    options = {"max.retries": "0", "basic.auth.user.info": "me:hunter22"}
    form = AvroFormat("http://127.0.0.1:9", options={**options})
    with pytest.raises(SourceError, match=r"schema 1 at http://127\.0\.0\.1:9"):
        reader_of(form, Place).values([b"\0\0\0\0\1a"])
    shown = [repr(form), repr(KafkaSink[Place]("a:1", "t", value_format=form)), str(form)]
    assert all("hunter22" not in text for text in shown)
    source = KafkaSource("a:1", "t", Place, value_format=AvroFormat("http://me:hunter22@host"))
    assert "hunter22" in source.secrets
    assert "hunter22" not in repr(source.value_format)


def test_readers_and_writers_pickle_without_what_they_have_made() -> None:
    writer, reader = writer_of(AVRO, Place), reader_of(AVRO, Place)
    encoded = writer.encode([Place(1.0)], ["t"])
    assert reader.values(encoded) == [Place(1.0)]
    again, other = pickle.loads(pickle.dumps((writer, reader)))
    assert other.values(again.encode([Place(1.0)], ["t"])) == [Place(1.0)]


def test_types_that_avro_lacks_are_named() -> None:
    @dataclass
    class Span:
        took: timedelta

    with pytest.raises(InvalidArgumentError, match=r"no form in Avro(.|\n)*Span\.took"):
        registered_type(AVRO, Span)
    with pytest.raises(InvalidArgumentError, match="a registry has an address"):
        AvroFormat("localhost:8081")
    with pytest.raises(InvalidArgumentError, match="no message of Protobuf"):
        ProtobufFormat("mock://a", Place)


MESSAGES = classes(
    file(
        enums={"Tint": ["unknown", "red", "blue"]},
        Place={"x": KINDS.TYPE_DOUBLE, "name_": KINDS.TYPE_STRING},
        Made={
            "text": KINDS.TYPE_STRING, "number": KINDS.TYPE_SINT64, "raw": KINDS.TYPE_BYTES,
            "at": "google.protobuf.Timestamp", "took": "google.protobuf.Duration", "price": KINDS.TYPE_STRING,
            "ident": KINDS.TYPE_STRING, "color": "acme.Tint", "place": "acme.Place", "places": ["acme.Place"],
            "TagsEntry": {"key": KINDS.TYPE_STRING, "value": KINDS.TYPE_INT32}, "tags": ["acme.Made.TagsEntry"],
            "big": KINDS.TYPE_UINT64, "elsewhere": "acme.Place", "extra": KINDS.TYPE_INT32,
        },
    )
)  # fmt: skip
PROTOBUF = ProtobufFormat("mock://codecs", MESSAGES["Made"])


@dataclass(frozen=True)
class Made:
    text: str
    number: int
    raw: bytes
    at: datetime
    took: timedelta
    price: Decimal
    ident: uuid.UUID
    color: Color
    place: Place
    places: list[Place]
    tags: dict[str, int]
    elsewhere: Place | None
    big: int
    extra: int = 0


places = st.builds(Place, st.floats(allow_nan=False), st.one_of(st.none(), st.text(max_size=3)))
made_values = st.builds(
    Made, text=st.text(max_size=4), number=st.integers(-(2**63), 2**63 - 1), raw=st.binary(max_size=4),
    at=st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
    took=st.timedeltas(timedelta(days=-999), timedelta(days=999)), price=st.decimals(-(10**9), 10**9, places=4),
    place=places, places=st.lists(places, max_size=2), elsewhere=st.one_of(st.none(), places),
    tags=st.dictionaries(st.text(max_size=2), st.integers(-9, 9), max_size=2), big=st.integers(0, 2**63 - 1),
    extra=st.integers(-(2**31), 2**31 - 1),
)  # fmt: skip


@examples(60)
@given(st.lists(made_values, min_size=1, max_size=3))
def test_protobuf_reads_what_it_has_written(values: list[Made]) -> None:
    encoded = writer_of(PROTOBUF, Made).encode(values, ["t"] * len(values))
    assert reader_of(PROTOBUF, Made).values(encoded) == values


def test_messages_themselves_and_those_that_do_not_fit() -> None:
    message = PROTOBUF.message(text="a", number=1, ident=str(uuid.UUID(int=1)), price="1", color=1, extra=7)
    (encoded,) = writer_of(PROTOBUF, PROTOBUF.message).encode([message], ["t"])
    assert reader_of(PROTOBUF, PROTOBUF.message).values([encoded]) == [message]
    found = reader_of(PROTOBUF, Made).values([encoded, encoded[:5], encoded[:-1], b"\0\0\0\x03\0\0"])
    assert [each.reason.partition(": Dec")[0].partition(" 3")[0] for each in found] == [
        f"by schema {int.from_bytes(encoded[1:5])}: the message has no such field",
        f"by schema {int.from_bytes(encoded[1:5])}: the value is cut off before its message",
        f"is no value of schema {int.from_bytes(encoded[1:5])}",
        "the registry has no schema 768",
    ]
    assert found[0].field == "Made.at"


def test_json_behind_an_id_is_no_json_and_says_so() -> None:
    pa = pytest.importorskip("pyarrow")
    texts = [b'\0\0\0\0\x07{"x":1}', writer_of(AVRO, Place).encode([Place(1.0)], ["t"])[0], b"\0", b'{"x":2}']
    rows = {"value": texts, "topic": ["t"] * 4, "partition": [0] * 4, "offset": [0, 1, 2, 3]}
    batch = kafka_decoder(KafkaSource("a:1", "t", Place))(pa.RecordBatch.from_pydict(rows))
    assert batch.values == [Place(2.0)]
    by_json, by_avro, neither = [each.reason for each in batch.malformed]
    assert by_json.startswith("not JSON: it begins with a zero byte and the id of a schema, 7, as serializers of")
    assert "a zero byte and the id of a schema" in by_avro
    assert neither == "not JSON: Expecting value: line 1 column 1 (char 0)"


def test_types_that_a_message_lacks_are_named() -> None:
    @dataclass
    class Wrong:
        text: int

    @dataclass
    class More:
        text: str
        unknown: int

    for kind, reason in ((Wrong, "STRING, not int"), (More, "no such field"), (str, "values in Protobuf are records")):
        with pytest.raises(InvalidArgumentError, match=reason):
            registered_type(PROTOBUF, kind)
    whole = KafkaRecordSource("a:1", "t", PROTOBUF.message, value_format=PROTOBUF)
    assert topic_values(whole) == "its elements are messages of Protobuf"
