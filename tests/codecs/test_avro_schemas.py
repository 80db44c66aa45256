"""Values in Avro that other writers wrote by schemas of their own, and sinks that write by such a schema."""

from __future__ import annotations

import enum
import json
import tracemalloc
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from tests.codecs.schemas import MICROS, MILLIS, own_registry, record, registered
from windrow import Pipeline, from_collection
from windrow.errors import InvalidArgumentError, SinkError
from windrow.kafka import AvroFormat, KafkaSink
from windrow_kafka.registry.values import RegisteredReader, RegisteredWriter, registered_type
from windrow_kafka.writer import TopicWriter
from windrow_runtime.codecs.malformed import MalformedValue

fastavro = pytest.importorskip("fastavro")

# Any in this module: values of every type, and schemas as JSON.


@pytest.fixture
def form() -> AvroFormat:
    # A registry of its own for each test.
    return AvroFormat(own_registry(), subject="there", auto_register=False)


def payload(form: AvroFormat, schema: Any, raw: bytes) -> bytes:
    return b"\0" + registered(form, json.dumps(schema)).to_bytes(4) + raw


def bytes_of(schema: Any, datum: Any) -> bytes:
    """A datum as another program writes it; a branch of a union is a tuple of its name and the value."""
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(json.loads(json.dumps(schema))), datum)
    return data.getvalue()


def written(form: AvroFormat, schema: Any, datum: Any) -> bytes:
    return payload(form, schema, bytes_of(schema, datum))


def read(form: AvroFormat, kind: Any, *values: bytes, zone: Any = None) -> list[Any]:
    registered_kind = registered_type(form, kind)
    assert registered_kind is not None
    return RegisteredReader(form, registered_kind.in_timezone(zone)).values(values)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Opened:
    door: int | None


@dataclass(frozen=True)
class Other:
    door: int | None


LONG = {"type": "long"}
TENTHS = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
OPENED = record("acme.Opened", door=["null", "long"])
CLOSED = record("acme.Closed", reason="string")
TWIN = record("acme.Twin", door=["null", "long"])
TINT = {"type": "enum", "name": "Tint", "symbols": ["red", "blue", "green"]}
TWO_BYTES = {"type": "fixed", "name": "Two", "size": 2}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

UNIONS: list[tuple[Any, list[Any], Any, Any]] = [
    # The type in Python, the union, a value of the branch that fits with what is read, and one of another branch.
    (int, ["long", "double"], (("long", 2), 2), ("double", 2.0)),
    (int, ["double", "null", "int", "boolean"], (("int", 2), 2), ("boolean", True)),
    (float, ["double", "boolean"], (("double", 1.0), 1.0), ("boolean", True)),
    (float, ["long", "string", "double"], (("long", 3), 3.0), ("string", "3")),
    (bool, ["int", "boolean"], (("boolean", True), True), ("int", 1)),
    (datetime, [MILLIS, "int"], (("long", 1_767_268_800_000), NOON), ("int", 5)),
    (date, ["long", {"type": "int", "logicalType": "date"}], (("int", 20_454), date(2026, 1, 1)), ("long", 5)),
    (str, ["bytes", "string"], (("string", "a"), "a"), ("bytes", b"a")),
    (str, [TINT, "string"], (("string", "red"), "red"), ("Tint", "red")),
    (Color, ["string", TINT], (("Tint", "red"), Color.RED), ("string", "red")),
    (bytes, [TWO_BYTES, "bytes"], (("bytes", b"ab"), b"ab"), ("Two", b"ab")),
    (bytes, ["string", "bytes"], (("bytes", b"ab"), b"ab"), ("string", "ab")),
    (list[int], [{"type": "array", "items": "long"}, {"type": "map", "values": "long"}],
     (("array", [1]), [1]), ("map", {"a": 1})),
    (Opened, ["null", CLOSED, OPENED], (("acme.Opened", {"door": 7}), Opened(7)), ("acme.Closed", {"reason": "wind"})),
    (Opened, [TWIN, OPENED], (("acme.Opened", {"door": 7}), Opened(7)), ("acme.Twin", {"door": 7})),
    (Other, [CLOSED, record("Gone", door="string"), OPENED, "null"],
     (("acme.Opened", {"door": 7}), None), ("acme.Closed", {"reason": "wind"})),
]  # fmt: skip


