"""State bytes that are damaged, or written to do harm: refused at once, and the process lives on."""

from __future__ import annotations

import ast
import pickle
import pickletools
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import make_dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from windrow.errors import CheckpointError, IncompatibleStateError
from windrow_runtime.columnar.chunks import dump_rows, load_rows
from windrow_runtime.spark.classes import UserClass, register_classes
from windrow_runtime.spark.state_codec import StateCodec

CODEC: Final = StateCodec()
MEMORY: Final = 2 << 30
"""Of addresses, most of which are those of libraries."""

BEGIN: Final = b"\x80\x05"
DEEP: Final = b")" + b"\x85" * 300_000
DOUBLED: Final = b")" + b"\x94h\x00\x86" + b"".join(b"\x94h%c\x86" % n for n in range(1, 60))

REFUSED: Final = {
    "a memo of 64 GB": b"Nr\xff\xff\xff\xff.",
    "a memo of 16 GB, in text": b"Np1000000000\n.",
    "a number that is text": b"I" + b"9" * 100_000 + b"\n.",
    "a text of 2^62 bytes": b"\x8d" + (1 << 62).to_bytes(8, "little") + b".",
    "16 GB of bytes": b"\x8e" + (1 << 34).to_bytes(8, "little") + b".",
    "a number of 2 GB": b"\x8b\xff\xff\xff\x7f.",
    "a frame beyond the end": b"\x95" + (1 << 62).to_bytes(8, "little") + b"N.",
    "a frame that ends inside an operation": b"\x95\x03" + bytes(7) + b"B\x01\x00\x00\x00a0.",
    "a frame in a frame": b"\x95\x0b" + bytes(7) + b"\x95\x01" + bytes(7) + b"N0N.",
    "a tuple too deep for its hash": b"}" + DEEP + b"Ns\x85.",
    "a set of a tuple too deep": b"(" + DEEP + b"\x91\x85.",
    "a tuple whose hash takes years": b"}" + DOUBLED + b"Ns\x85.",
    "what is doubled": b")" + b"2\x86" * 60 + b"\x85.",
    "what is built": b")Nb\x85.",
    "a class": b"cbuiltins\nlist\n\x85.",
    "a class that is called": b"\x8c\x08builtins\x8c\x04list\x93)R\x85.",
    "something behind the end": b"N\x85.N",
    "no end": b"N\x85",
    "nothing": b"",
}


SAID_OF_OBJECTS: Final = {
    "a tuple too deep for its hash",
    "a set of a tuple too deep",
    "a tuple whose hash takes years",
    "what is built",
    "a class that is called",
}
"""What values of classes are written with too."""


def column(packed: object) -> bytes:
    return pickle.dumps(packed, 5)


def nested(depth: int, wrap: Callable[[object], object]) -> object:
    found: object = ("v", [1])
    for _ in range(depth):
        found = wrap(found)
    return found


def text(said: str) -> bytes:
    return b"\x8c%c" % len(said) + said.encode()


def tells(*arguments: object) -> bytes:
    """The operations that leave a tuple on the stack."""
    # Without those that fill the memo, which are not among the operations that windrow writes.
    return pickletools.optimize(pickle.dumps(arguments, 3))[2:-1]


def called(name: str, arguments: bytes) -> dict[str, bytes]:
    """A class that is called with arguments, in all the ways that bytes can say it: `module:name`, and operations."""
    persistent = text(name) + b"Q"
    plain = b"".join(map(text, name.split(":"))) + b"\x93"
    of_value = text(f"class {name}") + b"Q"
    ways = {"by id": persistent, "by name": plain, "as itself": of_value}
    calls = {f"{way}, called": named + arguments + b"R" for way, named in ways.items()}
    made = {f"{way}, made": named + arguments + b"\x81" for way, named in ways.items()}
    by_names = {f"{way}, made by names": named + arguments + b"}\x92" for way, named in ways.items()}
    return calls | made | by_names


