"""What travels between the workers, and what is stored: without Spark."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.codecs.records import UserClass
from windrow_spark.clock import END_OF_STREAM, decode_watermark, encode_timer, encode_watermark
from windrow_spark.exchange.classes import class_name, find_class, register_classes
from windrow_spark.exchange.packer import Packer, ToAllKeys, ToSink, ToStep
from windrow_spark.exchange.rows import (
    PackedRow,
    Phase,
    RowKind,
    load_values,
    pack_values,
    phase_of,
    sequence_number,
    unpack_broadcast,
    unpack_keyed,
    unpack_values,
)
from windrow_spark.key_groups import KeyGroups
from windrow_spark.stable_hash import stable_hash


@dataclass(frozen=True)
class Frozen:
    name: str
    at: int
    parts: tuple[int, ...] = ()


@dataclass(slots=True)
class Nested:
    inner: Frozen
    other: Frozen | None


@dataclass
class Checked:
    value: int

    def __post_init__(self) -> None:
        self.value += 1


@dataclass
class Own:
    value: int
    cache: int = field(default=0, init=False)


@dataclass
class KeywordOnly:
    a: int
    b: int = field(kw_only=True)


class Pair(NamedTuple):
    left: Any
    right: Any


class Longer(Pair):
    """A tuple with attributes besides."""


Old = namedtuple("Old", "a b")


class Struct(msgspec.Struct, frozen=True):
    a: int
    b: str | None = None


class Derived(Frozen):
    pass


RECORDS: list[Any] = [
    Frozen("a", 1, (1, 2)),
    Nested(Frozen("a", 1), None),
    Own(1),
    KeywordOnly(1, b=2),
    Pair(1, "x"),
    Pair(1.5, Pair(None, 2)),
    Longer(1, [2]),
    Old(1, b"x"),
    Struct(1, "x"),
    Derived("d", 3),
]
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = scalars | st.sampled_from(RECORDS) | st.builds(Pair, scalars, scalars) | st.lists(scalars, max_size=3)


@given(st.lists(values) | st.sampled_from(RECORDS).flatmap(lambda record: st.lists(st.just(record), min_size=1)))
def test_values_come_back_as_they_were(original: list[Any]) -> None:
    back = list(unpack_values(pack_values(original)))
    assert back == original
    assert [type(value) for value in back] == [type(value) for value in original]


@pytest.mark.parametrize("record", RECORDS, ids=repr)
def test_nested_values_keep_their_types(record: Any) -> None:
    pairs = [Pair(record, 1), Pair(True, 1.0), Pair(record, None)]
    back = unpack_values(pack_values(pairs))
    assert back == pairs
    assert [(type(a), type(b)) for a, b in back] == [(type(a), type(b)) for a, b in pairs]


def test_a_constructor_that_does_more_is_not_called_again() -> None:
    (back,) = unpack_values(pack_values([Checked(1)]))
    assert back.value == 2


@pytest.mark.parametrize("registered", [False, True])
def test_classes_of_functions_travel_and_by_name_once_registered(registered: bool) -> None:
    @dataclass
    class Inside:
        value: int

    if registered:
        register_classes([UserClass(Inside, {})])
        assert find_class(class_name(Inside)) is Inside
        (back,) = unpack_values(pack_values([Inside(1)]))
        assert type(back) is Inside
    for values in ([Inside(1), Inside(2)], [Inside(1), None]):
        assert unpack_values(pack_values(values)) == values


def test_a_worker_names_only_the_classes_of_the_plan_that_it_runs() -> None:
    register_classes([UserClass(Pair, {})])
    assert class_name(Pair) == f"@{Pair.__module__}:Pair".encode()
    register_classes([UserClass(Checked, {})])  # the worker runs a task of another plan
    reference, *_ = pack_values([Pair(1, 2)])
    assert isinstance(reference, bytes)
    assert not reference.startswith(b"@")
    assert find_class(reference) is Pair


@given(st.lists(st.integers(MIN_TIMESTAMP, MAX_TIMESTAMP) | st.none()))
def test_timestamps_come_back(timestamps: list[Any]) -> None:
    assert unpack_values(pack_values(timestamps)) == timestamps


@given(st.integers(-4_000_000_000_000_000, 4_000_000_000_000_000))
def test_watermarks_survive_spark(watermark: int) -> None:
    encoded = encode_watermark(watermark)
    assert encoded is not None
    assert decode_watermark(encoded) == watermark
    # A timer is due when the watermark reaches it, and not before.
    assert encode_timer(watermark) <= encoded
    assert encode_timer(watermark + 1) > encoded


def test_the_ends_of_time_have_their_places() -> None:
    assert encode_watermark(MAX_TIMESTAMP) == END_OF_STREAM
    assert decode_watermark(END_OF_STREAM) == MAX_TIMESTAMP
    assert encode_watermark(MIN_TIMESTAMP) is None
    assert decode_watermark(0) == MIN_TIMESTAMP
    # Only the end of the stream is the end.
    beyond = encode_watermark(MAX_TIMESTAMP - 1)
    assert beyond == END_OF_STREAM - 1
    assert decode_watermark(beyond) < MAX_TIMESTAMP - 1
    assert encode_timer(MAX_TIMESTAMP) == encode_timer(MAX_TIMESTAMP - 1) == END_OF_STREAM
    assert encode_timer(MIN_TIMESTAMP) == 1


def test_rows_are_ordered_by_phase_then_origin_then_row() -> None:
    numbers = [
        sequence_number(phase, origin, row)
        for phase in (Phase.BEFORE_WATERMARK, Phase.AFTER_WATERMARK)
        for origin in (0, 1, 2**31 - 1)
        for row in (0, 1, 2**30 - 1)
    ]
    assert numbers == sorted(set(numbers))
    assert max(numbers) < 2**63
    assert [phase_of(number) for number in numbers] == [0] * 9 + [1] * 9


def packer_of(groups: KeyGroups, origin: int = 0, service: int = -1) -> Packer:
    packer = Packer(groups, Phase.AFTER_WATERMARK)
    packer.start(origin, service)
    return packer


def test_the_packer_sends_each_key_to_its_group_in_order() -> None:
    groups = KeyGroups.balanced(3, 2)
    packer = packer_of(groups, 7, -99)
    elements = list(range(10_000))
    rows: list[PackedRow] = []
    for start in range(0, len(elements), 700):
        some = elements[start : start + 700]
        packer.add(ToStep(3, 1, [value % 50 for value in some]), some, [value * 10 for value in some])
        packer.add(ToSink(0), some, [None] * len(some))
        rows += packer.full()
    rows += packer.flush()
    assert len({row.number for row in rows}) == len(rows)
    rows.sort(key=lambda row: row.number)
    by_group: dict[int, list[int]] = {}
    to_sink: list[int] = []
    for row in rows:
        if row.kind == RowKind.ELEMENTS:
            (chunk,) = unpack_keyed(row.payload)
            assert chunk.step == 3
            assert chunk.keys == [value % 50 for value in chunk.values]
            assert chunk.timestamps == [value * 10 for value in chunk.values]
            assert {groups.labels[groups.number_of(stable_hash(key))] for key in chunk.keys} == {row.group}
            by_group.setdefault(row.group, []).extend(chunk.values)
        else:
            assert (row.group, row.kind, row.target) == (-99, RowKind.OUTPUT, 0)
            to_sink += load_values(row.payload)
    assert to_sink == elements
    assert sorted(value for group in by_group.values() for value in group) == elements
    assert all(group == sorted(group) for group in by_group.values())
    assert list(packer.flush()) == []


def test_a_row_carries_elements_for_one_level() -> None:
    packer = packer_of(KeyGroups.balanced(1, 1))
    for step, level in ((0, 1), (1, 2), (2, 1)):
        packer.add(ToStep(step, level, [1]), [step], [None])
    rows = list(packer.flush())
    found = {row.target: [part.step for part in unpack_keyed(row.payload)] for row in rows}
    assert len(rows) == 2
    assert found == {1: [0, 2], 2: [1]}


def test_elements_for_all_keys_reach_each_group_once_and_in_order() -> None:
    groups = KeyGroups.balanced(3, 2)
    packer = packer_of(groups, 7, -99)
    rows: list[PackedRow] = []
    for start in range(0, 1000, 100):
        chunk = list(range(start, start + 100))
        packer.add(ToAllKeys(3, 1), chunk, [value * 10 for value in chunk])
        packer.add(ToAllKeys(4, 2), chunk[:1], [None])
        packer.add(ToStep(3, 1, chunk), chunk, [None] * 100)
        rows += packer.full()
    assert rows, "elements for all keys wait for fewer of their kind than others"
    rows += packer.flush()
    assert list(packer.flush()) == []
    found = sorted((row for row in rows if row.kind == RowKind.BROADCAST), key=lambda row: row.number)
    for label in groups.labels:
        of_group = [(row.target, part) for row in found if row.group == label for part in unpack_broadcast(row.payload)]
        of_first = [part for level, part in of_group if level == 1]
        assert {part.step for part in of_first} == {3}
        assert [value for part in of_first for value in part.values] == list(range(1000))
        assert [at for part in of_first for at in part.timestamps] == [value * 10 for value in range(1000)]
        assert [list(part.values) for level, part in of_group if level == 2] == [list(range(0, 1000, 100))]


@pytest.mark.parametrize(
    ("target", "count", "warm_up"), [(ToAllKeys(0, 1), 5, 30), (ToSink(0), 50, 2)], ids=["all keys", "a sink"]
)
def test_payloads_of_large_elements_stay_small(target: ToAllKeys | ToSink, count: int, warm_up: int) -> None:
    packer = packer_of(KeyGroups.balanced(4, 2))
    sizes: list[int] = []
    for batch in range(60):
        packer.add(target, [f"{batch}-{number}" + "x" * 100_000 for number in range(count)], [None] * count)
        full = [len(row.payload) for row in packer.full()]
        # Elements for all keys take no more than others together.
        sizes += [sum(full)] if isinstance(target, ToAllKeys) else full
    # How large the elements are, the first rows have to show.
    assert max(sizes[warm_up:]) <= 6 << 20


def test_a_key_without_a_hash_is_told() -> None:
    packer = packer_of(KeyGroups.balanced(1, 1))
    with pytest.raises(InvalidArgumentError, match=r"a key cannot be hashed\n  given:    \[2\]: TypeError: unhashable"):
        packer.add(ToStep(0, 1, ["a", [2]]), ["a", [2]], [None, None])


@pytest.mark.parametrize(
    "target", [ToStep(0, 1, ["a", "a"], "a step"), ToAllKeys(0, 1, "a broadcast"), ToSink(0, "a sink")]
)
def test_an_element_that_cannot_be_pickled_is_named_with_its_step(target: ToStep | ToAllKeys | ToSink) -> None:
    packer = packer_of(KeyGroups.balanced(1, 1))
    packer.add(target, [1, (number for number in range(3))], [None, None])
    with pytest.raises(UnsupportedOperationError, match="cannot be sent to another process") as caught:
        list(packer.flush())
    assert "<generator object" in str(caught.value.given)
    assert caught.value.where == target.where
    assert "flat_map" in str(caught.value.hint)