@pytest.mark.parametrize("place", ["top", "field", "list", "map", "deep"])
@pytest.mark.parametrize(("kind", "union", "good", "other"), UNIONS[:-1], ids=str)
def test_a_value_of_another_branch_is_malformed(
    form: AvroFormat, place: str, kind: Any, union: list[Any], good: tuple[Any, Any], other: Any
) -> None:
    class Field(NamedTuple):
        v: kind

    class Deep(NamedTuple):
        v: list[Field]

    array = {"type": "array", "items": union}
    # The schema and the type with the union in its place, and how a datum and an element have a value there.
    places: dict[str, tuple[Any, Any, Any, Any]] = {
        "top": (union, kind, lambda x: x, lambda x: x),
        "field": (record("Field", v=union), Field, lambda x: {"v": x}, Field),
        "list": (array, list[kind], lambda x: [x], lambda x: [x]),
        "map": ({"type": "map", "values": union}, dict[str, kind], lambda x: {"k": x}, lambda x: {"k": x}),
        "deep": (record("D", v={"type": "array", "items": record("F", v=union)}), Deep,
                 lambda x: {"v": [{"v": x}]}, lambda x: Deep([Field(x)])),
    }  # fmt: skip
    schema, whole, wrap, made = places[place]
    datum, expected = good
    data = [datum, other, *([None] if "null" in union else [])]
    first, second, *null = read(form, whole, *(written(form, schema, wrap(each)) for each in data))
    assert first == made(expected)
    assert type(second) is MalformedValue
    assert "the value is of another branch: the schema has " in second.reason
    assert all(type(each) is MalformedValue and "null in a required field" in each.reason for each in null)
    optional = kind | None
    if place == "top" and "null" in union:
        assert read(form, optional, *(written(form, union, each) for each in data))[::2] == [expected, None]


def test_records_of_a_union_are_told_apart_by_their_names(form: AvroFormat) -> None:
    # The only one with the fields of the class; then two of them, of which none has its name.
    schema = [CLOSED, record("Gone", door="string"), record("Shut", door="long")]
    values = [written(form, schema, each) for each in (("Shut", {"door": 1}), ("Gone", {"door": "a"}))]
    only, gone = read(form, Other, *values)
    assert (only, type(gone)) == (Other(1), MalformedValue)
    (unclear,) = read(form, Other, written(form, [OPENED, TWIN], ("acme.Twin", {"door": 1})))
    assert "acme.Opened and acme.Twin, which both have the fields of Other" in unclear.reason
    # Outside of a union names do not matter.
    assert read(form, Other, written(form, TWIN, {"door": 1})) == [Other(1)]


@pytest.mark.parametrize("union", [["null", "long"], ["long", "null"], ["long", "null", "string"], ["string", "long"]])
def test_null_in_each_place_of_a_union(form: AvroFormat, union: list[Any]) -> None:
    assert read(form, int | None, written(form, union, ("long", 5))) == [5]
    if "null" in union:
        assert read(form, int | None, written(form, union, None)) == [None]
        (bad,) = read(form, int, written(form, union, None))
        assert bad.reason.endswith("null in a required field")
        # Of a type that no other branch fits, null is still None.
        none, five = read(form, bytes | None, written(form, union, None), written(form, union, ("long", 5)))
        assert none is None
        assert five.reason.endswith("the value is of another branch: the schema has long, not bytes | None")


@pytest.mark.parametrize(
    ("schema", "kind", "datum", "expected"),
    [
        ({"type": "long", "logicalType": "our-count"}, int, 5, 5),
        (["null", {"type": "double", "logicalType": "our-share"}], float, 2.5, 2.5),
        ({"type": "string", "logicalType": "date"}, str, "x", "x"),
        ({"type": "int", "logicalType": "timestamp-millis"}, int, 5, 5),
        ({"type": "int", "logicalType": "time-millis"}, int, 5, 5),
        ({"type": "long", "logicalType": "uuid"}, int, 5, 5),
        ({"type": "bytes", "logicalType": "decimal"}, bytes, b"a", b"a"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, bytes, b"a", b"a"),
        ({"type": "bytes", "logicalType": "decimal", "precision": True}, bytes, b"a", b"a"),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 9}, bytes, b"ab", b"ab"),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "uuid"}, bytes, b"ab", b"ab"),
        ({"type": "record", "name": "Opened", "logicalType": "door", "fields": OPENED["fields"]}, Opened, {"door": 1},
         Opened(1)),
        ({"type": {"type": "long", "logicalType": "timestamp-millis"}}, datetime, 1_767_268_800_000, NOON),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, uuid.UUID, bytes(15) + b"\1",
         uuid.UUID(int=1)),
        ({"type": "string", "logicalType": "uuid"}, uuid.UUID, str(uuid.UUID(int=1)), uuid.UUID(int=1)),
        ({"type": "string", "logicalType": "uuid"}, str, str(uuid.UUID(int=1)), str(uuid.UUID(int=1))),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 3, "scale": 1}, Decimal,
         b"\xff\xf1", Decimal("-1.5")),
    ],
)  # fmt: skip
def test_logical_types(form: AvroFormat, schema: Any, kind: Any, datum: Any, expected: Any) -> None:
    plain = json.loads(
        json.dumps(schema), object_hook=lambda each: {k: v for k, v in each.items() if k != "logicalType"}
    )
    raw = bytes_of("long" if kind is datetime else plain, datum)
    assert read(form, kind, payload(form, schema, raw)) == [expected]


