"""State as bytes: what comes back, what is refused, and how a class may change."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import random
import struct
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from threading import Lock
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import CheckpointError, IncompatibleStateError, UnsupportedOperationError, WindrowError
from windrow.windows import GlobalWindow, TimeWindow
from windrow_runtime.codecs.compression import compress, decompress
from windrow_runtime.operators.state import KeyState, OperatorState, WindowEntry
from windrow_runtime.operators.stored_list import GrowingList, StoredList
from windrow_runtime.spark.classes import UserClass, register_classes
from windrow_runtime.spark.group_state import GroupState
from windrow_runtime.spark.page_codec import PageCodec
from windrow_runtime.spark.state_codec import StateCodec
from windrow_runtime.spark.step_record import StepRecord

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


class Sketch:
    """Not a record: its constructor takes nothing of what it holds."""

    def __init__(self) -> None:
        self.counts = {1: 2}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sketch) and other.counts == self.counts

    __hash__ = None  # type: ignore[assignment]  # it changes


class Callable:
    """Its instances have no name, though they can be called."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __call__(self) -> object:
        return self.held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Callable) and other.held == self.held

    __hash__ = None  # type: ignore[assignment]  # it changes


@dataclass
class Meeting:
    start: datetime
    daily: time


BERLIN = ZoneInfo("Europe/Berlin")
KNOWN = [UserClass(kind, {}) for kind in (Point, Sum, Color, Sketch, Callable, Meeting)]
register_classes(KNOWN)
CODEC = StateCodec(KNOWN)

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(
    scalars
    | st.datetimes(timezones=st.just(timezone.utc))
    | st.datetimes()
    | st.dates()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.sampled_from(Color)
    | st.builds(Point, st.integers(), st.floats(allow_nan=False) | st.none())
    | st.builds(Sum, st.floats(allow_nan=False), st.lists(st.integers()).map(tuple))
    | st.builds(TimeWindow, st.integers(), st.integers())
    | st.just(GlobalWindow()),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(), inner)
        | st.frozensets(scalars)
        | st.sets(scalars)
    ),
    max_leaves=12,
)


def back(column: list[Any], codec: StateCodec = CODEC) -> list[Any]:
    return codec.unpack(codec.loads(codec.dumps(codec.pack(column))))


def types_of(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value), [types_of(part) for part in value]
    if isinstance(value, dict):
        return type(value), [(types_of(key), types_of(part)) for key, part in value.items()]
    return type(value)


@given(st.lists(values))
def test_values_come_back_with_their_types(column: list[Any]) -> None:
    found = back(column)
    assert found == column
    assert types_of(found) == types_of(column)


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
        [GlobalWindow(), TimeWindow(1, 2)],
        [Callable([1]), Callable({})],
        [datetime(2020, 1, 1, tzinfo=BERLIN), datetime(2020, 7, 1, tzinfo=ZoneInfo("America/New_York"))],
        [datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)],
        [time(9, 30, tzinfo=BERLIN), time(9, 30)],
        [(1, datetime(2020, 1, 1, tzinfo=BERLIN))],
        [Meeting(datetime(2020, 1, 1, tzinfo=BERLIN), time(9, tzinfo=BERLIN))],
        [BERLIN],
        # Classes themselves, in values that pickle writes.
        [int, str, Fraction, ZoneInfo, Decimal, Point],
        [
            Callable(
                [int, Decimal("1e99"), str, Fraction, Fraction(1, 2), Sum(1.0), BERLIN, ZoneInfo, Color.RED]
            )
        ],
        [
            defaultdict(int, {Decimal("1.5"): 3}),
            defaultdict(str, a="b"),
            defaultdict(Fraction, a=Fraction(1, 3)),
        ],
        [deque([1, Fraction(1, 2)], 3), deque()],
        [complex(1, -2), 1j],
        [uuid.SafeUUID.safe],
    ],
)
def test_more_values_come_back(column: list[Any]) -> None:
    assert back(column) == column
    assert types_of(back(column)) == types_of(column)


def test_times_of_a_zone_come_back_with_their_zone() -> None:
    column = [datetime(2020, 7, 1, tzinfo=BERLIN), time(9, tzinfo=BERLIN)]
    found = back(column)
    assert [moment.tzinfo for moment in found] == [BERLIN, BERLIN]
    assert [moment.utcoffset() for moment in found] == [timedelta(hours=2), None]


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


