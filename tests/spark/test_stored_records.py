"""Records that are read from stored bytes: they are as they were, and code of their classes does not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, Flag
from typing import Any, NamedTuple

import msgspec
import pytest

from windrow.errors import CheckpointError, IncompatibleStateError, UnsupportedOperationError
from windrow_runtime.codecs.records import UserClass
from windrow_spark.checkpoint.plan_shape import type_shape
from windrow_spark.storage.packed import packed
from windrow_spark.storage.values import StateCodec

# Any in this module: values of every class.

ran: list[str] = []
"""The code of the classes below that ran."""


class Counted(msgspec.Struct, gc=False):
    """Its ``__post_init__`` changes it each time."""

    number: int
    parts: list[int] = []

    def __post_init__(self) -> None:
        ran.append("Counted")
        self.number += 1


class Registered(msgspec.Struct, frozen=True):
    def __init_subclass__(cls, **_: object) -> None:
        ran.append("Registered")


class Frozen(Registered, frozen=True, kw_only=True, rename="camel", tag="f", cache_hash=True):
    some_name: str = ""
    number: int

    def __post_init__(self) -> None:
        ran.append(type(self).__name__)


class Mixed:
    def doubled(self) -> str:
        return "doubled"


class Referred(Mixed, msgspec.Struct, weakref=True, dict=True):
    number: int

    def __post_init__(self) -> None:
        ran.append(type(self).__name__)


class Derived(Frozen, frozen=True):
    more: float = 1.5


class Nothing(msgspec.Struct, frozen=True):
    def __post_init__(self) -> None:
        ran.append(type(self).__name__)


class Guarded(msgspec.Struct):
    number: int

    def __setattr__(self, name: str, value: object) -> None:
        ran.append("Guarded")
        super().__setattr__(name, value)


@dataclass
class Watched:
    number: int
    note: str = "none"

    def __setattr__(self, name: str, value: object) -> None:
        ran.append("Watched")
        object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Checked:
    number: int

    def __post_init__(self) -> None:
        ran.append(type(self).__name__)


class Described:
    """A descriptor, which runs when the attribute of its name is set."""

    def __get__(self, instance: Any, owner: type[Any]) -> int:
        return 0 if instance is None else int(instance.__dict__["_number"])

    def __set__(self, instance: Any, value: int) -> None:
        ran.append("Descriptor")
        instance.__dict__["_number"] = value


@dataclass
class Descriptor:
    number: Described = Described()


class Loud(type):
    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        ran.append("Loud")
        return super().__call__(*arguments, **named)


@dataclass
class Called(metaclass=Loud):
    number: int


@dataclass
class Made:
    number: int

    def __new__(cls, *_: object) -> Made:
        ran.append("Made")
        return object.__new__(cls)


class Intercepted:
    def __init__(self) -> None:
        self.held = 1

    def __getattribute__(self, name: str) -> Any:
        ran.append("Intercepted")
        return object.__getattribute__(self, name)


class Pair(tuple[int, int]):
    _fields = ("a", "b")

    def __new__(cls, a: int, b: int) -> Pair:
        ran.append("Pair")
        return tuple.__new__(cls, (a, b))


class Rights(Flag):
    READ = 1
    WRITE = 2


VALUES: list[Callable[[], Any]] = [
    lambda: Counted(1, [2]),
    lambda: Frozen(number=3, some_name="a"),
    lambda: Referred(1),
    lambda: Derived(number=3, more=2.5),
    Nothing,
    lambda: Guarded(1),
    lambda: Watched(1),
    lambda: Checked(1),
    lambda: Descriptor(5),
    lambda: Called(1),
    lambda: Made(1),
    Intercepted,
    lambda: Pair(1, 2),
    lambda: Rights.READ | Rights.WRITE,
]


@pytest.fixture(autouse=True)
def nothing_ran() -> Iterator[None]:
    ran.clear()
    yield
    ran.clear()


@pytest.mark.parametrize("make", VALUES, ids=[type(make()).__name__ for make in VALUES])
def test_records_come_back_as_they_were_and_no_code_of_theirs_runs(make: Callable[[], Any]) -> None:
    values = [make(), make()]
    codec = StateCodec([UserClass(type(values[0]), {})])
    data = codec.dumps(values)
    before = list(map(repr, values)), [getattr(value, "__dict__", None) for value in values]
    ran.clear()
    found = codec.loads(data)
    assert ran == []
    assert [type(value) for value in found] == [type(value) for value in values]
    if type(values[0]) is not Intercepted:
        assert found == values
        assert list(map(repr, found)) == before[0]
    assert [getattr(value, "__dict__", None) for value in found] == before[1]


def test_a_struct_that_is_read_is_like_one_that_was_made() -> None:
    codec = StateCodec([UserClass(Counted, {}), UserClass(Frozen, {})])
    (found,) = codec.unpack(codec.pack([Counted(1)]))
    assert found.number == 2
    found.number = 7
    assert msgspec.json.encode(found) == b'{"number":7,"parts":[]}'
    (frozen,) = codec.unpack(codec.pack([Frozen(number=3)]))
    assert {frozen: 1}[Frozen(number=3)] == 1
    assert msgspec.json.encode(frozen) == b'{"type":"f","someName":"","number":3}'
    with pytest.raises(AttributeError):
        frozen.number = 4


class Old(NamedTuple):
    number: int


def evolved(kind: type[Any]) -> Any:
    """What a class makes of a record that was stored with one field."""
    stored = StateCodec([UserClass(Old, {}, "Evolving")]).pack([Old(1)])
    name = f"{kind.__module__}:Evolving"
    codec = StateCodec([UserClass(kind, {}, "Evolving")])
    (found,) = codec.unpack(packed("r", scalars=[name, "number"], columns=stored.columns))
    return found


class NewStruct(msgspec.Struct):
    number: int
    note: str = "none"
    parts: list[int] = []

    def __post_init__(self) -> None:
        ran.append(type(self).__name__)


class NewTuple(NamedTuple):
    number: int
    note: str = "none"


@dataclass
class NewData:
    note: str = "none"
    number: int = 0
    parts: dict[str, int] = field(default_factory=dict)


def made_of(kind: str) -> list[int]:
    ran.append(kind)
    return []


@dataclass
class WithFactory:
    number: int
    parts: list[int] = field(default_factory=lambda: made_of("WithFactory"))


@dataclass
class WithoutDefault:
    number: int
    more: int


class StructWithFactory(msgspec.Struct):
    number: int
    parts: list[int] = msgspec.field(default_factory=lambda: made_of("StructWithFactory"))


def test_new_fields_have_their_defaults_and_no_function_is_called() -> None:
    assert evolved(NewTuple) == NewTuple(1)
    assert evolved(NewData) == NewData(number=1)
    expected = NewStruct(1)
    ran.clear()
    assert evolved(NewStruct) == expected
    for kind in (WithFactory, StructWithFactory, WithoutDefault):
        with pytest.raises(IncompatibleStateError, match="do not fit the class as it is now") as caught:
            evolved(kind)
        assert "such as list as its factory" in str(caught.value.hint)
    assert ran == []


def test_a_restart_is_refused_where_a_function_would_have_to_fill_in_a_field() -> None:
    shapes: dict[type[Any], Any] = {kind: type_shape(kind) for kind in (NewStruct, NewData, WithFactory)}
    assert all(shape["by field"] for shape in shapes.values())
    filled = {kind: shape["fields"]["parts"]["default"] for kind, shape in shapes.items()}
    assert filled == {NewStruct: True, NewData: True, WithFactory: False}


class Found(Enum):
    RED = 1

    @classmethod
    def _missing_(cls, value: object) -> Any:
        ran.append("Found")
        made: Any = object.__new__(cls)
        made._name_, made._value_ = f"made {value}", value
        return made


def test_members_that_code_of_the_enum_makes_are_refused() -> None:
    codec = StateCodec([UserClass(Found, {}), UserClass(Rights, {})])
    with pytest.raises(UnsupportedOperationError, match="cannot be stored"):
        codec.pack([Found(7)])
    ran.clear()
    for name, value in (("Found", 7), ("Rights", "x"), ("Rights", 4.0)):
        with pytest.raises(CheckpointError):
            codec.unpack(packed("E", scalars=[f"{__name__}:{name}"], columns=[codec.pack([value])]))
    assert ran == []