def test_local_times_are_of_the_zone_of_the_source(form: AvroFormat) -> None:
    for unit, fraction in (("millis", 10**3), ("micros", 10**6), ("nanos", 10**9)):
        value = written(form, {"type": "long", "logicalType": f"local-timestamp-{unit}"}, 1_767_268_800 * fraction)
        assert read(form, datetime, value, zone=ZoneInfo("Europe/Berlin")) == [datetime(2026, 1, 1, 11, tzinfo=UTC)]
        (bad,) = read(form, datetime, value)
        assert f"long of local-timestamp-{unit}, which names no moment; the source may say timezone=" in bad.reason


@pytest.mark.parametrize(
    ("schema", "kind", "datum", "reason"),
    [
        (NANOS, datetime, 1_001, "1001 of 1,000,000,000 a second is finer"),
        (MICROS, datetime, 2**62, "outside of the years 1 to 9999"),
        (MILLIS, datetime, 2**62, "of 1,000 a second"),
        ("long", float, 2**53 + 1, "9007199254740993 is no float"),
        (TENTHS, Decimal, b"\x03\xe8", "more than the 3"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 20}, Decimal, b"\1", "18 after it"),
        ({"type": "int", "logicalType": "date"}, date, 2**31 - 1, "outside of the years 1 to 9999"),
        (TINT, Color, 2, "'green' is no value of Color"),
        (TINT, Color, -1, "has no symbol -1"),
        ("string", uuid.UUID, "x", "badly formed"),
    ],
)  # fmt: skip
def test_values_that_a_type_cannot_hold_are_malformed(
    form: AvroFormat, schema: Any, kind: Any, datum: Any, reason: str
) -> None:
    raw = {"type": "int"} if schema is TINT else schema["type"] if isinstance(schema, dict) else schema
    (bad,) = read(form, kind, payload(form, schema, bytes_of(raw, datum)))
    assert type(bad) is MalformedValue
    assert reason in bad.reason


def test_the_default_of_an_enum_stands_for_symbols_that_the_class_lacks(form: AvroFormat) -> None:
    with_default = {**TINT, "default": "blue"}
    values = [written(form, with_default, each) for each in ("red", "green")]
    assert read(form, Color, *values) == [Color.RED, Color.BLUE]
    (bad,) = read(form, Color, written(form, {**TINT, "default": "green"}, "green"))
    assert bad.reason.endswith("'green' is no value of Color")


@pytest.mark.parametrize("schema", ["{", '{"type": "list"}', '{"type": "record", "name": "R"}', "[" * 5_000, "7"])
def test_a_schema_that_is_none_is_malformed(form: AvroFormat, schema: str) -> None:
    number = registered(form, schema)
    (bad,) = read(form, int, b"\0" + number.to_bytes(4) + b"\2")
    assert bad.reason.startswith(f"schema {number} does not fit int: schema: it is no schema of Avro")


def number(value: int) -> bytes:
    """A number as Avro has it."""
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


EMPTY = {"type": "array", "items": "null"}
NOTHING = record("Nothing", a="null", b={"type": "fixed", "name": "None", "size": 0})
CHAIN = record("Chain", next=["null", "Chain"])
TREE = record("Tree", below={"type": "map", "values": {"type": "array", "items": "Tree"}})


