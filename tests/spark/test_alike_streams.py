"""Streams and steps that only their places tell apart: exchanged ones are refused, and a warning says to name them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.test_stored_streams import SECOND, SESSION, Click, free, plan, read, windows
from windrow import DataStream, from_source
from windrow import aggregates as agg
from windrow.connectors import CustomSource
from windrow.errors import IncompatibleStateError, WindrowWarning
from windrow.functions import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
)
from windrow.state import MapStateDescriptor
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.operators.topology import Topology
from windrow_spark.checkpoint.alike import alike_in
from windrow_spark.checkpoint.code_mark import code_of
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_plan import resume
from windrow_spark.physical.plan import PhysicalPlan

# Any in this module: streams of every type.
WAS_ANOTHER = re.compile(r"the (left|right|input|rules) was (the|'slow' and is 'fast'|'f)")
RULES = MapStateDescriptor("rules", str, int)


clicks = read("a")


class Pairs(KeyedCoProcessFunction[str, Click, Click, int]):
    def process_element1(self, value: Click, context: KeyedProcessContext[str]) -> None: ...

    def process_element2(self, value: Click, context: KeyedProcessContext[str]) -> None: ...


class Ruled(KeyedBroadcastProcessFunction[str, Click, Click, int]):
    def process_element(self, value: Click, context: Any) -> None: ...

    def process_broadcast_element(self, value: Click, context: Any) -> None: ...


class Above(KeyedProcessFunction[str, Click, Click]):
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def process_element(self, value: Click, context: KeyedProcessContext[str]) -> Iterator[Click]:
        if value.cost > self.limit:
            yield value


def recognised(number: int) -> Callable[[Click], bool]:
    return lambda click: click.cost > number


def opaque(number: int) -> Callable[[Click], bool]:
    return lambda click: any(digit > str(number) for digit in str(click.cost))


def literal(number: int) -> Any:
    return (lambda c: any(x > "1" and c.at < 7 for x in c.page), lambda c: any(x > "1" and c.at < 8 for x in c.page))[
        number > 10
    ]


def some(click: Click) -> bool:
    return any(x > "1" for x in click.page)


def none(click: Click) -> bool:
    return not any(x > "1" for x in click.page)


def by_user(click: Click) -> str:
    return click.user


def two_inputs(left: DataStream[Click], right: DataStream[Click]) -> dict[str, DataStream[Any]]:
    second = TumblingEventTimeWindows.of(SECOND)
    both, grouped = (
        stage.where(by_user).equal_to(by_user).window(second) for stage in (left.join(right), left.co_group(right))
    )
    keyed, others = left.key_by(by_user), right.key_by(by_user)
    near: Any = keyed.interval_join(others).between(-SECOND, SECOND)
    return {
        "join": both.apply(lambda a, b: (a, b)),
        "co_group": grouped.apply(lambda a, b: [len(a), len(b)]),
        "interval join": near.apply(lambda a, b: (a, b)),
        "as-of join": keyed.as_of_join(others).apply(lambda a, b: (a, b)),
        "connected": keyed.connect(others).process(Pairs()),
        "broadcast": keyed.connect(right.broadcast(RULES)).process(Ruled()),
    }


def sides(condition: Any, first: int, second: int, *names: str | None) -> dict[str, Topology]:
    sides = zip((first, second), names or (None, None), strict=True)
    left, right = (clicks.filter(condition(number), name=name) for number, name in sides)
    return {name: plan(stream) for name, stream in two_inputs(left, right).items()}


def go_on(folder: Path, first: Topology, second: Topology) -> None:
    for topology in (first, second):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WindrowWarning)
            resume(Checkpoint.at(folder), PhysicalPlan(topology), "event time", SESSION)


@pytest.mark.parametrize("condition", [recognised, opaque, literal])
def test_inputs_that_change_places_are_refused(tmp_path: Path, condition: Any) -> None:
    turned = sides(condition, 20, 10)
    for number, (name, topology) in enumerate(sides(condition, 10, 20).items()):
        with pytest.raises(IncompatibleStateError, match=r"the (left|input) was the (right|rules)") as caught:
            go_on(tmp_path / str(number), topology, turned[name])
        assert "accept_changes=" in str(caught.value.hint)
    # Numbers may change where they are.
    changed = sides(condition, 9, 20) if condition is not literal else sides(condition, 10, 20)
    for name, topology in sides(condition, 10, 20).items():
        go_on(tmp_path / name, topology, changed[name])


@pytest.mark.parametrize("names", [("slow", "fast"), ("slow", None), (None, "fast")])
def test_names_tell_inputs_apart_if_numbers_change_as_well(
    tmp_path: Path, names: tuple[str | None, str | None]
) -> None:
    turned = sides(opaque, 21, 11, *reversed(names))
    for number, (name, topology) in enumerate(sides(opaque, 10, 20, *names).items()):
        with pytest.raises(IncompatibleStateError, match=WAS_ANOTHER):
            go_on(tmp_path / str(number), topology, turned[name])
        assert list(alike_in(PhysicalPlan(topology))) == []


def test_a_docstring_is_no_code() -> None:
    def one(click: Click) -> bool:
        """Documents."""
        return any(x > "1" for x in click.page)

    def other(click: Click) -> bool:
        """Documents otherwise."""
        return any(x > "1" for x in click.page)

    def third(click: Click) -> bool:
        """Documents."""
        return any(x < "1" for x in click.page)

    assert code_of(one) == code_of(other) != code_of(third)


@pytest.mark.parametrize("condition", [recognised, opaque, literal])
def test_a_checkpoint_begins_with_a_warning_of_inputs_without_names(tmp_path: Path, condition: Any) -> None:
    for number, topology in enumerate(sides(condition, 10, 20).values()):
        checkpoint = Checkpoint.at(tmp_path / str(number))
        with pytest.warns(
            WindrowWarning, match=r"nothing that a checkpoint compares(.|\n)*filter\(\.\.\., name=\.\.\.\)"
        ):
            resume(checkpoint, PhysicalPlan(topology), "event time", SESSION)
        resume(checkpoint, PhysicalPlan(topology), "event time", SESSION)  # a later run has no choice
        unused = Checkpoint.at(tmp_path / f"{number} of no use")
        resume(unused, PhysicalPlan(topology), "event time", SESSION, is_kept=False)


def stepped(*limits: int, name: bool = False) -> list[DataStream[Any]]:
    keyed = read("a").key_by(by_user)
    return [keyed.process(Above(limit), name=f"above {limit}" if name else None) for limit in limits]


class Feed(CustomSource[int, int]):
    def __init__(self, address: int) -> None:
        self.address = address

    def initial_offset(self, partition: str) -> int:
        return 0

    latest_offset = initial_offset

    def read(self, *_: Any) -> Iterator[int]:
        return iter(())


def fed(*names: str | None) -> list[DataStream[Any]]:
    return [from_source(Feed(number), name=name) for number, name in enumerate(names)]


ALIKE: dict[str, tuple[list[DataStream[Any]], int]] = {
    "a function with another number": (stepped(1, 2), 1),
    "three of them": (stepped(1, 2, 3), 3),
    "with names": (stepped(1, 2, name=True), 0),
    "the same function": (stepped(1, 1), 0),
    "united branches with state": ([stepped(1)[0].union(stepped(2)[0])], 0),  # the sources are compared
    "united branches of one source": ([(both := stepped(1, 2))[0].union(both[1])], 1),
    "rolling reduces": (
        [clicks.key_by(by_user).reduce(lambda a, b: a), clicks.key_by(by_user).reduce(lambda a, b: b)],
        1,
    ),
    "windows of filtered streams": ([windows(clicks.filter(condition)) for condition in (some, none)], 1),
    "windows of streams by filters that are compared": (
        [windows(clicks.filter(condition(number))) for condition in (opaque, literal) for number in (1, 20)],
        0,
    ),
    "windows of other filters": ([windows(clicks.filter(free)), windows(clicks.filter(opaque(1)))], 0),
    "windows with another aggregate": ([windows(clicks), windows(clicks, function=agg.sum(lambda c: c.cost))], 0),
    "windows that are one": ([windows(clicks), windows(clicks)], 0),
    "windows by other keys": ([windows(clicks), windows(clicks, lambda c: c.page)], 0),
    "sources": (fed(None, None), 1),
    "sources of which one has a name": (fed("a", None), 1),
    "sources with names": (fed("a", "b"), 0),
    "files": ([read("a"), read("b"), read("b")], 0),
    "a stream and itself": ([two_inputs(clicks, clicks)["join"]], 0),
}


@pytest.mark.parametrize("case", ALIKE)
def test_steps_and_sources_that_only_their_places_tell_apart(case: str) -> None:
    streams, count = ALIKE[case]
    lines = list(map(str, alike_in(PhysicalPlan(plan(*streams)))))
    assert len(lines) == count
    assert all("nothing but its place tells" in line and "name=" in line for line in lines)


def test_steps_whose_code_has_other_numbers_may_not_change_places(tmp_path: Path) -> None:
    first, second = ([windows(clicks.filter(literal(number))) for number in numbers] for numbers in ((1, 20), (20, 1)))
    with pytest.raises(IncompatibleStateError, match="the functions upstream was that of plan"):
        go_on(tmp_path, plan(*first), plan(*second))
