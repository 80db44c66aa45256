"""State bytes that are damaged, or written to do harm: refused at once, and the process lives on."""

from __future__ import annotations

import ast
import base64
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import time
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, make_dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.errors import CheckpointError
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.watermarks import WatermarkGenerator, WatermarkOutput
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.state.model import GrowingList, KeyState, OperatorState, WindowEntry
from windrow_runtime.operators.topology import Topology
from windrow_spark.checkpoint.stored_file import StoredFile
from windrow_spark.clock import ClockFiles, SeenTimestamps
from windrow_spark.clock_keeper import ClockKeeper
from windrow_spark.columnar.state import dump_rows, load_rows
from windrow_spark.storage import values as state_codec
from windrow_spark.storage.packed import Packed, decode, decompress, encode, packed
from windrow_spark.storage.page_codec import PageCodec, keys_in
from windrow_spark.storage.values import StateCodec

# Any in this module: bytes lead to values of every type.


@dataclass(frozen=True)
class Reading:
    sensor: str
    celsius: float


class Peak(NamedTuple):
    at: int
    celsius: float


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Plain:
    kept = "as it was"

    def __init__(self) -> None:
        self.held = 1


class Tags(list[str]):
    pass


CLASSES: Final[tuple[type[Any], ...]] = (Reading, Peak, Color, Plain, Tags)
CODEC: Final = StateCodec([UserClass(kind, {}) for kind in CLASSES])
PAGES: Final = PageCodec(CODEC)
MEMORY: Final = 2 << 30
"""Of addresses, most of which are those of libraries."""
PRIME: Final = 2**61 - 1
"""The hash of an int is its remainder."""


class NoSegments:
    def read_segment(self, number: int) -> list[Any]:
        raise AssertionError(number)


def read(data: bytes) -> list[Any]:
    return CODEC.loads(data, NoSegments())


def load_page(plain: bytes) -> OperatorState:
    return PAGES.load(bytes(4) + plain, NoSegments())  # not compressed


def dumped(state: OperatorState) -> bytes:
    """A page as it is written, before it is compressed."""
    return decompress(PAGES.dump(state, lambda data: 1))


def pages() -> Iterator[bytes]:
    """Pages of all kinds."""
    moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
    zone = ZoneInfo("Europe/Berlin")
    held: list[dict[str, Any]] = [
        {"d": Decimal(3), "f": Fraction(1, 3), "s": {1, 2}, "z": frozenset("ab"), "big": 2**70, "odd": "\ud800"},
        {"c": Color.RED, "p": Peak(1, 2.5), "o": Plain(), "t": Tags("ab"), "b": b"x", "a": bytearray(b"y")},
        {"w": moment, "n": datetime(2026, 1, 1), "z": moment.astimezone(zone), "d": date(2026, 1, 1)},
        {"u": UUID(int=5), "i": 1j, "r": range(5), "C": Counter("aab"), "O": OrderedDict(a=1)},
        {"D": defaultdict(list, a=[1]), "q": deque([1], 3), "k": Decimal, "x": timedelta(1), "l": [None, 1, "a"]},
    ]
    state = OperatorState()
    for number, cells in enumerate(held):
        windows = [TimeWindow(0, number), TimeWindow(5, number + 9)]
        entries = [WindowEntry(GrowingList([Reading("a", 1.5), Reading("b", 2.5)])), WindowEntry((1, 2.5), 3)]
        key = f"key {number}"
        state.keys[key] = KeyState(dict(zip(windows, entries, strict=True)), windows, 3, cells)
        state.event_timers.register(key, windows[0], number)
        state.processing_timers.register(key, None, number)
    yield dumped(state)
    state = OperatorState()
    state.table_size = 10
    for start in range(3):
        state.tables[start * 10] = {number: (number, number / 3) for number in range(start, 9)}
    yield dumped(state)
    yield page_of_sessions()