@pytest.mark.parametrize(
    ("schema", "raw"),
    [
        (EMPTY, number(2**34) + number(0)),
        (EMPTY, number(-(2**34)) + number(0) + number(0)),
        (EMPTY, number(2**19) * 3 + number(0)),
        ({"type": "array", "items": NOTHING}, number(2**34) + number(0)),
        ({"type": "map", "values": {"type": "array", "items": "null"}}, number(1) + number(0) + number(2**34)),
        ({"type": "array", "items": {"type": "array", "items": "null"}}, (number(1) + number(2**34) + number(0))),
        ({"type": "array", "items": ["null", {"type": "array", "items": "null"}]}, number(1) * 2 + number(2**34)),
        ({"type": "array", "items": "long"}, number(2**62)),
        ({"type": "array", "items": "long"}, number(-(2**63)) + number(1)),
        ({"type": "map", "values": "null"}, number(2**62)),
        ("string", number(2**62) + b"a"),
        ("string", number(-5) + b"abc"),
        ("bytes", number(2**62) + b"a"),
        ({"type": "fixed", "name": "F", "size": 2**40}, b"a"),
        (CHAIN, number(1) * 100_000 + number(0)),
        (TREE, (number(1) + number(0) + number(1)) * 100_000),
        (record("Self", me="Self"), b""),
    ],
)
def test_few_bytes_do_not_take_much_memory(form: AvroFormat, schema: Any, raw: bytes) -> None:
    class Unread(NamedTuple):
        a: int

    class Read(NamedTuple):
        a: int
        many: list[None]

    value = payload(form, record("Unread", a="long", many=schema), number(1) + raw)
    tracemalloc.start()
    found = read(form, Unread, value) + (read(form, Read, value) if schema == EMPTY else [])
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    assert {*map(type, found)} == {MalformedValue}


def test_few_empty_items_and_small_trees_are_read(form: AvroFormat) -> None:
    class Unread(NamedTuple):
        a: int
        many: list[None]

    schema = record("U", many={"type": "array", "items": "null"}, chain=CHAIN, tree=TREE, a="long")
    chain: dict[str, Any] | None = None
    tree: dict[str, Any] = {"below": {}}
    for _ in range(50):
        chain, tree = {"next": chain}, {"below": {"x": [tree]}}
    datum = {"a": 5, "many": [None] * 3, "chain": chain, "tree": tree}
    assert read(form, Unread, written(form, schema, datum)) == [Unread(5, [None] * 3)]


def test_a_null_outside_of_unions(form: AvroFormat) -> None:
    class Empty(NamedTuple):
        a: None
        b: int | None

    value = written(form, record("E", a="null", b="null"), {"a": None, "b": None})
    assert read(form, Empty, value) == [Empty(None, None)]


def write(form: AvroFormat, schema: Any, kind: Any, *values: Any) -> list[Any]:
    """Writes by a schema that is there; returns what fastavro reads."""
    registered(form, json.dumps(schema))
    encoded = RegisteredWriter(form, registered_type(form, kind)).encode(values, ["t"] * len(values))
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    return [fastavro.schemaless_reader(BytesIO(each[5:]), parsed, None) for each in encoded]


class Count(NamedTuple):
    n: int
    m: str = "x"


@pytest.mark.parametrize(
    ("kind", "schema", "reason"),
    [
        (int, "double", "the schema has double, not int"),
        (float, "long", "the schema has long, not float"),
        (int, "boolean", "the schema has boolean, not int"),
        (bool, "int", "the schema has int, not bool"),
        (str, "bytes", "the schema has bytes, not str"),
        (bytes, "string", "the schema has string, not bytes"),
        (datetime, "long", "the schema has long, not datetime"),
        (datetime, {"type": "long", "logicalType": "local-timestamp-millis"}, "local-timestamp-millis, not datetime"),
        (int, MILLIS, "the schema has long of timestamp-millis, not int"),
        (int, ["null", "string"], "the schema has string, not int"),
        (list[int], {"type": "array", "items": "float"}, r"float, not int(.|\n)*where: +list\[int\]\[\]"),
        (dict[str, int], {"type": "map", "values": "string"}, "the schema has string, not int"),
        (Count, record("Count", n="long"), r"record Count lacks this field of str(.|\n)*where: +Count\.m"),
        (Count, record("Count", n="long", m="string", k="int"), r"has this field of int(.|\n)*Count\.k"),
        (Count, record("Count", number="long", m="string"), r"has this field of long(.|\n)*Count\.number"),
        (Count, {**record("C"), "fields": [{"name": "n", "type": "long"}, {"name": "m", "type": "string"},
                                          {"name": "k", "type": ["null", "int"], "default": None}]}, "Count lacks it"),
        (Opened, [OPENED, record("acme.other.Opened", door=["null", "long"])], "both have the fields of Opened"),
    ],
)  # fmt: skip
def test_a_type_that_does_not_fit_the_schema_of_a_sink(form: AvroFormat, kind: Any, schema: Any, reason: str) -> None:
    registered(form, json.dumps(schema))
    with pytest.raises(InvalidArgumentError, match=f"does not fit the schema of there: (.|\n)*{reason}"):
        RegisteredWriter(form, registered_type(form, kind)).check("t")