def test_fractions_that_python_3_10_wrote_come_back() -> None:
    for text in ("3/4", "-3/4", "7"):
        assert CODEC.unpack(("p", _call("fractions", "Fraction", text))) == [Fraction(text)]


def test_a_stored_list_keeps_its_segments() -> None:
    class Reader:
        def read_segment(self, number: int) -> list[Any]:
            return [number, -number]

    stored = StoredList(Reader(), (4, 7), ["tail"])
    (found,) = CODEC.unpack(CODEC.loads(CODEC.dumps(CODEC.pack([stored]))), Reader())
    assert list(found) == [4, -4, 7, -7, "tail"]


class Run:
    """What an attacker would write: unpickling it runs a command."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("exit 3",)


def _call(module: str, name: str, argument: Any) -> bytes:
    """A pickle of a list with what ``module.name(argument)`` gives."""
    texts = (pickle.SHORT_BINUNICODE + bytes([len(text)]) + text.encode() for text in (module, name))
    call = b"".join(texts) + pickle.STACK_GLOBAL + _plain((argument,)) + pickle.REDUCE
    return b"\x80\x05" + pickle.EMPTY_LIST + call + pickle.APPEND + pickle.STOP


def _plain(value: Any) -> bytes:
    """The operations that make a value; without those that fill the memo, which windrow does not write."""
    return pickletools.optimize(pickle.dumps(value, 3))[2:-1]


def _nested(depth: int) -> Any:
    """Each level holds the one below twice, and takes few bytes."""
    column: Any = ("i", bytes(8))
    for _ in range(depth):
        column = ("t", b"", (column, column))
    return column


@pytest.mark.parametrize(
    "column",
    [
        ("p", pickle.dumps([Run()])),
        ("P", pickle.dumps([Run()])),
        ("p", pickle.dumps([Point(1, 2.0), os.system])),
        ("p", pickle.dumps([getattr])),
        ("r", "os:stat_result", ("st_mode",), (("v", [1]),)),
        ("e", "subprocess:Popen", ("v", ["true"])),
        ("?", b""),
        # Names that lead through windrow's own modules into others.
        ("p", _call("windrow_runtime.operators.state", "pickle.loads", pickle.dumps([1]))),
        ("p", _call("windrow.plan.pipeline", "__builtins__.exec", "1")),
        ("p", _call("windrow_runtime.operators.topology", "Topology", ())),
        ("p", _call("windrow.sinks", "FunctionSink.__init__.__globals__", ())),
        ("r", "windrow_runtime.operators.state:KeyState", ("windows",), (("v", [1]),)),
        ("r", "windrow.sinks:WriterSink", ("other",), (("v", [len]),)),
        ("e", f"{__name__}:Sketch", ("v", [1])),
        # Small numbers that make much.
        ("r", "builtins:bytearray", (), (("v", [10**12]),)),
        ("e", "builtins:list", ("v", [10**12])),
        ("p", _call("builtins", "bytearray", 10**12)),
        ("p", _call("builtins", "range", 10**12)),
        ("p", _call("fractions", "Fraction", "1e999999999")),
        ("l", (2**31).to_bytes(4, "little"), ("v", [])),
        ("r", f"{__name__}:Sum", (), ()),
        _nested(100),
    ],
)
def test_bytes_that_name_other_things_are_refused(column: Any) -> None:
    # What is damaged, and says so by no error of windrow's, is told by PageCodec.
    with pytest.raises(
        (CheckpointError, IncompatibleStateError), match=r"names a class that the plan|damaged|parts"
    ):
        CODEC.unpack(CODEC.loads(pickle.dumps(column)))


@pytest.mark.parametrize(
    ("codec", "held"), [(CODEC, Lock()), (CODEC, open), (StateCodec(KNOWN, allow_pickled=True), Lock())]
)
def test_a_value_that_cannot_be_pickled_is_told(codec: StateCodec, held: object) -> None:
    with pytest.raises(UnsupportedOperationError, match=r"cannot be stored|the plan does not name"):
        codec.pack([Callable(held)])


def test_a_value_that_holds_itself_is_told() -> None:
    state = OperatorState()
    itself: list[Any] = []
    itself.append(itself)
    state.keys["a"] = KeyState(state={"value": itself})
    with pytest.raises(UnsupportedOperationError, match="holds itself"):
        PageCodec(CODEC).dump(state, lambda data: 1)


def test_a_page_that_was_damaged_is_told() -> None:
    state = OperatorState()
    for number in range(8):
        window = TimeWindow(0, number)
        entry = WindowEntry(GrowingList([(1, 2, "x")]))
        held = {"d": Decimal(number), "f": Fraction(number, 3), "s": {number}}
        state.keys[number] = KeyState({window: entry}, [window], 3, held)
        state.event_timers.register(number, window, number)
        state.tables.setdefault(0, {})[number] = Point(number, None)
    pages = PageCodec(CODEC)
    plain = decompress(pages.dump(state, lambda data: 1))
    chance = random.Random(3)
    told = 0
    for _ in range(400):
        damaged = bytearray(plain)
        damaged[chance.randrange(len(plain))] = chance.randrange(256)
        try:
            pages.load(bytes(4) + damaged, NoSegments())  # not compressed
        except (CheckpointError, IncompatibleStateError):
            told += 1
    assert 200 < told < 400


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


@pytest.mark.parametrize("data", [b"", b"junk", pickle.dumps(Run()), pickle.dumps([1]), pickle.dumps(Point)])
def test_bytes_that_are_no_column_are_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="damaged"):
        CODEC.loads(data)


def test_a_class_that_the_plan_does_not_name_is_refused_when_it_is_stored() -> None:
    @dataclass
    class Unknown:
        value: int

    with pytest.raises(UnsupportedOperationError, match="the plan does not name") as caught:
        CODEC.pack([Unknown(1)])
    assert "Unknown" in str(caught.value.given)
    assert "allow_pickled_state=True" in str(caught.value.hint)
    allowing = StateCodec(KNOWN, allow_pickled=True)
    assert back([Unknown(1), 5], allowing) == [Unknown(1), 5]
    with pytest.raises(IncompatibleStateError, match="does not know"):
        CODEC.unpack(allowing.pack([Unknown(1)]))


def test_a_new_field_with_a_default_is_filled_in() -> None:
    @dataclass
    class Old:
        a: int
        b: str

    @dataclass
    class New:
        a: int
        extra: float = 1.5
        b: str = ""

    @dataclass
    class Needs:
        a: int
        b: str
        more: int

    for kind in (Old, New, Needs):
        kind.__qualname__ = "Evolving"
    old = [UserClass(Old, {})]
    register_classes(old)
    packed = StateCodec(old).pack([Old(1, "x"), Old(2, "y")])
    register_classes([UserClass(New, {})])
    assert StateCodec([UserClass(New, {})]).unpack(packed) == [New(1, b="x"), New(2, b="y")]
    register_classes([UserClass(Needs, {})])
    with pytest.raises(IncompatibleStateError, match="do not fit the class as it is now"):
        StateCodec([UserClass(Needs, {})]).unpack(packed)


@given(st.binary(max_size=2000))
def test_compressed_bytes_come_back(data: bytes) -> None:
    assert decompress(compress(data)) == data


def test_group_state_comes_back() -> None:
    state = GroupState(-5, 11, 17)
    for number, name in enumerate(["a.1.window", "ä"]):
        record = state.record_of(name)
        assert record.slot == number
        record.inline = b"x" * 300 * number
        record.shared = b"shared"
        record.sizes.append(300)
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
        (
            lambda data: data[:6] + b"other plan of 16" + data[22:],
            IncompatibleStateError,
            "belongs to another plan",
        ),
        (lambda data: data[:-1], CheckpointError, r"damaged|cut off"),
        (lambda data: data + b"zz", CheckpointError, r"cut off|damaged"),
    ],
)
@pytest.mark.parametrize("size", [3, 3000])
def test_state_that_is_not_ours_is_refused(
    change: Any, error: type[WindrowError], message: str, size: int
) -> None:
    state = GroupState(1, 9, 2, {"step": StepRecord(0, 0, 0, 3, b"", bytes(size))})
    with pytest.raises(error, match=message):
        GroupState.load(change(state.dump(FINGERPRINT)), FINGERPRINT)
