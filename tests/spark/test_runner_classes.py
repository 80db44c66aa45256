"""Elements, keys and accumulators of the user's classes, also of those that workers cannot import."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest

from tests.spark.comparison import Outputs, Seen
from tests.spark.streams import keyed, stamped
from windrow import DataStream, Pipeline, from_source
from windrow.functions import AggregateFunction
from windrow.sinks import CollectSink, JsonFileSink
from windrow.sources import CollectionSource, JsonFileSource
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

BEGIN = datetime(1969, 12, 31, 23, 59, 58, tzinfo=UTC)

# Any in this module: pipelines over records of several classes.


class Kind(Enum):
    WARM = 1
    COLD = 2


class Point(NamedTuple):
    x: int
    y: int | None


class Tag(msgspec.Struct, frozen=True):
    name: str
    kind: Kind


@dataclass(frozen=True)
class Record:
    key: str
    at: datetime
    point: Point
    tags: tuple[Tag, ...]
    parent: Record | None = None


@dataclass
class Sum:
    """An accumulator that is changed in place."""

    points: list[Point] = field(default_factory=list)
    latest: datetime | None = None


class Summed(AggregateFunction[Record, Sum, tuple[Point, ...]]):
    def create_accumulator(self) -> Sum:
        return Sum()

    def add(self, value: Record, accumulator: Sum) -> Sum:
        accumulator.points.append(value.point)
        accumulator.latest = value.at
        return accumulator

    def get_result(self, accumulator: Sum) -> tuple[Point, ...]:
        return tuple(accumulator.points)

    def merge(self, a: Sum, b: Sum) -> Sum:
        return Sum(a.points + b.points, b.latest)


def record(number: int) -> Record:
    parent = record(number // 2) if number % 3 == 1 else None
    return Record(
        key="abc"[number % 3],
        at=BEGIN + timedelta(milliseconds=number * 90),
        point=Point(number, number % 4 or None),
        tags=tuple(Tag(f"t{i}", Kind.WARM if i else Kind.COLD) for i in range(number % 3)),
        parent=parent,
    )


def add_streams(outputs: Outputs, name: str, elements: Sequence[Any], key: Callable[[Any], Any]) -> None:
    stream: DataStream[Any] = from_source(CollectionSource(elements, batch_size=18))
    timed = stamped(stream)
    windows = timed.key_by(key).window(TumblingEventTimeWindows.of(timedelta(milliseconds=700)))
    outputs.add(f"{name} in windows", windows.process(Seen()))
    outputs.add(f"{name} reduced", windows.reduce(max_by_time, Seen()))
    outputs.add(f"{name} rolling", timed.key_by(key).max_by(lambda element: element.at).map(lambda e: (key(e), e)))


def max_by_time(a: Any, b: Any) -> Any:
    return a if a.at >= b.at else b


PROGRAM = """
from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import NamedTuple

class Shade(Enum):
    DARK = "dark"
    LIGHT = "light"

class Place(NamedTuple):
    key: str
    shade: Shade

@dataclass(frozen=True)
class Inner:
    place: Place
    note: str | None

@dataclass(frozen=True)
class Outer:
    key: str
    at: datetime
    inner: Inner

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
elements = [
    Outer(
        "ab"[number % 2],
        BEGIN + timedelta(milliseconds=number * 50),
        Inner(Place("ab"[number % 2], Shade.DARK if number % 4 else Shade.LIGHT), None if number % 3 else "x"),
    )
    for number in range(36)
]

def key_of(outer: Outer) -> Place:
    return outer.inner.place
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A main program: its functions and classes belong to ``__main__``, which in a worker is Spark's own."""
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec(PROGRAM, module.__dict__)
    return module


