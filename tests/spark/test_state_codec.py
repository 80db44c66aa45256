"""State as bytes: what comes back, what is refused, and how a class may change."""

from __future__ import annotations

import io
import struct
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from fractions import Fraction
from threading import Lock
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from windrow.calls.attributes import attributes_of
from windrow.errors import CheckpointError, IncompatibleStateError, UnsupportedOperationError, WindrowError
from windrow.sources import MalformedRecord
from windrow.windows import GlobalWindow, TimeWindow
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.state.model import GrowingList, KeyState, OperatorState, StoredList, WindowEntry
from windrow_runtime.operators.state.time_to_live import TtlTimer
from windrow_spark.exchange.classes import register_classes, state_codec
from windrow_spark.storage.group_record import GroupState, StepRecord
from windrow_spark.storage.packed import compress, decompress
from windrow_spark.storage.page_codec import PageCodec
from windrow_spark.storage.values import StateCodec

FINGERPRINT = bytes(range(16))


class Point(NamedTuple):
    x: int
    y: float | None


@dataclass
class Sum:
    total: float = 0.0
    parts: tuple[int, ...] = ()


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Rights(Flag):
    READ = 1
    WRITE = 2


class Same:
    """Compares by attributes."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and attributes_of(other) == attributes_of(self)

    __hash__ = None  # type: ignore[assignment]  # it changes


class Sketch(Same):
    """Not a record: its constructor takes nothing of what it holds."""

    def __init__(self) -> None:
        self.counts = {1: 2}


class Callable(Same):
    """Its instances have no name, though they can be called."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __call__(self) -> object:
        return self.held


class Slotted(Same):
    __slots__ = ("empty", "held")

    def __init__(self, held: object) -> None:
        self.held = held


@dataclass(frozen=True, slots=True)
class Checked:
    """A dataclass whose constructor does more than set fields."""

    low: int
    span: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "span", self.low * 2)


class Keyed(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    number: int = 0


class Tags(list[str]):
    """A list with an attribute."""

    source = ""


class Named(Point):
    """A named tuple with an attribute."""

    note: str


class Euros(int):
    pass


@dataclass
class Meeting:
    start: datetime
    daily: time


def tags(*held: str, source: str) -> Tags:
    made = Tags(held)
    made.source = source
    return made


BERLIN = ZoneInfo("Europe/Berlin")
CLASSES: tuple[type[Any], ...] = (
    *(Point, Sum, Color, Level, Rights, Sketch, Callable, Slotted, Checked, Keyed, Tags, Named, Euros, Meeting),
)
KNOWN = [UserClass(kind, {}) for kind in CLASSES]
register_classes(KNOWN)
CODEC = StateCodec(KNOWN)

ZONES = st.none() | st.sampled_from(
    [UTC, timezone(timedelta(hours=-3)), timezone(timedelta(0), "Zulu"), BERLIN, ZoneInfo("UTC")]
)
# Lone surrogates are among the characters, and ints of any length, and every bit of floats.
texts = st.text(st.characters(exclude_categories=[]), max_size=9)
floats = st.binary(min_size=8, max_size=8).map(lambda data: float(struct.unpack("d", data)[0]))
ints = st.integers() | st.integers(-(2**70), 2**70) | st.integers(1, 300).map(lambda bits: 2**bits)
scalars = st.none() | st.booleans() | ints | floats | texts | st.binary(max_size=9)
hashable = (
    scalars
    | st.datetimes(timezones=ZONES)
    | st.datetimes(timezones=ZONES).map(lambda moment: moment.replace(fold=1))
    | st.dates()
    | st.times(timezones=ZONES)
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.sampled_from([Decimal("NaN123"), Decimal("-0.00"), Decimal("Infinity"), Decimal("1E+999")])
    | st.fractions()
    | st.uuids()
    | st.builds(uuid.UUID, int=st.integers(0, 2**128 - 1), is_safe=st.sampled_from(uuid.SafeUUID))
    | st.builds(complex, floats, floats)
    | st.builds(range, st.integers(), st.integers(), st.integers(1, 9))
    | st.sampled_from([*Color, *Level, *Rights, Rights.READ | Rights.WRITE, Rights(0)])
    | st.sampled_from([BERLIN, UTC, int, Decimal, Point, GlobalWindow()])
    | st.builds(Point, st.integers(), floats | st.none())
    | st.builds(Keyed, name=texts, number=st.integers(-(2**70), 2**70))
    | st.builds(Checked, st.integers())
    | st.builds(Euros, st.integers())
    | st.builds(
        lambda start, size: TimeWindow(start, start + size), st.integers(-(2**63), 2**62), st.integers(0, 2**62)
    )
)
values = st.recursive(
    hashable | st.binary(max_size=9).map(bytearray) | st.builds(Sketch),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.lists(inner).map(GrowingList)
        | st.dictionaries(hashable, inner)
        | st.dictionaries(texts, inner).map(OrderedDict)
        | st.dictionaries(hashable, inner).map(lambda held: defaultdict(list, held))
        | st.dictionaries(texts, inner).map(Counter)
        | st.builds(deque, st.lists(inner), st.none() | st.integers(0, 4))
        | st.frozensets(hashable)
        | st.sets(hashable)
        | st.builds(Sum, floats, st.lists(st.integers()).map(tuple))
        | st.builds(Callable, inner)
        | st.builds(Slotted, inner)
        | st.builds(lambda held, source: tags(*held, source=source), st.lists(texts), texts)
    ),
    max_leaves=12,
)


