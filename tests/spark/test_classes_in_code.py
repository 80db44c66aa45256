"""Classes that no annotation names, and annotations that name classes of the function around."""

from __future__ import annotations

import pickle
import shutil
import sys
from dataclasses import MISSING, fields
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, NewType, TypeVar, get_args

import msgspec
import pytest
from pyspark import cloudpickle

from tests.budget import for_a_night
from tests.spark.comparison import Outputs, Seen, millis
from tests.spark.timed import timed
from tests.support.files import put
from windrow import DataStream, from_collection, from_source
from windrow.errors import UnsupportedOperationError
from windrow.sinks import JsonFileSink
from windrow.sources import CsvFileSource, JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.spark import SparkRunner
from windrow_spark.exchange.picklable import make_picklable

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Any in this module: elements whose type no annotation says.

Metres = NewType("Metres", float)

MAIN = """
from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, NewType, NotRequired, TypedDict

At = NewType("At", int)

class Color(Enum):
    RED = "red"
    BLUE = "blue"

@dataclass(frozen=True)
class R:
    color: Color
    at: int

class P(NamedTuple):
    at: int
    color: object

class Made:
    def __init__(self, at):
        self.at = at

    def __eq__(self, other):
        return type(other) is Made and other.at == self.at

    def __hash__(self):
        return hash(self.at)

    def __repr__(self):
        return f"Made({self.at})"

class Slotted:
    __slots__ = ("at", "color")

    def __init__(self, at, color):
        self.at, self.color = at, color

    def __eq__(self, other):
        return type(other) is Slotted and (other.at, other.color) == (self.at, self.color)

    def __hash__(self):
        return hash(self.at)

    def __repr__(self):
        return f"Slotted({self.at}, {self.color})"

@dataclass(slots=True, kw_only=True)
class Named:
    at: At
    color: Color

@dataclass(frozen=True, slots=True)
class Fixed:
    at: At
    color: Color

class Note(TypedDict):
    color: Color

class Row(TypedDict):
    at: int
    note: Note

class Longer(Row, total=False):
    text: str

Called = TypedDict("Called", {"at": int, "for": NotRequired[str]})

def make(line):
    color, at = line.split()
    return P(int(at), Color(color))

records = lambda line: R(Color(line.split()[0]), int(line.split()[1]))
tuples = lambda line: make(line)
objects = lambda line: Made(int(line.split()[1]))
slotted = lambda line: Slotted(int(line.split()[1]), Color(line.split()[0]))
named = lambda line: Named(at=At(int(line.split()[1])), color=Color(line.split()[0]))
fixed = lambda line: Fixed(At(int(line.split()[1])), Color(line.split()[0]))
by_color = lambda element: element.color
by_new_color = lambda element: Color.RED if element.at % 2 else Color.BLUE
"""

SHIPPED = """
from dataclasses import KW_ONLY, dataclass, field

import msgspec

@dataclass
class Reading:
    sensor: str
    celsius: float
    _: KW_ONLY
    note: str = "none"
    tags: list[str] = field(default_factory=lambda: ["new"])

class Inner(msgspec.Struct, frozen=True):
    a: int

class Base(msgspec.Struct, kw_only=True):
    number: int = 5

class Item(Base, rename="camel", forbid_unknown_fields=True):
    some_name: str
    celsius: float
    inner: Inner | None = None
    tags: list[str] = []
    more: list[str] = msgspec.field(default_factory=lambda: ["new"], name="others")

    def __post_init__(self):
        self.some_name = self.some_name.lower()
"""

