"""The classes that functions name in their code."""

# ruff: noqa: PLW0108, PLC3002  lambdas that call a function are what is tested

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import msgspec
import pytest

import tests.spark.comparison  # noqa: F401  a function imports from it when it is called
from windrow.errors import WindrowError
from windrow.facts.reached import named_classes, reached_texts
from windrow.functions import AggregateFunction, MapFunction
from windrow.rolling import RollingReduce

THIS = sys.modules[__name__]

# Any in this module: functions of every type.


class Color(Enum):
    RED = "red"


class Unit(Enum):
    CELSIUS = "C"


@dataclass(frozen=True)
class Inner:
    unit: Unit


@dataclass(frozen=True)
class Reading:
    sensor: str
    inner: Inner | None = None


class Point(NamedTuple):
    x: int


class Tag(msgspec.Struct):
    name: str


class Plain:
    def __init__(self, tag: object) -> None:
        self.tag = tag


class BrokenError(WindrowError):
    pass


class Named(Protocol):
    name: str


class Shape:
    """Makes others of its kind by name."""

    kinds: dict[str, type[Shape]] = {}  # noqa: RUF012  a register of subclasses

    @classmethod
    def of(cls, name: str) -> Shape:
        return cls.kinds[name]()

    @property
    def tag(self) -> object:
        return Tag("shape")


class Circle(Shape):
    pass


Shape.kinds["circle"] = Circle


def parsed(line: str) -> Any:
    return made(line) if line else None


def made(line: str) -> Any:
    return Reading(line) if line else [Point(len(part)) for part in line]


def imports_when_called(line: str) -> Any:
    from tests.spark.comparison import Event

    return Event, line


@functools.cache
def cached(line: str) -> Any:
    return Point(len(line))


class Parse(MapFunction[str, Any]):
    def __init__(self, make: Callable[[str], Any]) -> None:
        self._make = make

    def map(self, value: str) -> Any:
        return Plain(self._make(value))


TABLE = {"a": Color.RED, "b": Reading("b")}


class Sum(AggregateFunction[Any, Any, Any]):
    def create_accumulator(self) -> Any:
        return Plain(None)

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return Point(1)

    def merge(self, a: Any, b: Any) -> Any:
        return a


def names(*functions: object) -> set[str]:
    return {kind.__name__ for kind in named_classes(functions)}


def test_code_names_classes() -> None:
    local = made
    cases: list[tuple[object, set[str]]] = [
        (lambda line: Reading(line), {"Reading", "Inner", "Unit"}),
        (lambda line: THIS.Point(line), {"Point"}),
        (lambda line: Color.RED if line else Color("red"), {"Color"}),
        (lambda line: [Point(part) for part in line], {"Point"}),
        (lambda line: [(lambda: Point(part))() for part in line], {"Point"}),
        (lambda line: parsed(line), {"Reading", "Inner", "Unit", "Point"}),
        (lambda line: local(line), {"Reading", "Inner", "Unit", "Point"}),
        (lambda line, make=Point: make(line), {"Point"}),
        (functools.partial(lambda make, line: make(line), Point), {"Point"}),
        (functools.partial(parsed), {"Reading", "Inner", "Unit", "Point"}),
        (lambda line: cached(line), {"Point"}),
        (lambda line: TABLE[line], {"Color", "Reading", "Inner", "Unit"}),
        (imports_when_called, {"Event"}),
        (Parse(lambda line: Point(len(line))), {"Plain", "Point"}),
        (Parse(lambda line: line).map, {"Plain"}),
        (RollingReduce(lambda a, b: Point(1), "reduce"), {"Point"}),
        (Sum(), {"Plain", "Point"}),
        (lambda name: Shape.of(name), {"Shape", "Circle", "Tag"}),
        (Reading, {"Reading", "Inner", "Unit"}),
        (Point._make, {"Point"}),
    ]
    for function, expected in cases:
        assert names(function) == expected


def test_nothing_else_is_found() -> None:
    def local(value: Named | None) -> Any:
        if not value:
            raise BrokenError("nothing")
        return subprocess.Popen, threading.Lock, MapFunction, value

    assert names(local, len, None, "Reading", sys) == set()


def test_classes_of_modules_that_nobody_can_import_are_left_out() -> None:
    """Compiled packages say of their classes that they are of a module such as `cimpl`; no worker could load them."""
    compiled = type("NewTopic", (), {"__module__": "cimpl"})
    assert names(lambda value: compiled(value)) == set()


def test_what_pytest_puts_into_assertions_leads_nowhere() -> None:
    def checked(line: str) -> str:
        assert line == "a"
        return line

    assert "_call_reprcompare" in checked.__code__.co_names
    assert reached_texts([checked]) == {each for each in checked.__code__.co_consts if isinstance(each, str)}


def test_nothing_is_run() -> None:
    class Proxy:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"asked for {name}")

    proxy = Proxy()
    assert names(lambda line: proxy.make(line)) == {"Proxy"}


def test_a_cycle_of_functions_and_containers_ends() -> None:
    def first() -> object:
        return second()

    def second() -> object:
        return first(), held, Point

    held: list[Any] = [first]
    held.append(held)
    assert names(first) == {"Point"}


def test_of_an_installed_package_the_nearest_functions_alone_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("parsers")
    package.__file__ = "/usr/lib/site-packages/parsers/__init__.py"
    monkeypatch.setitem(sys.modules, "parsers", package)
    exec(PACKAGE, package.__dict__)
    found = names(lambda line: package.parse(line))
    assert found == {"First", "Second"}
    # One that the plan is made of is the user's own.
    assert names(package.parse) == {"First", "Second", "Third", "Fourth", "Service"}


PACKAGE = """
from typing import NamedTuple

class First(NamedTuple):
    x: int

class Second(First):
    pass

class Third(First):
    pass

class Fourth(First):
    pass

class Service:
    pass

def parse(line):
    return second(line), First

def second(line):
    return third(line), Second, Service

def third(line):
    return fourth(line), Third

def fourth(line):
    return Fourth
"""