HUGE: Final = 1 << 40
HUGE_DECIMAL: Final = text("decimal:Decimal") + b"Q" + tells("1e999999999") + b"R"
CALLS: Final = {
    "fractions:Fraction": [
        *(tells(text) for text in ("1e999999999", "1e-999999999", "1/0", "1/00", "-")),
        *(tells(1, "1e999999999"), tells(1, 0), tells(1.5, 2), tells()),
        HUGE_DECIMAL + b"\x85",
        HUGE_DECIMAL + b"K\x01\x86",
    ],
    "zoneinfo:ZoneInfo": [
        *(tells(key) for key in ("../../etc/passwd", "/etc/passwd", "Europe/../UTC", "Europe", "x" * 200)),
        *(tells(key) for key in ("x/" * 100_000, "\0", "\ud800", "", 1, HUGE, None)),
    ],
    "builtins:int": [HUGE_DECIMAL + b"\x85"],
    # The text of that tuple would be 2^60 long.
    "builtins:str": [DOUBLED + b"\x85", tells("a")],
    # Those that take a number as a length, if they were given at all.
    **{
        f"builtins:{name}": [tells(HUGE), tells("x", HUGE)]
        for name in ("bytes", "bytearray", "range", "memoryview")
    },
    **{f"builtins:{name}": [tells(HUGE)] for name in ("list", "tuple", "set", "frozenset", "dict")},
    **{f"collections:{name}": [tells(HUGE)] for name in ("Counter", "OrderedDict", "deque", "defaultdict")},
    **{
        f"datetime:{name}": [tells(HUGE, HUGE, HUGE)]
        for name in ("date", "datetime", "timedelta", "timezone")
    },
    "uuid:SafeUUID": [tells(HUGE)],
    "uuid:UUID": [tells(HUGE)],
    # To make classes, and to turn a number into an int on the way.
    "enum:Enum": [tells("X", "a b")],
    "enum:IntEnum": [b"(" + text("X") + b"}" + text("a") + HUGE_DECIMAL + b"st"],
}


COUNTER: Final = text("collections:Counter") + b"Q)R"
INT_ITSELF: Final = text("builtins:int") + b"Q"


def placed(method: str) -> bytes:
    """A counter in which int stands in the place of a method."""
    return COUNTER + b"}" + text(method) + INT_ITSELF + b"sb"


METHODS: Final = {
    "append": placed("append") + HUGE_DECIMAL + b"a",
    "appends": placed("append") + b"(" + HUGE_DECIMAL + b"e",
    "add": placed("add") + b"(" + HUGE_DECIMAL + b"\x90",
    "build": placed("__setstate__") + HUGE_DECIMAL + b"b",
}


def said_all() -> dict[str, bytes]:
    return {
        f"{name}, {number}, {way}": BEGIN + said + b"\x85."
        for name, all_arguments in CALLS.items()
        for number, arguments in enumerate(all_arguments)
        for way, said in called(name, arguments).items()
    } | {f"int as a method: {name}": BEGIN + said + b"\x85." for name, said in METHODS.items()}


LOOP: Final[list[object]] = []
LOOP.append(LOOP)
LONG: Final = "x" * 50_000
COLUMNS_REFUSED: Final = {
    "a list in itself": column(("v", LOOP)),
    "a tuple among scalars": column(("v", [(1, 2)])),
    "columns in a list, doubled": column(nested(60, lambda inner: ("t", b"", [inner, inner]))),
    "columns doubled": column(nested(60, lambda inner: ("t", b"", (inner, inner)))),
    "one text as the size of many": column(("t", b"", tuple(("t", LONG, ()) for _ in range(5_000)))),
    # ("t", b"", (("t", b"", (... ("v", []) ...),)),)
    "columns too deep": BEGIN + b"(\x8c\x01tC\x00" * 50_000 + b"\x8c\x01v]\x86" + b"\x85t" * 50_000 + b".",
    "one text as many lists": column(("t", b"", tuple(("v", LONG) for _ in range(5_000)))),
    "a tag that is none": column((b"", 1)),
    "a tag without a column": column(("t", b"")),
    "more pieces than there are": column(("l", b"\xff\xff\xff\xff", ("v", [1]))),
}


