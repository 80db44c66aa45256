"""Functions whose calls leave nothing on ``self`` are called for whole batches; the others are renewed for each key."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pytest

from windrow import OutputTag, Pipeline, from_collection
from windrow.functions import AggregateFunction, MapFunction, RuntimeContext
from windrow.plan import MapNode
from windrow.sinks import CollectSink
from windrow_runtime.local.function_rules import renewals_of
from windrow_runtime.operators.sending.left_on_self import may_leave_something
from windrow_runtime.operators.topology import topology_of

# Any in this module: the classes under test do what no type checker is asked about.


def bump(owner: Any) -> None:
    owner.count += 1


def bumped(owner: Any) -> int:
    bump(owner)
    return 1


def everything(*arguments: Any) -> Any:
    bump(arguments[0])


class Steady(AggregateFunction[int, dict[str, int], int]):
    """Reads its attributes in every usual way, and stores on the accumulator alone."""

    def __init__(self, factor: int = 2) -> None:
        self.factor = factor
        self.late = OutputTag("late", int)
        self.scaled = lambda value: value * factor

    def open(self, runtime_context: RuntimeContext) -> None:
        self.counter = runtime_context.metrics.counter("seen")

    @property
    def half(self) -> float:
        return self.factor / 2

    @staticmethod
    def one() -> int:
        return 1

    def times(self, value: int) -> int:
        return value * self.factor

    def create_accumulator(self) -> dict[str, int]:
        return {"sum": 0}

    def add(self, value: int, accumulator: dict[str, int]) -> dict[str, int]:
        parts = [self.times(each) for each in (value, self.one()) if each < self.factor * 1_000]
        accumulator["sum"] += sum(parts) + max((self.factor for _ in parts), default=0)
        return accumulator

    def get_result(self, accumulator: dict[str, int]) -> int:
        try:
            return accumulator["sum"] if self.half > 1 else self.factor
        finally:
            self.factor.bit_length()

    def merge(self, a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
        return {"sum": a["sum"] + b["sum"]}


class SteadyChild(Steady):
    """Calls its parent."""

    def times(self, value: int) -> int:
        return super().times(value) + 1


@dataclass
class SteadyRecord:
    """Has the methods that a dataclass makes."""

    factor: int = 3

    def __call__(self, value: int) -> int:
        total = Total()
        total.value = value * self.factor
        return total.value


class Total:
    """What a call fills."""

    value = 0


@pytest.mark.parametrize("owner", [Steady(), SteadyChild(), SteadyRecord()], ids=lambda owner: type(owner).__name__)
def test_what_only_reads_itself_leaves_nothing(owner: object) -> None:
    assert not may_leave_something(owner)


class Storing:
    """May store something on itself in each of its methods."""

    count: int

    def stores(self, value: int) -> int:
        self.count = value
        return value

    def counts(self, value: int) -> int:
        self.count += 1
        return value

    def deletes(self, value: int) -> int:
        del self.count
        return value

    def sets_by_name(self, value: int) -> int:
        setattr(self, "count", value)  # noqa: B010
        return value

    def writes_its_dict(self, value: int) -> int:
        self.__dict__["count"] = value
        return value

    def hands_itself_on(self, value: int) -> int:
        bump(self)
        return value

    def hands_itself_on_behind(self, value: int) -> int:
        print(value, self)
        return value

    def has_another_name_for_itself(self, value: int) -> int:
        other = self
        other.count = value
        return value

    def stores_in_a_closure(self, value: int) -> int:
        def store() -> None:
            self.count = value

        store()
        return value

    def stores_in_a_comprehension(self, value: int) -> list[int]:
        return [bumped(self) for _ in range(value)]

    def stores_in_a_generator(self, value: int) -> Iterable[int]:
        return (bumped(self) for _ in range(value))

    def loops_over_itself(self, values: list[int]) -> None:
        for self.count in values:
            pass

    def begins_anew(self: Any, value: int) -> int:
        self.__init__()
        return value

    def opens_again(self: Any, value: int) -> int:
        self.open(value)
        return value

    def calls_the_parents_setter(self, value: int) -> int:
        self.__setattr__("count", value)
        return value

    def gives_itself_back(self, value: int) -> Any:
        return self if value else None

    cached = cached_property(lambda self: 1)
    computed = property(bump)
    everything = everything


@pytest.mark.parametrize("name", [name for name in vars(Storing) if not name.startswith("__")])
def test_what_may_store_on_itself_is_known(name: str) -> None:
    kind: type[Any] = type("Kind", (), {name: vars(Storing)[name], "__module__": __name__})
    assert may_leave_something(kind())
    child: type[Any] = type("Child", (kind,), {})
    assert may_leave_something(child())


class Tracker:
    """Keeps the object that it writes to."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.lock = threading.Lock()

    def note(self) -> None:
        self.owner.count += 1


def counting(owner: Any) -> Iterable[None]:
    while True:
        owner.count += 1
        yield


LEADING_BACK: dict[str, Callable[[Any], Any]] = {
    "itself": lambda owner: owner,
    "method": lambda owner: owner.__call__,
    "closure": lambda owner: lambda: owner,
    "list": lambda owner: lambda: [owner],
    "tuple": lambda owner: (1, owner),
    "helper": Tracker,
    "method of a helper": lambda owner: Tracker(owner).note,
    "default": lambda owner: lambda own=owner: bump(own),
    "partial": lambda owner: partial(bump, owner),
    "generator": counting,
    "weak": weakref.ref,
}


@pytest.mark.parametrize("name", LEADING_BACK)
def test_attributes_that_lead_back_are_known(name: str) -> None:
    owner = SteadyRecord()
    assert not may_leave_something(owner)
    vars(owner)["back"] = LEADING_BACK[name](owner)
    assert may_leave_something(owner)


class Mapped(MutableMapping[int, int]):
    """Has methods of the library that call its own."""

    def __getitem__(self, key: int) -> int:
        return key

    def __setitem__(self, key: int, value: int) -> None:
        bump(self)

    def __delitem__(self, key: int) -> None:
        """Has nothing to delete."""

    def __iter__(self) -> Iterator[int]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Global:
    """Finds itself by its name."""

    def method(self) -> None:
        GLOBAL.count += 1


GLOBAL: Any = Global()


def test_methods_of_the_library_and_variables_lead_back() -> None:
    assert may_leave_something(Mapped())
    assert may_leave_something(GLOBAL)


class Doubled(MapFunction[int, int]):
    """Has a table, which is not written to, but that may be."""

    def __init__(self) -> None:
        self.table = {1: 2}

    def map(self, value: int) -> int:
        return self.table.get(value, value)


def test_steps_that_leave_nothing_are_not_renewed() -> None:
    keyed = from_collection([1, 2, 3]).map(Doubled()).key_by(lambda n: n % 2)
    pipeline = Pipeline("p", keyed.count_window(2).aggregate(Steady()).sink_to(CollectSink[int]()))
    (renewed,) = renewals_of(topology_of(pipeline).steps)
    assert isinstance(pipeline.steps[1].node, MapNode)
    assert renewed == pipeline.steps[1].id
