"""What selectors are recognised, and that a recognised one gives what its expression gives."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from windrow.aggregates import Opaque, recognise
from windrow.aggregates.selectors import selected_type, selector_text
from windrow.expressions.tree import Binary, Conditional, Constant, Element, Field, Item
from windrow.expressions.tree import Record as MadeRecord
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


class Point(NamedTuple):
    x: Any
    y: Any = None


TABLE = {1: "one", "x": 2, None: 0.5, 2.5: True}


def helper(value: Any) -> Any:
    """Goes one of three ways."""
    doubled = value * 2
    if value == 1:
        return doubled
    return value if doubled > 3 else -value


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
FORMS = [
    *("(-{})", "({} if {} else {})", "({} and {})", "({} or {})", "(not {})", "({} < {} <= {})"),
    *("({} in {{1, 'x', None}})", "({} not in ({}, 2))", "table.get({}, {})", "table[{}]", "helper({})"),
    *("min({}, {})", "({}, {})", "pair({}, {})", "str({}).upper()", "({}).startswith('x')"),
]
texts = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, operators, inner),
        st.builds("{}({})".format, st.sampled_from(["int", "float", "len", "abs"]), inner),
        st.builds("({}).split('x')[{}]".format, inner, st.sampled_from(["0", "1", "-1"])),
        *[st.builds(form.format, *[inner] * form.count("{}")) for form in FORMS],
    ),
    max_leaves=6,
)


def outcome(call: Callable[[], Any]) -> tuple[str, str]:
    """The value, or the error, as something that a NaN equals as well."""
    try:
        value = call()
    except Exception as error:
        # Of several errors that parts would raise, the one or the other comes first.
        return "raised", "" if isinstance(error, (AttributeError, TypeError, LookupError, ValueError)) else str(error)
    return type(value).__name__, repr(value)


@examples(260)
@given(text=texts, element=records)
@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # such as 'x'[0] of a text in random code
def test_an_expression_gives_what_its_selector_gives(text: str, element: Record) -> None:
    selector: Callable[[Any], Any] = eval(f"lambda r: {text}", {"helper": helper, "table": TABLE, "pair": Point})
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
    assert recognise(named) == Field(of, "a")
    assert recognise(remainder) == Binary("%", Field(of, "a"), Constant(2))
    assert recognise(operator.attrgetter("place.lat")) == Field(Field(of, "place"), "lat")
    assert recognise(operator.itemgetter(1)) == Item(of, 1)
    assert recognise(operator.attrgetter("a", "b")) == MadeRecord(tuple, (("0", Field(of, "a")), ("1", Field(of, "b"))))
    assert recognise(outer()) == Binary("*", Field(of, "a"), Constant(2))
    assert recognise(lambda r: r.a or r.b) == Conditional(Field(of, "a"), Field(of, "a"), Field(of, "b"))
    assert recognise(lambda r: not r.a) == Conditional(Field(of, "a"), Constant(False), Constant(True))


factor = 3
PLACES = {1: "here", 2: "there"}


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


def in_vain(record: Any) -> Any:
    ratio = record.a / record.b
    return ratio if record.a else record.b


def writes(record: Any) -> Any:
    record.a = 1
    return record.a


def gives(record: Any) -> Any:
    yield record.a


def endless(record: Any) -> Any:
    return endless(record) if record.a else 0


def guarded(record: Any) -> Any:
    try:
        return record.a
    except AttributeError:
        return 0


def counted(record: Any) -> Any:
    total = 0
    for item in record.items:
        total += item
    return total


class Checked(NamedTuple("Checked", [("a", int)])):
    def __new__(cls, a: int) -> Checked:
        return super().__new__(cls, abs(a))


@dataclass(frozen=True)
class Guarded:
    a: int

    def __post_init__(self) -> None:
        assert self.a


@dataclass
class Clamped:
    a: int

    @property  # type: ignore[no-redef]  # the idiom of the manual for a field that a property keeps
    def a(self) -> int:
        return self._a

    @a.setter
    def a(self, value: int) -> None:
        self._a = min(value, 100)


FORMAT, STATIC = "%d", "no directive"
FORMATS = {"static": "no directive"}


def formatted(value: Any, text: str = STATIC) -> Any:
    return text % value  # Python raises


def formatted_as(text: str, value: Any) -> Any:
    return text % value


def joined() -> str:
    return STATIC + FORMAT


CALLS: dict[str, Callable[..., Any]] = {"inc": lambda value: value, "next": iter(range(9)).__next__}
SEEN: dict[str, list[Any]] = {"seen": []}

OPAQUE: list[tuple[Callable[[Any], Any], str]] = [
    (lambda r: r.a * random.random(), "uses random"),
    (lambda r: str(r.a), "uses str"),
    (lambda r: r.a is None, "asks `is`"),
    (lambda r: 1 if r.a is None else 2, "asks `is`"),
    (lambda r: r.a % r.b == "x", "may format a text"),
    (lambda r: "static" % r.tags, "may format a text"),  # noqa: F507, UP031  what is tested
    (lambda r: FORMAT % r.a, "may format a text"),
    (lambda r: STATIC % r.a, "may format a text"),
    (lambda r: STATIC % (r.a if 3 > 2 else 3), "may format a text"),  # noqa: PLR0133  what is tested
    (lambda r: FORMATS["static"] % r.a, "may format a text"),
    (lambda r, text=STATIC: text % r.a, "takes other arguments than an element"),  # type: ignore[misc]  # a default that callers do not give
    (lambda r: formatted(r.a), "may format a text"),
    (lambda r: formatted_as(STATIC, r.a), "may format a text"),
    (lambda r: joined() % r.a, "may format a text"),
    (lambda r: f"{r.a}", "makes a text"),
    (lambda r: [r.a], "computes with a constant of type list"),
    (lambda r: {r.a}, "makes a collection"),
    (lambda r: {r.a: 1}[1], "takes a value for a key"),
    (lambda r: 7, "gives something else than a value of the element"),
    (lambda r: r.__class__, "reads __class__"),
    (lambda r: r.a.__add__(1), "reads __add__"),
    (lambda r: r.a * (1, 2), "computes with a constant of type tuple"),
    (lambda r: r[r.a], "asks for an item by something else than a number or a text"),
    (lambda r: "abc"[r.a], "raises TypeError when it is tried"),
    (lambda r: r.a.fit(x=1), "calls a value, or a method with arguments by name"),
    (lambda r: Checked(r.a), "uses Checked"),
    (lambda r: Guarded(r.a), "uses Guarded"),
    (lambda r: Clamped(r.a).a, "uses Clamped"),
    (lambda r: CALLS["inc"](r.a), "uses CALLS"),
    (lambda r: SEEN["seen"].append(r.a) or r.a, "uses SEEN"),  # type: ignore[func-returns-value]  # what is tested
    (lambda r: r.items.pop() * 2, "calls pop, which may change something"),
    (lambda r: (r.place.lat, r.b)[1], "computes something that it does not use"),
    (in_vain, "computes something that it does not use"),
    (lambda r: Point(r.a, r.b) if r.a else None, "makes a record or gives something else"),
    (endless, "calls endless, which calls itself"),
    (guarded, "handles errors"),
    (counted, "repeats something"),
    (two, "takes other arguments than an element"),
    (lambda *r: r[0], "takes other arguments than an element"),
    (writes, "changes something"),
    (Key(), "is a rich function"),
    (partial(two, other=1), "is not a plain function"),
    (str, "is not a plain function"),
]


@pytest.mark.parametrize(("selector", "reason"), OPAQUE, ids=map(str, range(len(OPAQUE))))
def test_opaque(selector: Callable[[Any], Any], reason: str) -> None:
    assert recognise(selector) == Opaque(reason)


def test_sets_and_dicts_of_two_questions_are_told_apart() -> None:
    """A function that asks the same of two collections asks two things."""
    found = recognise(lambda r: 1 if r.a in {1, 2} else 2 if r.a in {3, 4} else 3)
    assert not isinstance(found, Opaque)
    elements = [Record(number, None, Place(0.0), (), {}) for number in range(6)]
    assert [found.evaluate(element) for element in elements] == [3, 1, 1, 2, 2, 3]


def test_a_generator_is_opaque() -> None:
    """How Python compiles a generator changes from version to version, and the reason with it."""
    assert isinstance(recognise(gives), Opaque)


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
    (lambda r: len(r.items), "len(.items)"),
    (by_steps, ".a + .a"),
    (counted, "counted"),
    (helper, "helper"),
    (lambda r: r.a if r.a > 3 else -r.b, ".a if .a > 3 else (-.b)"),
    (lambda r: 1 < r.a < 3, "(.a < 3) if .a > 1 else (.a > 1)"),
    (lambda r: r.a.split("/")[2], ".a.split('/')[2]"),
    (lambda r: "x" in r.a, "'x' in .a"),
    (lambda r: r.a in {3, 4}, ".a in {3, 4}"),
    (lambda r: PLACES.get(r.a, "none"), "PLACES.get(.a, 'none')"),
    (lambda r: (r.a,), "(.a,)"),
    (lambda r: Point(r.a, y=2.5), "Point(x=.a, y=2.5)"),
    (lambda r: Point(*(r.a, r.b)), "Point(x=.a, y=.b)"),
    (lambda r: Point(x=r.a), "Point(x=.a, y=None)"),
    (lambda r: abs(r.a) * factor, "abs(.a) * factor"),
    (lambda r: datetime.fromtimestamp(r.a // 1000, UTC).strftime("%H"), "utc(.a // 1000).strftime('%H')"),
    (lambda r: datetime.fromtimestamp(r.a, UTC).strftime("%H"), "utc(.a).strftime('%H')"),
]


@pytest.mark.parametrize(("selector", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_texts(selector: Callable[[Any], Any], text: str) -> None:
    assert selector_text(selector) == text


class Pair(NamedTuple):
    x: int
    y: float | None


def annotated(point: Any) -> str | None:
    return str(point)


TYPES: list[tuple[Callable[[Any], Any], object, object]] = [
    (lambda r: r.x, Pair, int),
    (lambda r: r.y, Pair, float),
    (lambda r: r.x if r.x > 2 else None, Pair, int),
    (annotated, Pair, str),
    (lambda r: (r.x, r.x / 2), Pair, tuple[int, float]),
    (lambda r: r[1], tuple[int, str], str),
    (lambda r: r[7], tuple[int, ...], int),
    (lambda r: r["k"].x, dict[str, Pair], int),
    (lambda r: r.lat, Place, float),
    # Not known.
    (lambda r: r.z, Pair, None),
    (lambda r: r.z if r.x > 2 else None, Pair, None),
    (lambda r: r.a, Record, None),
    (lambda r: r[2], tuple[int, str], None),
    (lambda r: r.x, None, None),
]
"""The types of selectors, without None; :mod:`tests.dsl.test_derived_types` has those of all kinds of functions."""


@pytest.mark.parametrize(("selector", "element_type", "kind"), TYPES, ids=map(str, range(len(TYPES))))
def test_types(selector: Callable[[Any], Any], element_type: object, kind: object) -> None:
    assert selected_type(selector, element_type) == kind