def back(column: list[Any], codec: StateCodec = CODEC) -> list[Any]:
    return codec.loads(codec.dumps(column))


def exact(value: Any) -> Any:
    """What tells a value from every other one: its class, all bits of its floats, and the order in dicts."""
    kind: Any = type(value)
    if isinstance(value, Enum) or kind in {range, ZoneInfo, timezone, type}:
        return kind, repr(value)
    if kind is float:
        return kind, struct.pack("d", value)
    if kind is complex:
        return kind, struct.pack("dd", value.real, value.imag)
    if isinstance(value, (set, frozenset)):
        return kind, Counter(map(exact, value))
    if isinstance(value, dict):
        factory = getattr(value, "default_factory", None)
        return kind, factory, tuple((exact(key), exact(held)) for key, held in value.items())
    if isinstance(value, (list, tuple, deque)):
        parts = tuple(map(exact, value))
        return kind, getattr(value, "maxlen", None), parts, exact(getattr(value, "__dict__", {}) or None)
    if isinstance(value, (datetime, time)):
        return kind, value.isoformat(), value.fold, repr(value.tzinfo)
    if isinstance(value, uuid.UUID):
        return kind, value.hex, value.is_safe
    if isinstance(value, msgspec.Struct):
        return kind, exact(msgspec.structs.astuple(value))
    if isinstance(value, (Same, Sum, Checked, Meeting)):
        return kind, exact(attributes_of(value))
    return kind, bytes(value) if kind is bytearray else repr(value)


@given(st.lists(values))
@examples(100)
def test_every_value_comes_back_exactly(column: list[Any]) -> None:
    assert exact(back(column)) == exact(column)


@given(values, st.integers(1, 70))
@examples(100)
def test_columns_of_one_class_come_back_exactly(value: Any, count: int) -> None:
    column = [value] * count
    assert exact(back(column)) == exact(column)


@pytest.mark.parametrize(
    "column",
    [
        [1, 2**80, True],
        [Counter(a=2), Counter()],
        [OrderedDict(b=1, a=2)],
        [uuid.UUID(int=5), None],
        [Decimal("1.50")],
        [date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))],
        [Sketch(), None, Sketch()],
        [(), ()],
        [[Sum(1.0, (1, 2))], []],
        [{"a": [Color.RED]}, {"b": {1: Point(1, None)}}],
        [range(3), range(10**12, 0, -7)],
        [Fraction(-3, 7), Fraction(2)],
        [defaultdict(list, a=[1]), defaultdict(int)],
        [bytearray(b"ab")],
        [GrowingList([1, "a"]), GrowingList()],
        [GlobalWindow(), TimeWindow(1, 2), TtlTimer("last", 5), MalformedRecord("x", "y", "z")],
        [Callable([1]), Callable({})],
        [datetime(2020, 1, 1, tzinfo=BERLIN), datetime(2020, 7, 1, tzinfo=ZoneInfo("America/New_York"))],
        [datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)],
        [time(9, 30, tzinfo=BERLIN), time(9, 30)],
        [(1, datetime(2020, 1, 1, tzinfo=BERLIN))],
        [Meeting(datetime(2020, 1, 1, tzinfo=BERLIN), time(9, tzinfo=BERLIN))],
        [BERLIN],
        # Classes themselves.
        [int, str, Fraction, ZoneInfo, Decimal, Point],
        [Callable([int, Decimal("1e99"), str, Fraction, Fraction(1, 2), Sum(1.0), BERLIN, ZoneInfo, Color.RED])],
        [defaultdict(int, {Decimal("1.5"): 3}), defaultdict(str, a="b"), defaultdict(Fraction, a=Fraction(1, 3))],
        [deque([1, Fraction(1, 2)], 3), deque()],
        [complex(1, -2), 1j],
        [uuid.SafeUUID.safe],
    ],
)
def test_more_values_come_back(column: list[Any]) -> None:
    assert back(column) == column
    assert exact(back(column)) == exact(column)