def page_of_sessions() -> bytes:
    """One session of a key, two of another, and a key that has a timer alone."""
    state = OperatorState()
    state.sessions = {"a": [0, 10, (1, 0.5)], "b": [5, 15, (2, 1.5), 20, 30, (3, 2.5)]}
    state.event_timers.register("c", TimeWindow(0, 1), 0)
    return dumped(state)


@given(st.binary(max_size=200))
@examples(60)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for function in (read, load_page, PAGES.load_shared, lambda data: PAGES.load(data, NoSegments())):
        try:
            function(data)
        except CheckpointError:
            continue


NAMES: Final = [
    *(f"{kind.__module__}:{kind.__qualname__}" for kind in CLASSES),
    *("windrow.windows.window:TimeWindow", "windrow.windows.window:GlobalWindow", "uuid:SafeUUID"),
    *("windrow.aggregates.sketches:HllSketch", "list", "Decimal", "RED", "at", "held", "__class__", "1e99"),
]
TAGS: Final = [*state_codec._READERS, "page", "other"]
lengths = st.lists(st.integers(0, 9), max_size=4)
data = (
    st.binary(max_size=24)
    | lengths.map(lambda numbers: array("I", numbers).tobytes())
    | lengths.map(lambda numbers: array("q", numbers).tobytes())
)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text() | st.sampled_from(NAMES)
columns = st.recursive(
    st.builds(packed, st.sampled_from(TAGS), data, st.lists(scalars, max_size=4)),
    lambda inner: st.builds(
        packed, st.sampled_from(TAGS), data, st.lists(scalars, max_size=4), st.lists(inner, max_size=4)
    ),
    max_leaves=20,
)


@given(columns)
@examples(80)
def test_any_columns_are_read_or_refused(column: Packed) -> None:
    try:
        found = read(encode(column))
    except CheckpointError:
        return
    assert type(found) is list


def test_pages_that_were_damaged_are_read_or_refused() -> None:
    chance = random.Random(3)
    refused = 0
    slowest = 0.0
    for plain in pages():
        assert keys_in(load_page(plain))
        for _ in range(1_000):
            damaged = bytearray(plain)
            place = chance.randrange(len(plain))
            match chance.randrange(4):
                case 0:
                    del damaged[place:]
                case 1:
                    del damaged[place : place + chance.randrange(1, 9)]
                case 2:
                    damaged[place:place] = plain[chance.randrange(len(plain)) :][: chance.randrange(1, 30)]
                case _:
                    for _ in range(chance.choice([1, 1, 4])):
                        damaged[chance.randrange(len(plain))] = chance.randrange(256)
            start = time.thread_time()
            try:
                load_page(bytes(damaged))
            except CheckpointError:
                refused += 1
            slowest = max(slowest, time.thread_time() - start)
    assert 1_000 < refused < 3_000
    assert slowest < 1


def array_of(count: int, item: bytes = b"") -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + item


HEAD: Final = b"\x94\xa1v\xc4\x00"
"""The beginning of a column."""
MANY: Final = (1 << 32) - 1


def nested(depth: int) -> bytes:
    return b"\x94\xa1l\xc4\x00\x90\x91" * depth + b"\x94\xa1v\xc4\x00\x90\x90"


def colliding(count: int) -> list[int]:
    return [number * PRIME for number in range(1, count + 1)]


COLLIDING: Final = colliding(40_000)
KEYS: Final[dict[str, tuple[int, list[Any]]]] = {
    "ints": (1, COLLIDING),
    "floats and ints": (1, [*map(float, range(9)), *COLLIDING]),
    "fractions": (1, [Fraction(number, 1) for number in COLLIDING]),
    "decimals": (1, list(map(Decimal, COLLIDING))),
    "tuples": (1, [(number, "a") for number in COLLIDING]),
    "records": (1, [Peak(number, 1.5) for number in COLLIDING]),
    "many sets": (40, colliding(1_000)),
}
"""How many sets or dicts there are, and the keys of each."""