LINES = [f"{'red' if number % 3 else 'blue'} {number * 100}" for number in range(12)]


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A main program, whose classes no worker can import. Annotations of its second part are no texts."""
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec(MAIN, module.__dict__)
    exec(SHIPPED, module.__dict__)
    return module


def add_elements_of_lambdas(outputs: Outputs, main: ModuleType) -> None:
    for name, make, key in (
        ("records", main.records, main.by_color),
        ("tuples", main.tuples, main.by_color),
        ("objects", main.objects, main.by_new_color),
        ("slotted", main.slotted, main.by_color),
        ("named", main.named, main.by_color),
        ("fixed", main.fixed, main.by_color),
    ):
        elements: DataStream[Any] = timed(from_collection(LINES).map(make))
        windows = elements.key_by(key).window(TumblingEventTimeWindows.of(millis(500)))
        outputs.add(f"{name} in windows", windows.process(Seen()))
        outputs.add(f"{name} rolling", elements.key_by(key).max_by(lambda element: element.at), lambda e: e.at)
    # No type says what a collection of several classes holds.
    mixed = from_collection([main.Color.RED, ("a", main.Made(1)), ["a"], {"k": [main.Made(2)]}])
    counted: DataStream[Any] = mixed.key_by(lambda element: "all").reduce(lambda a, b: b)
    outputs.add("mixed", counted, None)


def add_typed_dicts(outputs: Outputs, main: ModuleType, folder: Path) -> None:
    lines = [f'{{"at": {at}, "note": {{"color": "red"}}, "text": "x", "for": "y"}}' for at in range(6)]
    put(folder / "in", "rows", lines)
    for kind in (main.Row, main.Longer, main.Called):
        # Keeps on the class what cannot be pickled, as the user's own use of it does.
        msgspec.json.Decoder(kind)
        rows: DataStream[Any] = from_source(JsonFileSource(folder / "in", kind))
        latest = rows.key_by(lambda row: row["at"] % 2).reduce(lambda a, b: b if b["at"] > a["at"] else a)
        outputs.add(kind.__name__, latest, lambda row: row["at"])
        outputs.ends.append(latest.sink_to(JsonFileSink(folder / "out" / kind.__name__)))


def add_records(outputs: Outputs, main: ModuleType, folder: Path) -> None:
    lines = [
        '{"sensor": "a", "someName": "A", "celsius": 1.5}',
        '{"sensor": "b", "someName": "B"}',
        '{"celsius": 2.5}',
        '{"sensor": "c", "celsius": 3.5, "note": "x", "tags": []}',
        '{"someName": "C", "celsius": 3.5, "number": 7, "inner": {"a": 1}, "others": []}',
    ]
    put(folder / "json", "rows", lines)
    (folder / "csv").mkdir()
    (folder / "csv" / "rows.csv").write_text("sensor,celsius,note\na,1.5,x\nb,,y\nc,2.5,\n")
    sources: list[Any] = [
        JsonFileSource(folder / "json", main.Reading, on_malformed="drop"),
        JsonFileSource(folder / "json", main.Item, on_malformed="drop"),
        CsvFileSource(folder / "csv", main.Reading, on_malformed="drop"),
    ]
    for number, source in enumerate(sources):
        latest: DataStream[Any] = from_source(source).key_by(lambda row: row.celsius).reduce(lambda a, b: b)
        outputs.add(f"source {number}", latest, lambda row: row.celsius)


def test_classes_of_the_main_program_are_on_spark_what_they_are_here(
    spark: SparkSession, main: ModuleType, tmp_path: Path
) -> None:
    outputs = Outputs()
    add_elements_of_lambdas(outputs, main)
    add_typed_dicts(outputs, main, tmp_path)
    add_records(outputs, main, tmp_path)
    pipeline = outputs.pipeline("named")
    # The interpreter reads JSON with msgspec in this process, before Spark ships the classes.
    expected, _ = outputs.expected(pipeline)
    assert [len(expected[f"source {number}"]) for number in range(3)] == [2, 2, 2]
    for columnar in for_a_night((True, False), (True,)):  # collections come as objects either way
        shutil.rmtree(tmp_path / "out")
        assert outputs.of(SparkRunner(spark, partitions=1, columnar=columnar).run(pipeline)) == expected


def test_msgspec_leaves_nothing_on_classes(main: ModuleType) -> None:
    kinds = (main.Row, main.Longer, main.Called, main.R, main.Color)
    for kind in kinds:
        assert JsonDecoder(record_type(kind)).uses_msgspec
        cloudpickle.dumps(kind)  # type: ignore[no-untyped-call]  # Spark's copy has no types
    assert [kind for kind in kinds if "__msgspec_cache__" in vars(kind)] == []


def by_value(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """The class as another process gets it."""
    make_picklable(kind)
    data = cloudpickle.dumps(kind)  # type: ignore[no-untyped-call]  # as above
    # In this process the pickle would find the class that it was made from.
    monkeypatch.setattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_ID", {})
    found: type[Any] = pickle.loads(data)
    assert found is not kind
    return found


def test_defaults_of_a_dataclass_that_is_shipped_are_those_that_it_has(
    main: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = by_value(main.Reading, monkeypatch)
    assert [field.default is MISSING for field in fields(found)] == [True, True, False, True]
    assert [field.default_factory is MISSING for field in fields(found)] == [True, True, True, False]
    assert found("a", 1.5).tags == ["new"]
    with pytest.raises(msgspec.ValidationError, match="missing required field `celsius`"):
        msgspec.json.decode(b'{"sensor": "a"}', type=found)


class Counting(type):
    """Counts the classes that it makes."""

    made = 0

    def __init__(cls, *given: Any) -> None:
        super().__init__(*given)
        Counting.made += 1


def test_a_class_that_is_shipped_has_its_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    held = TypeVar("held")

    class Base(Generic[held]):
        __slots__ = ("__own", "first")

        def __init__(self) -> None:
            self.__own = 7

        def own(self) -> int:
            return self.__own

    class Derived(Base[int], metaclass=Counting):
        __slots__ = ["second"]

    before = Counting.made
    found = by_value(Derived, monkeypatch)
    assert Counting.made == before + 1
    assert type(found) is type(Derived)
    assert [base.__name__ for base in found.__mro__] == ["Derived", "Base", "Generic", "object"]
    assert get_args(vars(found)["__orig_bases__"][-1]) == (int,)
    made: Any = found()
    assert made.own() == 7
    assert not hasattr(made, "__dict__")
    with pytest.raises(AttributeError):
        made.third = 3
    again = by_value(found, monkeypatch)
    assert not hasattr(again(), "__dict__")


def test_new_types_are_shipped_where_no_module_has_them() -> None:
    number = NewType("number", int)
    found = pickle.loads(pickle.dumps(number))
    assert (found.__qualname__, found.__supertype__, found(3)) == (number.__qualname__, int, 3)
    assert pickle.loads(pickle.dumps(Metres)) is Metres


def test_a_struct_that_is_shipped_has_its_fields(main: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    given, found = main.Item, by_value(main.Item, monkeypatch)
    assert found.__struct_fields__ == given.__struct_fields__
    assert repr(found("A", 1.5)) == repr(given("A", 1.5))
    line = b'{"someName": "A", "celsius": 2.5, "others": ["x"]}'
    assert repr(msgspec.json.decode(line, type=found)) == repr(msgspec.json.decode(line, type=given))
    for wrong in (b'{"celsius": 1}', b'{"someName": "a", "celsius": 1, "other": 1}', b'{"someName": 1}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(wrong, type=found)
    inner = by_value(main.Inner, monkeypatch)
    assert {inner(1): "frozen"}[inner(1)] == "frozen"


def test_a_struct_that_cannot_be_made_anew_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Once(msgspec.Struct):
        def __init_subclass__(cls) -> None:
            if cls.__name__ in made:
                raise ValueError("a class of this name exists")
            made.append(cls.__name__)

    made: list[str] = []

    class Derived(Once):
        number: int

    with pytest.raises(UnsupportedOperationError, match="cannot be sent to Spark's workers") as caught:
        make_picklable(Derived)
    assert "put the class into a module" in str(caught.value.hint)