@pytest.mark.parametrize(
    ("kind", "schema", "good", "bad"),
    [
        (int, "int", 2**31 - 1, 2**31),
        (int, ["null", "int"], -(2**31), -(2**31) - 1),
        (int, "long", 2**40, 1.5),
        (int, "long", 5, True),
        (bool, "boolean", True, 5),
        (float, "float", 1.5, 1e300),
        (list[float], {"type": "array", "items": ["null", "float"]}, [2.5], [-1e39]),
        (datetime, MILLIS, NOON, NOON.replace(microsecond=1)),
        (datetime, NANOS, NOON, NOON.replace(year=2500)),
        (bytes, TWO_BYTES, b"ab", b"abc"),
        (str | None, "string", "a", None),
        (Color, {**TINT, "symbols": ["red"]}, Color.RED, Color.BLUE),
        (Color, {**TINT, "symbols": ["red"], "default": "red"}, Color.RED, Color.BLUE),
        (Decimal, TENTHS, Decimal("-12.5"), Decimal("1.25")),
        (Decimal, TENTHS, Decimal("99.9"), Decimal(100)),
        (str, {"type": "string", "logicalType": "uuid"}, str(uuid.UUID(int=1)), "x"),
        (dict[str, int], {"type": "map", "values": "int"}, {"a": 1}, {"a": 2**40}),
        (list[int | None], {"type": "array", "items": "long"}, [1], [1, None]),
    ],
)  # fmt: skip
def test_each_value_of_a_sink_is_checked(form: AvroFormat, kind: Any, schema: Any, good: Any, bad: Any) -> None:
    class Held(NamedTuple):
        v: kind

    whole = record("Held", v=schema)
    (found,) = write(form, whole, Held, Held(good))
    expected = good.value if isinstance(good, Color) else uuid.UUID(good) if "uuid" in str(schema) else good
    expected = int(good.timestamp()) * 10**9 if schema is NANOS else expected
    assert found == {"v": expected}
    with pytest.raises(InvalidArgumentError, match=r"Held\.v"):
        write(form, whole, Held, Held(good), Held(bad))


def test_branches_of_unions_are_written_as_their_types(form: AvroFormat) -> None:
    class Many(NamedTuple):
        a: int
        b: float | None
        c: Opened | None
        d: Color
        e: list[str | None]
        f: datetime

    schema = record(
        "Many", a=["double", "int", "long"], b=["float", "long", "null", "double"], c=[TWIN, "null", OPENED],
        d=["string", TINT], e={"type": "array", "items": ["bytes", "null", "string"]}, f=["long", "null"],
    )  # fmt: skip
    schema["fields"][-1]["type"] = ["string", MILLIS]
    values = [Many(2**40, 0.1, Opened(3), Color.BLUE, ["a", None], NOON), Many(1, None, None, Color.RED, [], NOON)]
    number = registered(form, json.dumps(schema))
    encoded = RegisteredWriter(form, registered_type(form, Many)).encode(values, ["t"] * 2)
    assert {each[1:5] for each in encoded} == {number.to_bytes(4)}
    assert read(form, Many, *encoded) == values


def test_a_type_that_does_not_fit_is_no_failure_of_an_element(form: AvroFormat) -> None:
    """Where a function gives the topics, the schema of one is known when its first element is written."""
    registered(form, json.dumps("double"))
    sink = KafkaSink[int]("none:9", lambda number: "t", value_format=form)
    (*_, step) = Pipeline("p", from_collection([1, 2]).sink_to(sink, on_error="drop")).steps
    with pytest.raises(SinkError, match="the type of the elements does not fit the schema"):
        TopicWriter(sink, step).encoder()([1, 2])