def collisions() -> Iterator[tuple[str, bytes]]:
    for name, (count, keys) in KEYS.items():
        flat = CODEC.pack(keys * count)
        sizes = array("I", [len(keys)] * count).tobytes()
        numbers = CODEC.pack([1] * len(keys) * count)
        for tag in ("s", "z"):
            yield f"{name}, {tag}", encode(packed(tag, sizes, columns=[flat]))
        dicts = packed("d", sizes, columns=[flat, numbers])
        yield f"{name}, d", encode(dicts)
        pairs = packed("l", sizes, columns=[packed("t", columns=[flat, numbers])])
        for tag in ("Counter", "OrderedDict"):
            yield f"{name}, {tag}", encode(packed(tag, columns=[dicts]))
            yield f"{name}, {tag} of pairs", encode(packed(tag, columns=[pairs]))


def shared(tag: str, places: bytes) -> bytes:
    """A set of a tuple that holds the same tuple twice, and so on: its hash would take 2^60 steps."""
    column = CODEC.pack([1])
    for _ in range(60):
        both = packed(tag, places, columns=[column])
        column = packed("T", array("I", [2]).tobytes(), columns=[both])
    return encode(packed("s", array("I", [1]).tobytes(), columns=[column]))


HARMFUL: Final = {
    "a tuple that is shared": shared("w", bytes(2)),
    "a tuple that is shared by longer numbers": shared("W", bytes(8)),
    "nested too deeply": nested(300_000),
    "nested scalars": HEAD + b"\x91" * 1_000_000,
    "2^32 scalars": HEAD + array_of(MANY),
    "2^32 columns": HEAD + b"\x90" + array_of(MANY),
    "2^32 bytes": b"\x94\xa1v\xc6\xff\xff\xff\xff",
    "text of 2^32 bytes": HEAD + b"\x91\xdb\xff\xff\xff\xff",
    "an extension of 2^32 bytes": HEAD + b"\x91\xc9\xff\xff\xff\xff\x01",
    "a map": HEAD + b"\x91\xdf" + (40_000).to_bytes(4, "big") + msgspec.msgpack.encode(list(range(40_000))),
    "a pickle": pickle.dumps([1]),
    "a column of three parts": b"\x93\xa1v\xc4\x00\x90",
    "a column of five parts": HEAD + b"\x90\x90\x90",
    "something behind the end": HEAD + b"\x90\x90\x90",
    "nothing": b"",
    "a list in 2^32 pieces": encode(packed("l", b"\xff\xff\xff\xff", columns=[CODEC.pack([1])])),
    "columns of other lengths": encode(packed("t", columns=[CODEC.pack([1]), CODEC.pack([1, 2])])),
    "a fraction that takes long": encode(
        packed("Fraction", columns=[CODEC.pack([3**3_000_000]), CODEC.pack([2**4_000_000 + 1])])
    ),
    "a number as text": encode(packed("Decimal", columns=[CODEC.pack([1.5])])),
    "a float as a fraction": encode(packed("Fraction", columns=[CODEC.pack([0.1]), CODEC.pack([1])])),
    **{
        f"zone {key!r:.30}": encode(packed("ZoneInfo", columns=[CODEC.pack([key])]))
        for key in ("../../etc/passwd", "/etc/passwd", "Europe/../UTC", "Europe", "x/" * 100_000, "\0", "", 1, None)
    },
}


