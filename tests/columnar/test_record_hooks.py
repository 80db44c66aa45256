"""Columns keep to records whose classes only keep their fields; code of a class that runs is honoured by objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.columnar.planning import sink_routes
from windrow import Pipeline, from_collection, from_source
from windrow import aggregates as agg
from windrow.aggregates import Opaque, recognise
from windrow.plan.records import hook_of
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import ParquetFileSource
from windrow_runtime.codecs.arrow.json_columns import line_by_line
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.records import record_fields
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology
from windrow_spark.columnar.forms.route_step import check_made
from windrow_spark.columnar.results import record_columns

# Any in this module: records of classes of every kind.

T = TypeVar("T")


@dataclass(frozen=True)
class Frozen:
    a: int


@dataclass
class Open:
    a: int
    b: int = 3
    c: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Slotted:
    a: int


@dataclass
class Filled(Generic[T]):
    a: T


@dataclass(frozen=True)
class Methods:
    """Methods, properties that are no fields, and what is asked for a field that is not there, change nothing."""

    a: int

    def __getattr__(self, name: str) -> int:
        return 7

    @property
    def twice(self) -> int:
        return self.a * 2


class Point(NamedTuple):
    a: int
    b: int = 0

    def norm(self) -> int:
        return self.a + self.b


class Keyed(TypedDict):
    a: int


class Struct(msgspec.Struct):
    a: int


PLAIN = [Frozen, Open, Slotted, Filled, Methods, Point, Keyed, Struct]


@pytest.mark.parametrize("kind", PLAIN)
def test_these_only_keep_their_fields(kind: type[Any]) -> None:
    assert hook_of(kind) is None


def negate(self: object, name: str, value: object) -> None:
    object.__setattr__(self, name, -value if isinstance(value, int) else value)


def in_cents(self: object, name: str) -> Any:
    value = object.__getattribute__(self, name)
    return value * 100 if name == "a" else value


@dataclass
class Lower:
    """Normalises what it is given."""

    a: int
    __setattr__ = negate


class Negating:
    """A mixin."""

    __setattr__ = negate


@dataclass
class Mixed(Negating):
    a: int


@dataclass
class SlotsMixed(Negating):
    __slots__ = ("a",)
    a: int


class Meta(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        made.a = -made.a
        return made


class MetaOfMeta(Meta):
    pass


@dataclass
class ByMeta(metaclass=MetaOfMeta):
    a: int


class StructMeta(msgspec.StructMeta):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        made.a = -made.a
        return made


class StructByMeta(msgspec.Struct, metaclass=StructMeta):
    a: int


@dataclass(frozen=True)
class Euro:
    a: int
    __getattribute__ = in_cents


class StructEuro(msgspec.Struct):
    a: int
    __getattribute__ = in_cents


class Padded(NamedTuple):
    a: int

    def __getitem__(self, place: Any) -> Any:
        return tuple.__getitem__(self, place) + 1


class Doubled(NamedTuple):
    a: int

    def __iter__(self) -> Iterator[Any]:
        return (each * 2 for each in tuple.__iter__(self))


class TupleEuro(NamedTuple):
    a: int

    def __getattribute__(self, name: str) -> Any:
        return in_cents(self, name)


class Swapped(NamedTuple):
    a: int
    b: int = 5


Swapped.a = Swapped.b


class Derived(Point):
    def __new__(cls, a: int, b: int = 0) -> Derived:
        return super().__new__(cls, abs(a), b)


@dataclass
class New:
    a: int

    def __new__(cls, a: int) -> Any:
        return Frozen(a + 1)


class NewMixin:
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)


@dataclass
class MixedNew(NewMixin):
    a: int


@dataclass
class Initialised:
    a: int

    def __init__(self, a: int) -> None:
        self.a = a + 1


class Wrapping:
    def __init_subclass__(cls) -> None:
        def initialise(self: Any, a: int) -> None:
            self.a = a + 1

        cls.__init__ = initialise  # type: ignore[assignment, method-assign]  # what is tested


@dataclass
class Wrapped(Wrapping):
    a: int


@dataclass
class Posted:
    a: int

    def __post_init__(self) -> None:
        self.a += 1


class Above:
    """A descriptor."""

    def __get__(self, instance: object, owner: type) -> int:
        return 0 if instance is None else vars(instance).get("_a", 0) + 1

    def __set__(self, instance: object, value: int) -> None:
        vars(instance)["_a"] = value


@dataclass
class Described:
    a: int = Above()  # type: ignore[assignment]  # a descriptor in the place of a default


@dataclass
class Property:
    a: int


Property.a = property(lambda self: 5, lambda self, value: None)  # type: ignore[assignment]  # what is tested


@dataclass(slots=True)
class SlotReplaced:
    a: int
    b: int = 2


SlotReplaced.a = SlotReplaced.b  # type: ignore[misc]  # what is tested


class StructProperty(Struct):
    pass


StructProperty.a = property(lambda self: 9)  # type: ignore[assignment]  # what is tested


HOOKS: dict[str, list[type[Any]]] = {
    "__setattr__": [Lower, Mixed, SlotsMixed],
    "metaclass with a __call__": [ByMeta, StructByMeta],
    "__getattribute__": [Euro, StructEuro, TupleEuro],
    "__getitem__": [Padded],
    "__iter__": [Doubled],
    "property in the place of a field": [Swapped, Described, Property, SlotReplaced, StructProperty],
    "constructor of its own": [Derived, New, MixedNew, Initialised, Wrapped],
    "__post_init__": [Posted],
}
HOOKED = [(kind, hook) for hook, kinds in HOOKS.items() for kind in kinds]
CLASSES = [kind for kind, _ in HOOKED]


@pytest.mark.parametrize(("kind", "hook"), HOOKED, ids=[kind.__name__ for kind in CLASSES])
def test_all_who_ask_learn_of_a_hook(kind: type[Any], hook: str) -> None:
    """Sources of files, maps, windows and joins, sinks, and the exchange."""
    assert hook_of(kind) == hook
    element = record_type(kind)
    with pytest.raises(DeclinedError, match=f"{kind.__name__} has a {hook}"):
        check_made(element)
    assert line_by_line(element) == f"{kind.__name__} has a {hook}"
    assert record_fields(kind) == ()
    columns = [pa.array([1]) for _ in element.columns]
    names = [each.name for each in element.columns]
    assert record_columns(kind, names, columns, element) is None
    assert recognise(lambda r: kind(r.a)) == Opaque("uses kind")


def function_of(kind: type[Any]) -> Callable[[Any], Any]:
    return (lambda e: Frozen(e[0])) if issubclass(kind, tuple) else (lambda e: Frozen(e.a))


@pytest.mark.parametrize("kind", CLASSES)
def test_a_source_of_them_is_declined_or_gives_what_the_interpreter_gives(kind: type[Any], tmp_path: Path) -> None:
    file, sink = tmp_path / "in.parquet", CollectSink[Any]()
    pq.write_table(pa.table({name: [1, 2] for name in ("a", "b")}), file)
    stream = from_source(ParquetFileSource(file, kind)).map(function_of(kind))
    objects = LocalRunner().run(Pipeline("p", stream.sink_to(sink))).collected(sink)
    assert objects
    topology = Topology(Pipeline("p", stream.sink_to(ParquetFileSink(tmp_path / "out"))).steps)
    with pytest.raises(DeclinedError):
        sink_routes(topology)


@pytest.mark.parametrize("kind", [Lower, Mixed, ByMeta, StructByMeta, New, MixedNew, Posted, Initialised, Frozen, Open])
def test_json_is_read_by_the_constructor(kind: type[Any]) -> None:
    """msgspec makes records past it."""
    text = '{"a": 4, "b": 5, "c": []}' if kind is Open else '{"a": 4}'
    made = JsonDecoder(record_type(kind)).decode(text)
    expected = kind(4, 5, []) if kind is Open else kind(4)
    assert (type(made), getattr(made, "a", None)) == (type(expected), expected.a)


def test_into_of_a_hooked_class_is_made_by_it() -> None:
    sink = CollectSink[Any]()
    stream = from_collection([Frozen(1), Frozen(2)]).key_by(lambda e: 1).count_window(2)
    lowered = stream.aggregate(agg.into(Lower, agg.sum(lambda e: e.a)))
    made = LocalRunner().run(Pipeline("p", lowered.sink_to(sink))).collected(sink)
    assert [each.a for each in made] == [-3]
