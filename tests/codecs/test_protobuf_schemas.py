"""Values in Protobuf by the schemas of others, and values that the fields of a message do not hold."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from tests.codecs.schemas import KINDS, classes, file, own_registry, registered
from windrow.errors import InvalidArgumentError, SinkError
from windrow.kafka import ProtobufFormat
from windrow_kafka.registry.protobuf_schema import message_at, parse_protobuf, place_of
from windrow_kafka.registry.values import RegisteredReader, RegisteredWriter, registered_type
from windrow_runtime.codecs.malformed import MalformedValue

# Any in this module: values of every type, and generated classes of messages.


def read(form: ProtobufFormat, kind: Any, *values: bytes) -> list[Any]:
    return RegisteredReader(form, registered_type(form, kind)).values(values)


def write(form: ProtobufFormat, kind: Any, *values: Any) -> list[bytes]:
    return RegisteredWriter(form, registered_type(form, kind)).encode(values, ["t"] * len(values))


class Reading(NamedTuple):
    sensor: str
    second: int


READING = {"sensor": KINDS.TYPE_STRING, "second": KINDS.TYPE_INT64}
ALERT = {"text": KINDS.TYPE_STRING, "level": KINDS.TYPE_INT64}
SOURCE = """
syntax = "proto3"; // message Fake {
package acme;
/* message Other { */
enum Tint { NONE = 0; }
option (note) = "message {";
message Reading {
  message Inner { string text = 1; oneof one { int64 a = 2; } }
  map<string, int64> tags = 3;
  string sensor = 1; int64 second = 2;
}
message Alert { string text = 1; }
"""


def test_another_message_of_the_file_or_of_another_is_malformed() -> None:
    described = file(Reading=READING, Alert=ALERT, Outer={"Reading": READING, "x": KINDS.TYPE_INT32})
    made, address = classes(described), own_registry()
    form = ProtobufFormat(address, made["Reading"])
    share = file(Share={"part": KINDS.TYPE_STRING})
    (good,) = write(form, Reading, Reading("roof", 1))
    others = [
        *write(ProtobufFormat(address, made["Alert"], subject="a"), made["Alert"], made["Alert"](text="fire", level=3)),
        good[:5] + b"\x04\x04\x00" + good[6:],  # Outer.Reading
        good[:5] + b"\x02\x12" + good[6:],
        good[:5] + b"\x02\x01" + good[6:],
        b"\0" + registered(form, share, "s").to_bytes(4) + b"\0" + b"\x0a\x01a",
    ]
    reasons = ["it is a acme.Alert, not a acme.Reading", "it is a acme.Outer.Reading, not a acme.Reading",
               "it has no message at [9]", "it has no message at [-1]",
               "it is a acme.Share, not a acme.Reading"]  # fmt: skip
    for kind in (Reading, made["Reading"]):
        found, *bad = read(form, kind, good, *others)
        assert tuple(found) == ("roof", 1) if kind is Reading else found == made["Reading"](sensor="roof", second=1)
        assert [each.reason.partition(": ")[2] for each in bad] == reasons
    # The place that is written out is that of the first message, too.
    assert read(form, Reading, good[:5] + b"\x02\x00" + good[6:]) == [Reading("roof", 1)]


def test_a_registry_that_has_the_source_of_a_file() -> None:
    form = ProtobufFormat(own_registry(), classes(file(Reading=READING))["Reading"])
    first = b"\0" + registered(form, SOURCE).to_bytes(4)
    value = form.message(sensor="roof", second=1).SerializeToString()
    good, *bad = read(
        form, Reading, *(first + place + value for place in (b"\0", b"\x02\x02", b"\x04\0\0", b"\x02\x04"))
    )
    assert good == Reading("roof", 1)
    assert [each.reason.rpartition(": ")[2] for each in bad] == [
        "it is a acme.Alert, not a acme.Reading", "it is a acme.Reading.Inner, not a acme.Reading",
        "it has no message at [2]",
    ]  # fmt: skip
    sink = ProtobufFormat(form.registry, form.message, subject="there", auto_register=False)
    assert write(sink, Reading, Reading("roof", 1)) == [first + b"\0" + value]
    with pytest.raises(InvalidArgumentError, match=r"it is a Reading, not a acme\.Reading"):
        write(sink, form.message, Reading("roof", 1))


@pytest.mark.parametrize(
    ("fields", "is_read"),
    [
        ({"sensor": KINDS.TYPE_STRING, "second": KINDS.TYPE_INT32}, True),
        ({"sensor": KINDS.TYPE_BYTES, "second": KINDS.TYPE_UINT32, "more": KINDS.TYPE_STRING}, True),
        ({"sensor": KINDS.TYPE_STRING}, True),
        ({"sensor": KINDS.TYPE_STRING, "second": KINDS.TYPE_SINT64}, False),
        ({"sensor": KINDS.TYPE_STRING, "second": KINDS.TYPE_DOUBLE}, False),
        ({"sensor": [KINDS.TYPE_STRING], "second": KINDS.TYPE_INT64}, False),
        ({"second": KINDS.TYPE_INT64, "sensor": KINDS.TYPE_STRING}, False),
        ({"sensor": (1, KINDS.TYPE_STRING), "second": (7, KINDS.TYPE_INT64)}, False),
    ],
)
def test_fields_of_the_writer_are_read_only_as_what_they_are(fields: dict[str, Any], is_read: bool) -> None:
    theirs = file(Reading=fields)
    form = ProtobufFormat(own_registry(), classes(file(Reading=READING))["Reading"])
    value = b"\0" + registered(form, theirs).to_bytes(4) + b"\0"
    (found,) = read(form, Reading, value)
    assert found == Reading("", 0) if is_read else "does not fit Reading: acme.Reading." in found.reason
    # A sink that writes by that schema needs the very fields.
    sink = ProtobufFormat(form.registry, form.message, subject="there", auto_register=False)
    with pytest.raises(InvalidArgumentError, match=r"does not fit the schema of there(.|\n)*where: +acme\.Reading\."):
        RegisteredWriter(sink, registered_type(sink, Reading)).check("t")


def test_a_sink_by_a_schema_that_is_there() -> None:
    described = file(Alert=ALERT, Reading=READING)
    form = ProtobufFormat(
        own_registry(), classes(file(Reading=READING))["Reading"], subject="there", auto_register=False
    )
    with pytest.raises(SinkError, match="the schema of there at mock"):
        write(form, Reading, Reading("a", 1))
    registered(form, file(Share=ALERT))
    with pytest.raises(InvalidArgumentError, match=r"it has no message acme\.Reading"):
        write(form, Reading, Reading("a", 1))
    number = registered(form, described)
    (value,) = write(form, Reading, Reading("a", 1))
    assert value == b"\0" + number.to_bytes(4) + b"\x02\x02" + b"\x0a\x01a\x10\x01"
    assert read(form, Reading, value) == [Reading("a", 1)]


class Note(NamedTuple):
    text: str | None
    n: int | None
    share: float | None
    raw: bytes | None
    is_on: bool | None
    small: int | None
    notes: dict[str, int]


WRAPPED = {
    "text": "google.protobuf.StringValue", "n": "google.protobuf.Int64Value", "share": "google.protobuf.FloatValue",
    "raw": "google.protobuf.BytesValue", "is_on": "google.protobuf.BoolValue", "small": "google.protobuf.UInt32Value",
    "NotesEntry": {"key": KINDS.TYPE_STRING, "value": "google.protobuf.Int32Value"},
    "notes": ["acme.Note.NotesEntry"],
}  # fmt: skip


def test_wrappers_are_scalars_that_may_be_absent() -> None:
    described = file(Note=WRAPPED)
    form = ProtobufFormat(own_registry(), classes(described)["Note"])
    values = [Note("a", 1, 1.5, b"b", True, 2**32 - 1, {"x": 5}), Note(None, None, None, None, None, None, {}),
              Note("", 0, 0.0, b"", False, 0, {"": 0})]  # fmt: skip
    encoded = write(form, Note, *values)
    assert read(form, Note, *encoded) == values
    wrong: list[dict[str, Any]] = [{"small": 2**32}, {"share": 1e39}, {"notes": {"x": 2**31}}]
    for changed in wrong:
        with pytest.raises(InvalidArgumentError, match=rf"beyond(.|\n)*where: +Note\.{next(iter(changed))}"):
            write(form, Note, values[0]._replace(**changed))

    class Whole(NamedTuple):
        text: str

    assert read(form, Whole, encoded[2]) == [Whole("")]
    (absent,) = read(form, Whole, encoded[1])
    assert type(absent) is MalformedValue


class Level(enum.Enum):
    LOW = 1
    HUGE = 2**40


@pytest.mark.parametrize(
    ("kind", "field", "good", "wrong"),
    [
        (int, KINDS.TYPE_INT32, 2**31 - 1, 2**31),
        (int, KINDS.TYPE_SFIXED32, -(2**31), -(2**31) - 1),
        (int, KINDS.TYPE_UINT32, 2**32 - 1, -1),
        (int, KINDS.TYPE_FIXED64, 2**63 - 1, -1),
        (float, KINDS.TYPE_FLOAT, 1.5, 1e300),
        (float, KINDS.TYPE_FLOAT, math.inf, -3.5e38),
        (list[float], [KINDS.TYPE_FLOAT], [1.5], [1.5, 1e39]),
        (str | None, KINDS.TYPE_STRING, "a", None),
        (list[int] | None, [KINDS.TYPE_INT64], [1], None),
        (timedelta, "google.protobuf.Duration", timedelta(-1, 1, 1), timedelta(days=999_999_999)),
    ],
)
def test_values_that_a_field_does_not_hold(kind: Any, field: Any, good: Any, wrong: Any) -> None:
    class Held(NamedTuple):
        v: kind

    form = ProtobufFormat(own_registry(), classes(file(Held={"v": field}))["Held"])
    assert read(form, Held, *write(form, Held, Held(good))) == [Held(good)]
    with pytest.raises(InvalidArgumentError, match=r"where: +Held\.v"):
        write(form, Held, Held(good), Held(wrong))


@pytest.mark.parametrize(
    ("kind", "name", "seconds", "nanos", "reason"),
    [
        (datetime, "Timestamp", 1, 1, "finer than a microsecond"),
        (datetime, "Timestamp", 1, -1, "a Timestamp has -1 nanoseconds"),
        (datetime, "Timestamp", 1, 10**9, "a Timestamp has 1000000000 nanoseconds"),
        (datetime, "Timestamp", 2**50, 0, "of 1,000,000,000 a second"),
        (timedelta, "Duration", 1, 999, "finer than a microsecond"),
        (timedelta, "Duration", 0, -1, "finer than a microsecond"),
        (timedelta, "Duration", 1, -1_000, "a Duration has 1 seconds and -1000 nanoseconds"),
        (timedelta, "Duration", 2**40, 0, "a Duration has"),
    ],
)
def test_times_that_python_does_not_hold(kind: Any, name: str, seconds: int, nanos: int, reason: str) -> None:
    class Held(NamedTuple):
        v: kind

    made = classes(file(Held={"v": f"google.protobuf.{name}"}))["Held"]
    form = ProtobufFormat(own_registry(), made)
    values = [made(v={"seconds": seconds, "nanos": nanos}), made(v={"seconds": 1, "nanos": 1_000})]
    bad, good = read(form, Held, *write(form, made, *values))
    assert reason in bad.reason
    expected = timedelta(seconds=1, microseconds=1)
    assert good == Held(expected if kind is timedelta else datetime(1970, 1, 1, tzinfo=UTC) + expected)


def test_a_sink_loses_no_field_and_makes_up_none() -> None:
    described = file(
        Reading={**READING, "note_": KINDS.TYPE_STRING, "many": [KINDS.TYPE_INT32], "inner": "acme.Alert"}, Alert=ALERT,
        Whole={**READING, "level": KINDS.TYPE_INT32}, Outer={"inners": ["acme.Whole"]},
    )  # fmt: skip
    made, address = classes(described), own_registry()

    @dataclass
    class More:
        sensor: str
        second: int
        lacking: str = "default"

    @dataclass
    class Outer:
        inners: list[Reading]

    assert write(ProtobufFormat(address, made["Reading"]), Reading, Reading("a", 1))  # the others stay absent
    assert registered_type(ProtobufFormat(address, made["Reading"]), More)  # which a source may be
    for message, kind, reason in (
        ("Reading", More, r"acme\.Reading lacks this field of str(.|\n)*More\.lacking"),
        ("Whole", Reading, r"acme\.Whole has this field of INT32(.|\n)*Reading\.level"),
        ("Outer", Outer, r"acme\.Whole has this field of INT32(.|\n)*Outer\.inners\.level"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            registered_type(ProtobufFormat(address, made[message]), kind, is_sink=True)


def test_members_of_an_enum_that_the_message_lacks() -> None:
    form = ProtobufFormat(own_registry(), classes(file(enums={"Tint": ["red"]}, Held={"v": "acme.Tint"}))["Held"])

    class Color(enum.Enum):
        RED = "red"
        BLUE = "blue"

    @dataclass
    class Named:
        v: Color

    @dataclass
    class Numbered:
        v: Level

    assert read(form, Named, *write(form, Named, Named(Color.RED))) == [Named(Color.RED)]
    for kind, wrong in ((Named, Named(Color.BLUE)), (Numbered, Numbered(Level.HUGE))):
        with pytest.raises(InvalidArgumentError, match=rf"where: +{kind.__name__}\.v"):
            write(form, kind, wrong)


def test_a_oneof_and_the_keys_of_a_map() -> None:
    described = file(
        Event={
            "opened": KINDS.TYPE_INT64, "closed": KINDS.TYPE_STRING,
            "SeenEntry": {"key": KINDS.TYPE_INT32, "value": KINDS.TYPE_INT64}, "seen": ["acme.Event.SeenEntry"],
        }
    )  # fmt: skip
    message = described.message_type[0]
    message.oneof_decl.add(name="what")
    message.field[0].oneof_index = message.field[1].oneof_index = 0
    form = ProtobufFormat(own_registry(), classes(described)["Event"])

    class Event(NamedTuple):
        opened: int | None
        closed: str | None
        seen: dict[int, int]

    class Closed(NamedTuple):
        closed: str

    values = [Event(1, None, {-(2**31): 1}), Event(None, "", {}), Event(None, None, {})]
    encoded = write(form, Event, *values)
    assert read(form, Event, *encoded) == values
    for wrong, reason in (
        (Event(1, "", {}), r"one of opened and closed, not both(.|\n)*Event\.closed"),
        (Event(None, "", {2**31: 1}), r"beyond int32(.|\n)*Event\.seen\{key\}"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            write(form, Event, wrong)
    opened, closed, neither = read(form, Closed, *encoded)
    assert closed == Closed("")  # another branch is no empty text
    assert [each.field for each in (opened, neither)] == ["Closed.closed"] * 2


def test_a_map_field_of_source_counts_among_the_messages_within_its_own() -> None:
    source = """
        syntax = "proto3"; package acme;
        message Outer {
            map<string, int64> counts_by_name = 1;
            string map = 2;
            message Inner { int64 n = 1; }
            oneof either { Inner one = 3; }
        }
    """
    file = parse_protobuf(source).descriptor
    names = ["acme.Outer", "acme.Outer.CountsByNameEntry", "acme.Outer.Inner"]
    assert [message_at(file, place) for place in ([0], [0, 0], [0, 1])] == names
    assert place_of(file, "acme.Outer.Inner") == (0, 1)