def attack_all() -> None:
    """Called in a process of its own, which may not have much memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name, data in (*HARMFUL.items(), *collisions()):
        start = time.process_time()
        try:
            read(data)
        except CheckpointError:
            seconds = time.process_time() - start
            print(f"{name}: {'refused' if seconds < 1 else f'refused after {seconds} s'}")
        else:
            print(f"{name}: read")


def flip_all() -> None:
    """Called in a process of its own: streams of columns, each cut off or with some bits turned."""
    chance = random.Random(7)
    columns = {
        "text": pa.array([f"k{n}" for n in range(60)]),
        "word": pa.array(["a", "b", None] * 20).dictionary_encode(),
        "list": pa.array([[n] * (n % 4) for n in range(60)], pa.list_(pa.int64())),
        "record": pa.array([{"a": n / 3, "b": None if n % 3 else "x"} for n in range(60)]),
        "map": pa.array([[("a", 1)]] * 60, pa.map_(pa.string(), pa.int32())),
        "decimal": pa.array(range(60), pa.decimal128(20)),
    }
    rows = pa.record_batch(columns)
    counts = Counter[str]()
    for number in range(2_000):
        data = bytearray(dump_rows(rows, compress=number % 2 == 0))
        if number % 10 == 0:
            del data[chance.randrange(len(data)) :]
        else:
            for _ in range(chance.choice([1, 1, 4])):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            load_rows(bytes(data), rows.schema).to_pylist()
        except CheckpointError:
            counts["refused"] += 1
        else:
            counts["read"] += 1
    print(sorted(counts.items()))


def in_a_process(function: str) -> list[str]:
    """What a function of this module prints there."""
    code = f"import test_hostile_state; test_hostile_state.{function}()"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        # The tests' Spark session sets this as well, where there is one.
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout.splitlines()


def test_bytes_written_to_do_harm_are_refused_at_once() -> None:
    told = in_a_process("attack_all")
    names = [*HARMFUL, *(name for name, _ in collisions())]
    assert sorted(told) == sorted(f"{name}: refused" for name in names)


def test_columns_that_were_damaged_are_refused_by_a_process_that_lives_on() -> None:
    (told,) = in_a_process("flip_all")
    # A bit that is turned in a number or in a text makes another number, and another text.
    counts = dict(ast.literal_eval(told))
    assert counts["refused"] > 500
    assert counts["refused"] + counts["read"] == 2_000


def test_keys_of_a_page_that_collide_are_refused_at_once() -> None:
    state = OperatorState()
    windows = {TimeWindow(0, number): WindowEntry(1) for number in range(10_000)}
    state.keys["a"] = KeyState(windows, [], 1)
    for number in range(10_000):
        state.tables.setdefault(0, {})[number] = 1
        state.event_timers.register("a", TimeWindow(0, number), 1)
    genuine = dumped(state)
    assert len(load_page(genuine).tables[0]) == 10_000
    crowded = [tuple.__new__(TimeWindow, (0, number)) for number in colliding(10_000)]  # beyond what the class takes
    for place, keys in (("keys", colliding(10_001)), ("windows", crowded), ("timers", crowded)):
        page = decode(genuine)
        _, _, _, held, events, _ = page.columns
        column, number = {"keys": (page, 0), "windows": (held, 3), "timers": (events, 0)}[place]
        column.columns = [*column.columns]
        column.columns[number] = CODEC.pack(keys)
        data = encode(page)
        start = time.thread_time()
        with pytest.raises(CheckpointError, match="different hashes"):
            load_page(data)
        assert time.thread_time() - start < 1


@pytest.mark.parametrize("is_old", [False, True], ids=["new", "old"])
@pytest.mark.parametrize(
    ("place", "values"),
    [(0, [1, 1]), (0, [0, 3]), (0, [4, -1]), (0, [3]), (0, [1.0, 2.0]), (1, [0, 5]), (2, [10, 15, "c"]), (3, [1])],
)
# Any: values of every type.
def test_sessions_of_a_page_that_are_not_as_many_are_refused(place: int, values: list[Any], is_old: bool) -> None:
    page = decode(page_of_sessions())
    column = page.columns[2]
    column.columns = [*column.columns]
    if is_old:
        # Each key once, with the number of its sessions.
        column.data = array("I", [0, 1]).tobytes()
        column.columns.insert(0, CODEC.pack([1, 2]))
    state = load_page(encode(page))
    state.sessions_from_columns()
    assert state.sessions == {"a": [0, 10, (1, 0.5)], "b": [5, 15, (2, 1.5), 20, 30, (3, 2.5)]}
    if not is_old and place:
        place -= 1
    column.columns[place] = CODEC.pack(values)
    with pytest.raises(CheckpointError):
        load_page(encode(page))


@pytest.mark.parametrize(
    "keys",
    [
        colliding(1_000),
        [2**number for number in range(10_000)],
        [sign * 2.0**number for number in range(-1_000, 1_000) for sign in (1, -1)],
        [number << 40 for number in range(40_000)],
        [(x, y, z) for x in range(-20, 20) for y in range(-20, 20) for z in range(-20, 20)],
        [*range(-50_000, 50_000)],
        [f"key {number}" for number in range(50_000)],
    ],
    ids=["multiples", "powers of two", "floats", "low bits", "tuples", "ints", "texts"],
)
def test_keys_that_collide_now_and_then_are_read(keys: list[Any]) -> None:
    held: list[Any] = [set(keys), dict.fromkeys(keys, 1), set(keys)]
    for value in held:
        assert read(CODEC.dumps([value])) == [value]


def test_columns_of_some_hundred_levels_are_read() -> None:
    column = CODEC.pack([1])
    for _ in range(150):
        column = packed("t", columns=[column])
    (found,) = read(encode(column))
    for _ in range(150):
        (found,) = found
    assert found == 1


def test_long_names_are_no_sign_of_harm() -> None:
    # One record in each of 500 columns: the names of its class and of its fields stand in each.
    fields = [(f"{'long' * 40}_{number}", int) for number in range(9)]
    kind = make_dataclass("L" * 200, fields)
    codec = StateCodec([UserClass(kind, {})])
    columns = [codec.pack([kind(*range(9))]) for _ in range(500)]
    assert codec.unpack(packed("t", columns=columns)) == [(kind(*range(9)),) * 500]


@pytest.mark.parametrize("size", [0, 1, 31, 32, 255, 256, 65_535, 65_536, 1 << 20])
def test_whatever_we_write_is_read(size: int) -> None:
    # MessagePack counts lengths in one, two or four bytes, or beside the tag.
    for held in ("x" * size, b"y" * size, 1 << size % 70_000, "né" * size):
        column = [held, "", held, None, 1.5, True, -1, 70_000, 1 << 40, "end"]
        assert read(CODEC.dumps(column)) == column
    numbers = [*map(str, range(size))]
    assert read(CODEC.dumps(numbers)) == numbers


ONE: Final = CODEC.pack([1])
FOREIGN: Final = {
    "a record of this module": packed("r", scalars=[f"{__name__}:Unnamed", "field"], columns=[ONE]),
    "a record of windrow": packed(
        "r", scalars=["windrow_spark.keyed.processor:KeyGroupProcessor", "_packed"], columns=[ONE]
    ),
    "a node of a plan": packed("r", scalars=["windrow.plan.nodes:MapNode", "function"], columns=[ONE]),
    "a sink": packed("r", scalars=["windrow.sinks:WriterSink", "other"], columns=[ONE]),
    "a process": packed("r", scalars=["subprocess:Popen", "args"], columns=[CODEC.pack(["true"])]),
    "a function": packed("class", scalars=["os:system"]),
    "a builtin function": packed("class", scalars=["exec"]),
    "a path through a module": packed("class", scalars=["windrow.plan.pipeline:__builtins__.exec"]),
    "a record of attributes": packed("a", scalars=[f"{__name__}:Reading", "sensor"], columns=[ONE]),
    "an Enum of attributes": packed("a", scalars=[f"{__name__}:Color", "x"], columns=[ONE]),
    "a record that is an Enum": packed("r", scalars=[f"{__name__}:Color", "x"], columns=[ONE]),
    "an Enum that is a list": packed("E", scalars=["list"], columns=[CODEC.pack([10**12])]),
    "a plain value of a record": packed("b", scalars=[f"{__name__}:Reading"], columns=[ONE, CODEC.pack([{}])]),
    "a list of an int": packed("b", scalars=[f"{__name__}:Tags"], columns=[ONE, CODEC.pack([{}])]),
    "a factory that is an object": packed("defaultdict", columns=[CODEC.pack([{}]), ONE]),
    "a pickle": packed("P", pickle.dumps([1])),
}


@dataclass
class Unnamed:
    """A class that is in ``sys.modules``, and that the plan does not name."""

    field: int


@pytest.mark.parametrize("name", FOREIGN)
def test_no_other_class_is_found_and_none_in_another_way(name: str) -> None:
    with pytest.raises(CheckpointError, match=r"names a class that the plan does not know|damaged"):
        read(encode(FOREIGN[name]))


def test_attributes_are_those_of_the_object() -> None:
    names = ["__class__", "kept", "__dict__", "__init__"]
    column = packed(
        "a", scalars=[f"{__name__}:Plain", *names], columns=[CODEC.pack([Color]), CODEC.pack(["x"]), ONE, ONE]
    )
    (found,) = read(encode(column))
    assert type(found) is Plain
    assert Plain.kept == "as it was"
    assert callable(Plain.__init__)
    assert Color.RED.value == "red"


class Second(WatermarkGenerator[int]):
    """Remembers what it has seen."""

    def __init__(self) -> None:
        self.seen = 0
        self.color = Color.RED

    def on_event(self, element: int, timestamp: int, output: WatermarkOutput) -> None:
        self.seen += 1
        output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emits from on_event alone."""