def test_a_page_holds_times_of_a_zone() -> None:
    key = datetime(2020, 7, 1, tzinfo=BERLIN)
    window = TimeWindow(0, 1)
    entry = WindowEntry(GrowingList([(key, 1)]))
    state = OperatorState()
    state.keys[key] = KeyState({window: entry}, [window], 1, {"daily": time(9, tzinfo=BERLIN)})
    pages = PageCodec(CODEC)
    found = pages.load(pages.dump(state, lambda data: 1), NoSegments())
    (name,) = found.keys
    assert isinstance(name, datetime)
    assert name.tzinfo is BERLIN
    assert found.keys[key].state == {"daily": time(9, tzinfo=BERLIN)}
    assert list(found.keys[key].windows[window].contents) == [(key, 1)]


def test_a_zone_without_a_place_in_the_database_is_told() -> None:
    # One transition-free zone, as a file holds it: version 1, one type of local time, "UTC".
    file = b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + bytes(6) + b"UTC\0"
    for key in (None, "Europe/Berlin"):
        zone = ZoneInfo.from_file(io.BytesIO(file), key)
        with pytest.raises(UnsupportedOperationError, match="cannot be stored"):
            CODEC.pack([time(9, tzinfo=zone)])


def test_a_stored_list_keeps_its_segments() -> None:
    class Reader:
        def read_segment(self, number: int) -> list[Any]:
            return [number, -number]

    stored = StoredList(Reader(), (4, 7), ["tail"])
    (found,) = CODEC.loads(CODEC.dumps([stored]), Reader())
    assert list(found) == [4, -4, 7, -7, "tail"]


@pytest.mark.parametrize(
    ("codec", "held"), [(CODEC, Lock()), (CODEC, open), (state_codec(KNOWN, allow_pickled=True), Lock())]
)
def test_a_value_that_cannot_be_stored_is_told(codec: StateCodec, held: object) -> None:
    with pytest.raises(UnsupportedOperationError, match=r"cannot be stored|the plan does not name"):
        codec.pack([Callable(held)])


def test_a_value_that_holds_itself_is_told() -> None:
    state = OperatorState()
    itself: list[Any] = []
    itself.append(itself)
    state.keys["a"] = KeyState(state={"value": itself})
    with pytest.raises(UnsupportedOperationError, match="holds itself"):
        PageCodec(CODEC).dump(state, lambda data: 1)


def test_texts_that_repeat_are_stored_once_and_are_one_object() -> None:
    for different in (2, 300):
        column = [f"sensor {number % different} of a long name" for number in range(3_000)]
        assert len(CODEC.dumps(sorted(column))) < different * 30 + 4 * len(column) + 50
        found = back(sorted(column))
        assert found == sorted(column)
        assert len(set(map(id, found))) == different


def test_a_fraction_that_is_too_long_is_told() -> None:
    with pytest.raises(UnsupportedOperationError, match="too long to be stored"):
        CODEC.pack([Fraction(1 << 200_000, 3)])


def test_a_class_that_pickles_in_its_own_way_needs_consent() -> None:
    class Own:
        def __init__(self, held: int) -> None:
            self.held = held

        def __reduce__(self) -> tuple[Any, ...]:
            return Own, (self.held,)

    class Derived(OrderedDict[str, int]):
        pass

    for value in (Own(3), Derived(a=1)):
        known = [UserClass(type(value), {})]
        with pytest.raises(UnsupportedOperationError, match="cannot be stored by its attributes") as caught:
            StateCodec(known).pack([value])
        assert "allow_pickled_state=True" in str(caught.value.hint)
        (found,) = back([value], state_codec(known, allow_pickled=True))
        assert type(found) is type(value)
        assert vars(found) == vars(value)


def test_a_member_that_was_removed_is_told() -> None:
    packed = CODEC.pack([Color.RED, Color.BLUE])

    class Fewer(Enum):
        RED = "red"

    Fewer.__qualname__ = "Color"
    with pytest.raises(IncompatibleStateError, match="do not fit the class as it is now") as caught:
        StateCodec([UserClass(Fewer, {})]).unpack(packed)
    assert "BLUE" in str(caught.value.given)


class NoSegments:
    def read_segment(self, number: int) -> list[Any]:
        raise AssertionError(number)


def test_few_bytes_do_not_fill_the_memory() -> None:
    # 64 MiB of zeros: what is written so is not compressed, and what is compressed so is not ours.
    zeros = bytes(64 << 20)
    kept = compress(zeros)
    assert kept[4:] == zeros
    assert decompress(kept) == zeros
    bomb = len(zeros).to_bytes(4, "little") + pa.Codec("zstd").compress(zeros, asbytes=True)
    with pytest.raises(CheckpointError, match="damaged"):
        decompress(bomb)