def test_classes_of_every_origin(spark: SparkSession, program: ModuleType, tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Local:
        key: str
        at: datetime
        point: Point

    def key_of_local(element: Local) -> Point:
        return Point(element.point.x % 3, None)

    records = [record(number) for number in range(36)]
    outputs = Outputs()
    add_streams(outputs, "imported", records, lambda element: Tag(element.key, Kind.WARM))
    add_streams(outputs, "local", [Local(r.key, r.at, r.point) for r in records], key_of_local)
    add_streams(outputs, "of the main program", program.elements, program.key_of)
    by_key = keyed(from_source(CollectionSource(records, Record, batch_size=18)))
    sessions = by_key.window(EventTimeSessionWindows.with_gap(timedelta(milliseconds=300)))
    outputs.add("accumulators", sessions.aggregate(Summed(), Seen()))
    written = from_source(CollectionSource(program.elements, program.Outer))
    pipeline = outputs.pipeline("classes", written.sink_to(JsonFileSink(tmp_path / "out")))
    expected, _ = outputs.expected(pipeline)
    # The interpreter's batches, which Spark's would be mixed with.
    shutil.rmtree(tmp_path / "out")
    found = outputs.of(SparkRunner(spark, partitions=1).run(pipeline))
    for name, elements in expected.items():
        assert (name, found[name]) == (name, elements)
    keys = list(found["of the main program in windows"])
    assert keys
    assert all(type(key) is program.Place for key in keys)

    sink: CollectSink[Any] = CollectSink()
    source = from_source(JsonFileSource(tmp_path / "out" / "*.json", program.Outer))
    back = LocalRunner().run(Pipeline("back", source.sink_to(sink))).collected(sink)
    assert back == program.elements


def test_a_class_that_the_main_program_defines_again_takes_the_place_of_the_first(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a notebook: the workers of the first job still run when the second one comes.
    for fields in ("sensor: str; at: int", "sensor: str; at: int; celsius: float"):
        module = ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", module)
        body = "\n    ".join(fields.split("; "))
        exec(f"from typing import NamedTuple\n\nclass Reading(NamedTuple):\n    {body}", module.__dict__)
        reading: Callable[..., Any] = module.__dict__["Reading"]
        values = ("roof", 1, 3.5)[: fields.count(":")]
        taken = CollectSink[Any]()
        stream = from_source(CollectionSource([reading(*values)])).key_by(lambda element: element.sensor)
        kept = stream.reduce(lambda a, b: a)
        result = SparkRunner(spark).run_batch(Pipeline("again", kept.sink_to(taken)))
        assert [tuple(element) for element in result.collected(taken)] == [values]


PICKLED = """
from windrow.functions import KeyedProcessFunction
from windrow.state import ValueStateDescriptor

class Own:
    def __init__(self, held):
        self.held = held

    def __reduce__(self):
        return type(self), (self.held,)

class Basket(Own):
    "Named by the element that holds it."

class Item(Own):
    "Used in the code of a function."

HIDDEN = {"kind": type("Hidden", (Own,), {})}

class Fill(KeyedProcessFunction):
    basket = ValueStateDescriptor("basket")

    def process_element(self, value, context):
        key, basket = value
        state = context.get_state(self.basket)
        kept = state.value() or Basket([])
        assert type(kept) is type(basket) is Basket, type(kept)
        assert all(type(item) is Item for item, _ in kept.held)
        kept.held.append((Item(basket.held.held), HIDDEN["kind"](1)))
        state.update(kept)
        yield (key, [(item.held, hidden.held) for item, hidden in kept.held])

elements = [("a", Basket(HIDDEN["kind"](number))) for number in range(4)]
"""


def test_allowed_classes_of_the_main_program_come_back_in_the_next_run_too(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found: list[Any] = []
    for count in (2, 4):
        # Each run has classes of its own, as each process has.
        module = ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", module)
        exec(PICKLED, module.__dict__)
        taken = CollectSink[Any]()
        source = CollectionSource[Any](module.__dict__["elements"][:count], batch_size=2)
        filled = from_source(source).key_by(lambda element: element[0], str).process(module.__dict__["Fill"]())
        pipeline = Pipeline("allowed", filled.sink_to(taken), allow_pickled_state=True)
        found += SparkRunner(spark, checkpoint=tmp_path, partitions=1).run(pipeline, drain=False).collected(taken)
    assert found == [("a", [(number, 1) for number in range(count)]) for count in range(1, 5)]