class Command:
    """What an attacker would pickle."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.file}",)


ATTRIBUTES: Final = CODEC.pack([{"seen": 1}])
PROCESS: Final = packed("r", scalars=["subprocess:Popen", "args"], columns=[ONE])
MEMORIES: Final[dict[str, Callable[[Command], bytes]]] = {
    "a command": lambda command: pickle.dumps([{"seen": command}], 5),
    "a pickle in a column": lambda command: encode(packed("P", pickle.dumps([{"seen": command}], 5))),
    "a class of sys.modules": lambda command: encode(
        packed("d", array("I", [1]).tobytes(), columns=[CODEC.pack(["seen"]), PROCESS])
    ),
    "attributes of an Enum": lambda command: encode(
        packed("a", scalars=[f"{__name__}:Color", "RED"], columns=[ATTRIBUTES])
    ),
}


def test_a_clock_file_that_somebody_rewrote_runs_nothing(tmp_path: Path) -> None:
    stamped = from_source(CollectionSource([1])).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_generator(Second), timestamp=lambda element: element
    )
    windows = stamped.key_by(lambda element: 0, int).window(TumblingEventTimeWindows.of(timedelta(milliseconds=3)))
    plan = Topology(Pipeline("clock", windows.reduce(max).sink_to(CollectSink[int]())).steps)
    (step,) = (step.id for step in plan.timestamps)

    def end_batch(number: int) -> None:
        keeper = ClockKeeper(ClockFiles(tmp_path), plan, None, CODEC)
        keeper.end_batch(number, [SeenTimestamps(step, [number], [number])], ended=False)

    end_batch(0)
    written = (tmp_path / "1").read_bytes()
    clock = json.loads(written.partition(b"\n")[2])
    touched = tmp_path / "touched"
    for name, memory in MEMORIES.items():
        clock["trackers"][step][-1] = base64.b64encode(memory(Command(touched))).decode()
        StoredFile(tmp_path / "1", dict).write(clock)  # with the checksum, which has no secret
        with pytest.raises(CheckpointError, match=r"damaged|names a class that the plan does not know"):
            end_batch(1)
        assert not touched.exists(), name
    # As it was written, it is read.
    (tmp_path / "1").write_bytes(written)
    end_batch(1)