def attack_all() -> None:
    """Called in a process of its own, which may not have much memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    attacks = {name: BEGIN + operations for name, operations in REFUSED.items()} | COLUMNS_REFUSED
    for name, data in attacks.items():
        attack(name, lambda data=data: CODEC.unpack(CODEC.loads(data)))  # type: ignore[misc]  # of a default's type
        if name in REFUSED and name not in SAID_OF_OBJECTS:
            attack(f"{name}, as objects", lambda data=data: CODEC.unpack(("p", data)))  # type: ignore[misc]  # as above


def call_all() -> None:
    """Called in a process of its own, as above."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name, data in said_all().items():
        attack(name, lambda data=data: CODEC.unpack(("p", data)))  # type: ignore[misc]  # as above


def attack(name: str, read: Callable[[], object]) -> None:
    start = time.process_time()
    try:
        read()
    except (CheckpointError, IncompatibleStateError):
        seconds = time.process_time() - start
        print(f"{name}: {'refused' if seconds < 1 else 'refused late'}")
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
        except (CheckpointError, IncompatibleStateError):
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
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout.splitlines()


def test_bytes_written_to_do_harm_are_refused_at_once() -> None:
    told = in_a_process("attack_all")
    objects = REFUSED.keys() - SAID_OF_OBJECTS
    names = [*REFUSED, *COLUMNS_REFUSED, *(f"{name}, as objects" for name in objects)]
    assert sorted(told) == sorted(f"{name}: refused" for name in names)


def test_known_classes_that_are_called_with_what_makes_much_refuse() -> None:
    # Where no constructor runs, these are empty, or without state.
    empty = {"builtins:list", "builtins:set", "builtins:dict", "uuid:UUID"}
    empty |= {f"collections:{name}" for name in ("Counter", "OrderedDict", "deque", "defaultdict")}
    expected = [
        f"{name}: {'read' if name.split(', ')[0] in empty and ', made' in name else 'refused'}"
        for name in said_all()
    ]
    assert sorted(in_a_process("call_all")) == sorted(expected)


def test_columns_that_were_damaged_are_refused_by_a_process_that_lives_on() -> None:
    (told,) = in_a_process("flip_all")
    # A bit that is turned in a number or in a text makes another number, and another text.
    counts = dict(ast.literal_eval(told))
    assert counts["refused"] > 500
    assert counts["refused"] + counts["read"] == 2_000


def test_long_names_that_are_written_once_are_no_sign_of_harm() -> None:
    # One record in each of 500 columns: the names of its class and of its fields stand in the bytes only once.
    fields = [(f"{'long' * 40}_{number}", int) for number in range(9)]
    kind = make_dataclass("L" * 200, fields)
    kind.__module__ = __name__
    register_classes([UserClass(kind, {})])
    codec = StateCodec([UserClass(kind, {})])
    columns = tuple(codec.pack([kind(*range(9))]) for _ in range(500))
    data = codec.dumps(("t", b"", columns))
    assert len(data) < 200_000
    assert codec.unpack(codec.loads(data)) == [(kind(*range(9)),) * 500]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_535, 65_536, 1 << 20])
def test_whatever_we_write_is_read(size: int) -> None:
    # Pickle writes long texts outside of its frames, and counts lengths in one, four or eight bytes.
    for held in ("x" * size, b"y" * size, 1 << size % 70_000, "né" * size):
        packed = CODEC.pack([held, "", held, None, 1.5, True, -1, 70_000, 1 << 40, "end"])
        assert CODEC.unpack(CODEC.loads(CODEC.dumps(packed)))[:3] == [held, "", held]
    dates = [date(2020, 1, 1) + timedelta(number) for number in range(size % 5_000)]
    numbers = [*map(str, range(size))]
    assert CODEC.unpack(CODEC.loads(CODEC.dumps(CODEC.pack(dates)))) == dates
    assert CODEC.unpack(CODEC.loads(CODEC.dumps(CODEC.pack(numbers)))) == numbers
