"""What selectors are recognised, and that a recognised one gives what its expression gives."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.aggregates import Binary, Constant, Element, Field, Item, Opaque, recognise
from windrow.aggregates.selectors import selected_type, selector_text
from windrow.functions import KeySelector

# Any in this module: selectors of all kinds of elements.


@dataclass(frozen=True)
class Place:
    lat: float
    name: str | None = None


@dataclass(frozen=True)
class Record:
    a: Any
    b: Any
    place: Place
    items: tuple[Any, ...]
    tags: dict[str, Any]

    @property
    def doubled(self) -> Any:
        return self.a * 2


scalars = st.one_of(st.integers(-5, 5), st.floats(-5, 5), st.sampled_from(["", "x", "%s"]), st.booleans(), st.none())
records = st.builds(
    Record,
    scalars,
    scalars,
    st.builds(Place, st.floats(-5, 5), st.sampled_from(["north", None])),
    st.tuples(scalars, scalars),
    st.fixed_dictionaries({"k": scalars}),
)
leaves = st.one_of(
    st.sampled_from(
        ["r", "r.a", "r.b", "r.doubled", "r.place.lat", "r.place.name", "r.items[0]", "r.items[-1]", "r.tags['k']"]
    ),
    st.sampled_from(["1", "0", "-3", "2.5", "'x'", "'%s'", "'plain'", "None", "True", "r.absent", "r.items[7]"]),
)
operators = st.sampled_from(["+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!="])
texts = st.recursive(
    leaves,
    lambda inner: st.one_of(st.builds("({} {} {})".format, inner, operators, inner), st.builds("(-{})".format, inner)),
    max_leaves=5,
)


def outcome(call: Callable[[], Any]) -> tuple[str, str]:
    """The value, or the error, as something that a NaN equals as well."""
    try:
        value = call()
    except Exception as error:
        return "raised", type(error).__name__
    return type(value).__name__, repr(value)


@settings(max_examples=600, derandomize=True, deadline=None)
@given(text=texts, element=records)
@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # such as 'x'[0] of a text in random code
def test_an_expression_gives_what_its_selector_gives(text: str, element: Record) -> None:
    selector: Callable[[Any], Any] = eval(f"lambda r: {text}")
    found = recognise(selector)
    if isinstance(found, Opaque):
        return
    assert outcome(lambda: found.evaluate(element)) == outcome(lambda: selector(element))


def test_most_expressions_are_recognised() -> None:
    """The property above would hold as well if everything were opaque."""
    of = Element()
    assert recognise(lambda r: r) == of
    assert recognise(lambda r: r.a) == Field(of, "a")
    assert recognise(lambda r: r.place.lat) == Field(Field(of, "place"), "lat")
    assert recognise(lambda r: r[0]) == Item(of, 0)
    assert recognise(lambda r: r["k"][-1]) == Item(Item(of, "k"), -1)
    assert recognise(lambda r: r.a * 2 + 1) == Binary("+", Binary("*", Field(of, "a"), Constant(2)), Constant(1))
    assert recognise(lambda r: 3 - r.a) == Binary("-", Constant(3), Field(of, "a"))
    assert recognise(lambda r: r.a > r.b) == Binary(">", Field(of, "a"), Field(of, "b"))
    assert recognise(remainder) == Binary("%", Field(of, "a"), Constant(2))
    assert recognise(operator.attrgetter("place.lat")) == Field(Field(of, "place"), "lat")
    assert recognise(operator.itemgetter(1)) == Item(of, 1)


factor = 3


def outer() -> Callable[[Any], Any]:
    enclosed = 2
    return lambda r: r.a * enclosed


class Key(KeySelector[Any, Any]):
    def get_key(self, value: Any) -> Any:
        return value.a


def named(record: Any) -> Any:
    return record.a


def remainder(record: Any) -> Any:
    """A docstring is no part of what is computed."""
    return record.a % 2


def by_steps(record: Any) -> Any:
    found = record.a
    return found + found


def two(record: Any, other: Any = None) -> Any:
    return record.a


def writes(record: Any) -> Any:
    record.a = 1
    return record.a


def gives(record: Any) -> Any:
    yield record.a


def test_a_named_function_is_recognised_like_a_lambda() -> None:
    assert recognise(named) == Field(Element(), "a")


OPAQUE: list[tuple[Callable[[Any], Any], str]] = [
    (lambda r: r.a * factor, "uses factor"),
    (outer(), "uses a variable of the function around it"),
    (lambda r: r.a * random.random(), "uses random"),
    (lambda r: len(r.items), "uses len"),
    (lambda r: r.place.name.upper(), "calls a function"),
    (lambda r: r.a or r.b, "decides something (if, and, or, not)"),
    (lambda r: r.a if r.b else 0, "decides something (if, and, or, not)"),
    (lambda r: not r.a, "decides something (if, and, or, not)"),
    (lambda r: r.a is None, "asks `is` or `in`"),
    (lambda r: r.a in (1, 2), "asks `is` or `in`"),
    (lambda r: r.a % 2 == "x", "may format a text"),
    (lambda r: "static" % r.tags, "may format a text"),  # noqa: F507, UP031  what is tested
    (lambda r: 7, "gives something else than a value of the element"),
    (lambda r: r.__class__, "reads __class__"),
    (lambda r: r.a * (1, 2), "computes with a constant of type tuple"),
    (lambda r: r[r.a], "asks for an item by something else than a number or a text"),
    (lambda r: "abc"[r.a], "raises TypeError when it is tried"),
    (two, "takes other arguments than an element"),
    (lambda *r: r[0], "takes other arguments than an element"),
    (writes, "changes something"),
    (Key(), "is a rich function"),
    (partial(two, other=1), "is not a plain function"),
    (operator.attrgetter("a", "b"), "gives something else than a value of the element"),
    (str, "is not a plain function"),
]


@pytest.mark.parametrize(("selector", "reason"), OPAQUE, ids=map(str, range(len(OPAQUE))))
def test_opaque(selector: Callable[[Any], Any], reason: str) -> None:
    assert recognise(selector) == Opaque(reason)


VARIED: list[Callable[[Any], Any]] = [
    lambda r: f"{r.a}",
    lambda r: (r.a, r.b),
    by_steps,
    gives,
    lambda r: [r.a],
    lambda r: 1 < r.a < 3,
]


@pytest.mark.parametrize("selector", VARIED, ids=["text", "tuple", "steps", "generator", "list", "chain"])
def test_opaque_for_whatever_reason(selector: Callable[[Any], Any]) -> None:
    """How Python compiles these changes from version to version, and the reason with it."""
    assert isinstance(recognise(selector), Opaque)


def test_a_selector_is_not_run_to_find_out_that_it_does_more() -> None:
    calls: dict[Any, Any] = {}
    assert isinstance(recognise(lambda r: calls.setdefault(1, r)), Opaque)
    assert isinstance(recognise(calls.setdefault), Opaque)
    assert calls == {}


TEXTS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda r: r.a, ".a"),
    (lambda r: r.place.lat, ".place.lat"),
    (lambda r: r[0]["k"], "[0]['k']"),
    (lambda r: (r.a - 1) * -r.b, "(.a - 1) * (-.b)"),
    (lambda r: (r.a + r.b).real, "(.a + .b).real"),
    (lambda r: r, "element"),
    (lambda r: len(r.items), "lambda"),
    (by_steps, "by_steps"),
]


@pytest.mark.parametrize(("selector", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_texts(selector: Callable[[Any], Any], text: str) -> None:
    assert selector_text(selector) == text


class Point(NamedTuple):
    x: int
    y: float | None


class Options(TypedDict):
    size: int


def annotated(point: Any) -> str | None:
    return str(point)


TYPES: list[tuple[Callable[[Any], Any], object, object]] = [
    (lambda r: r.x, Point, int),
    (lambda r: r.y, Point, float),
    (lambda r: r.x / 2, Point, float),
    (lambda r: r.x * 2, Point, int),
    (lambda r: r.x > 2, Point, bool),
    (lambda r: -r.x, Point, int),
    (lambda r: r["size"], Options, int),
    (lambda r: r[1], tuple[int, str], str),
    (lambda r: r[7], tuple[int, ...], int),
    (lambda r: r["k"].x, dict[str, Point], int),
    (lambda r: r.lat, Place, float),
    (annotated, Point, str),
    # Not known: a field that may be None cannot be computed with, so the annotation is wrong or the code is.
    (lambda r: r.y + 1, Point, None),
    (lambda r: r.z, Point, None),
    (lambda r: r.a, Record, None),
    (lambda r: r[2], tuple[int, str], None),
    (lambda r: r.x, None, None),
    (lambda r: len(r.x), Point, None),
]


@pytest.mark.parametrize(("selector", "element_type", "kind"), TYPES, ids=map(str, range(len(TYPES))))
def test_types(selector: Callable[[Any], Any], element_type: object, kind: object) -> None:
    assert selected_type(selector, element_type) == kind