def test_a_class_that_the_plan_does_not_name_is_refused_when_it_is_stored() -> None:
    @dataclass
    class Unknown:
        value: int

    with pytest.raises(UnsupportedOperationError, match="the plan does not name") as caught:
        CODEC.pack([Unknown(1)])
    assert "Unknown" in str(caught.value.given)
    assert "allow_pickled_state=True" in str(caught.value.hint)
    allowing = state_codec(KNOWN, allow_pickled=True)
    assert back([Unknown(1), 5], allowing) == [Unknown(1), 5]
    with pytest.raises(IncompatibleStateError, match="does not know"):
        CODEC.unpack(allowing.pack([Unknown(1)]))


def of_module(name: str, qualified: str = "Order") -> type[Any]:
    """A class that another version of a program has in a module of this name."""
    fields = {"__module__": name, "__qualname__": qualified, "__annotations__": {"value": int}}
    return dataclass(type("Order", (), fields))


def classes(*kinds: type[Any]) -> list[UserClass]:
    return [UserClass(kind, {"value": int}) for kind in kinds]


@pytest.mark.parametrize("allow_pickled", [False, True])
def test_a_class_that_moved_is_found_by_its_name(allow_pickled: bool) -> None:
    main, moved = of_module("__main__"), of_module("program")
    stored = state_codec(classes(main), allow_pickled=allow_pickled).pack([main(1), main(2)])
    assert state_codec(classes(moved), allow_pickled=allow_pickled).unpack(stored) == [moved(1), moved(2)]
    longer = of_module("jobs.program")
    stored_by_path = state_codec(classes(longer), allow_pickled=allow_pickled).pack([longer(3)])
    assert state_codec(classes(moved), allow_pickled=allow_pickled).unpack(stored_by_path) == [moved(3)]
    renamed = of_module("program_v2")  # its file has another name by now
    assert state_codec(classes(renamed), allow_pickled=allow_pickled).unpack(stored_by_path) == [renamed(3)]
    others = classes(moved, of_module("another"))  # nobody knows which of the two it is
    with pytest.raises(IncompatibleStateError, match="does not know"):
        state_codec(others, allow_pickled=allow_pickled).unpack(stored)
    with pytest.raises(IncompatibleStateError, match="does not know"):
        state_codec(classes(of_module("__main__", "Inner.Order")), allow_pickled=allow_pickled).unpack(stored)


def test_a_pickled_class_that_moved_is_found_by_its_name() -> None:
    class Pickled:
        def __init__(self, value: int) -> None:
            self.value = value

        def __reduce__(self) -> tuple[Any, ...]:
            return type(self), (self.value,)

    Pickled.__module__, Pickled.__qualname__ = "__main__", "Pickled"
    moved = type("Pickled", (Pickled,), {"__module__": "program", "__qualname__": "Pickled"})
    stored = state_codec(classes(Pickled), allow_pickled=True).pack([Pickled(7)])
    (read,) = state_codec(classes(moved), allow_pickled=True).unpack(stored)
    assert (type(read), read.value) == (moved, 7)
    with pytest.raises(IncompatibleStateError, match="does not know"):
        state_codec(classes(of_module("program")), allow_pickled=True).unpack(stored)


@given(st.binary(max_size=2000))
def test_compressed_bytes_come_back(data: bytes) -> None:
    assert decompress(compress(data)) == data


def test_group_state_comes_back() -> None:
    state = GroupState(-5, 11, 17)
    for number, name in enumerate(["a.1.window", "ä"]):
        record = state.record_of(name)
        assert record.slot == number
        record.inline = b"x" * 300 * number
        record.shared, record.working, record.seen = b"shared", b"working", b"seen"
        record.pages, record.size = 2, 300
        record.events.append(-7)
        record.clocks.append(9)
    del state.steps["a.1.window"]
    assert state.record_of("again").slot == 0
    assert GroupState.load(state.dump(FINGERPRINT), FINGERPRINT) == state
    assert GroupState.load(GroupState().dump(FINGERPRINT), FINGERPRINT) == GroupState()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda data: b"", CheckpointError, "was not written by windrow"),
        (lambda data: b"\x80\x05" + data[2:], CheckpointError, "state was not written by windrow"),
        (lambda data: data[:4] + b"\xff\x00" + data[6:], IncompatibleStateError, "unknown format version"),
        (lambda data: data[:6] + b"other plan of 16" + data[22:], IncompatibleStateError, "belongs to another plan"),
        (lambda data: data[:-1], CheckpointError, r"damaged|cut off"),
        (lambda data: data + b"zz", CheckpointError, r"cut off|damaged"),
    ],
)
@pytest.mark.parametrize("size", [3, 3000])
def test_state_that_is_not_ours_is_refused(change: Any, error: type[WindrowError], message: str, size: int) -> None:
    state = GroupState(1, 9, 2, {"step": StepRecord(0, 0, 0, 3, b"", bytes(size))})
    with pytest.raises(error, match=message):
        GroupState.load(change(state.dump(FINGERPRINT)), FINGERPRINT)
