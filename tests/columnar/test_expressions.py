"""What functions compute on columns, against what they give for each element."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, get_origin

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.budget import examples
from tests.columnar.planning import sink_routes
from windrow import Pipeline, from_collection
from windrow.aggregates import Opaque, recognise
from windrow.errors import UserFunctionError
from windrow.expressions.built_in import CALLS as BUILT_IN_CALLS
from windrow.expressions.built_in import METHOD_TYPES
from windrow.expressions.constant_texts import collection_digest
from windrow.sinks import CollectSink
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import Kind, RecordType
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology
from windrow_spark.columnar.expressions.built_in_on_columns import CALLS, METHODS, NotInColumnsError
from windrow_spark.columnar.expressions.over_columns import column_expression
from windrow_spark.columnar.forms.route_step import expression_of, keying_step
from windrow_spark.columnar.rows.columns import python_values

# Any in this module: functions of all kinds of results.


@dataclass(frozen=True)
class Bid:
    price: int
    share: float
    url: str
    is_open: bool
    channel: str | None


@dataclass(frozen=True)
class Envelope:
    price: str  # has the name of a field within
    bid: Bid
    other: Bid | None = None


KIND = record_type(Bid)
ENVELOPE = record_type(Envelope)
TABLE = {1: "one", 2: "two", -7: "minus"}
NUMBERS = {1: 60, 2: 2**62, 3: -1}
NAMES = {"one": "first", "x": "none"}
FLOATS = {"a": 0.5, "x/y": -0.0}


def tier(price: int) -> str:
    """Goes one of three ways."""
    if price < 0:
        return "low"
    return "mid" if price < 3 else "high"


def twice(value: Any) -> Any:
    """Uses each value twice, twice over."""
    value = value * 2 - value
    return value - value * 2


FORMAT = "no directive"


def minute(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S|")


bids = st.builds(
    Bid,
    st.one_of(st.integers(-9, 9), st.sampled_from([2**62, -(2**63), 2**63 - 1, 2**53 + 1, 10**11, 253_402_300_800])),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(["", "a", "x/y", "a/b/c", "//", "ÄbÇ", "aXa", "x", "İ", "𝄞a", "\x1ca \u3000", " \t"]),
    st.booleans(),
    st.sampled_from(["Apple", None]),
)
INTS = ["b.price", "3", "-1", "0", "len(b.url)", "b.url.count('a')", "int(b.is_open)", "2**40", str(2**63)]
INTS += ["NUMBERS.get(b.price, 0)", "NUMBERS[b.price]", "NUMBERS.get(len(b.url), -5)"]
TEXTS = ["b.url", "'a'", "'x/y'", "tier(b.price)", "minute(b.price)", "minute(NUMBERS.get(b.price, 86400))"]
TEXTS += ["TABLE.get(b.price, 'Ä')", "NAMES[TABLE.get(b.price, 'x')]"]
FLOATING = ["b.share", "0.5", "-0.0", "FLOATS[b.url]"]

COMPARISONS = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])

ints = st.recursive(
    st.sampled_from(INTS),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(["//", "%"]), st.sampled_from(["3", "7", "60", "-2"])),
        st.builds("({}{})".format, st.sampled_from(["-", "+"]), inner),
        st.builds("abs({})".format, inner),
        st.builds("({} if {} else {})".format, inner, inner.map("{} > 2".format), inner),
        st.builds("min({}, {})".format, inner, inner),
        st.builds("twice({})".format, inner),
        st.builds("NUMBERS.get({}, {})".format, inner, inner),
    ),
    max_leaves=4,
)
floats = st.recursive(
    st.sampled_from(FLOATING),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), st.one_of(inner, ints)),
        st.builds("({} / 4)".format, st.one_of(inner, ints)),
        st.builds("float({})".format, st.one_of(inner, ints)),
        st.builds("(-{})".format, inner),
        st.builds("twice({})".format, inner),
    ),
    max_leaves=3,
)
texts = st.recursive(
    st.sampled_from(TEXTS),
    lambda inner: st.one_of(
        st.builds("{}.{}()".format, inner, st.sampled_from(["lower", "strip", "upper"])),
        st.builds("{}.split('/')[{}]".format, inner, st.sampled_from(["0", "1", "2"])),
        st.builds("({} if '/' in {} else {})".format, inner, inner, inner),
        st.builds("TABLE[{}]".format, ints),
        st.builds("TABLE.get({}, 'none')".format, ints),
    ),
    max_leaves=3,
)
numbers = st.one_of(ints, floats)
tests = st.recursive(
    st.one_of(
        st.just("b.is_open"),
        st.builds("({} {} {})".format, ints, COMPARISONS, ints),
        st.builds("({} {} {})".format, floats, COMPARISONS, floats),
        st.builds("({} < {})".format, texts, texts),
        st.builds("({} < {} <= {})".format, ints, ints, ints),
        st.builds("({} in {{1, 2, -7}})".format, ints),
        st.builds("({} not in TABLE)".format, ints),
        st.builds("({} in ({}, 1))".format, ints, ints),
        st.builds("({} in ({}, 0.5))".format, floats, floats),
        st.builds("(({}, {}) < ({}, {}))".format, floats, ints, floats, ints),
        st.builds("(({}, {}) == ({}, {}))".format, ints, floats, ints, floats),
        st.builds("({} == (FORMAT % {}))".format, texts, ints),
        st.builds("({} in {{'a', ''}})".format, texts),
        st.builds("('a' in {})".format, texts),
        st.builds("{}.startswith('x')".format, texts),
        st.builds("{}.endswith('/')".format, texts),
    ),
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("(not {})".format, inner),
    ),
    max_leaves=3,
)
code = st.one_of(
    ints,
    floats,
    texts,
    tests,
    st.builds("({} if {} else None)".format, st.one_of(ints, texts), tests),
    st.just("b.channel"),
)


# Any: columns, and elements of every type.
def computed(found: Any, elements: Sequence[Any], kind: RecordType) -> Any:
    """The column that an expression gives for elements."""
    batch = encode_batch(elements, kind)
    return found.evaluate(dict(zip(batch.schema.names, batch.columns, strict=True)))


def outcomes(function: Callable[[Any], Any], elements: Sequence[Any]) -> list[Any] | None:
    """The results as texts, which show types, signs of zeros and NaN; None: the function fails for an element."""
    try:
        return [repr(function(element)) for element in elements]
    except Exception:
        return None


@examples(120, suppress_health_check=[HealthCheck.too_slow])
@given(text=code, elements=st.lists(bids, min_size=1, max_size=6))
def test_columns_give_what_the_function_gives(text: str, elements: list[Bid]) -> None:
    check(text, elements, KIND)
    check(text.replace("b.", "b.bid."), [Envelope("", bid) for bid in elements], ENVELOPE)


def check(text: str, elements: Sequence[Any], kind: RecordType) -> None:
    # The functions and the tables of this module.
    function: Callable[[Any], Any] = eval(f"lambda b: {text}", globals())
    try:
        found = expression_of(function, kind, "it")
    except DeclinedError:
        return
    expected = outcomes(function, elements)
    try:
        column = computed(found, elements, kind)
    except NotInColumnsError:
        assert not found.is_total
        tree = recognise(function)
        assert not isinstance(tree, Opaque)
        assert outcomes(tree.evaluate, elements) == expected
        ints = [value for value in map(tree.evaluate, elements) if type(value) is int] if expected else []
        assert found.may_outgrow or all(-(2**63) <= value < 2**63 for value in ints)
        return
    assert len(column) == len(elements)
    assert list(map(repr, python_values(column))) == expected
    if column.null_count:
        assert found.value.nullable


SHAPES: list[Callable[[Bid], Any]] = [
    lambda b: b.price % 7,
    lambda b: (b.price * 3) // 2,
    lambda b: 1_000 < b.price * 0.908 < 5_000,
    lambda b: tier(b.price),
    lambda b: b.url.split("/")[1] if "/" in b.url else None,
    lambda b: TABLE.get(b.price, "none"),
    lambda b: b.url.lower() in {"a", "x"} or b.is_open,
    lambda b: minute(b.price),
    lambda b: int(b.price > 3),
    lambda b: min(b.price, 5),
    lambda b: b.url.strip(),
]


@pytest.mark.parametrize("function", SHAPES, ids=map(str, range(len(SHAPES))))
def test_these_are_computed_on_columns(function: Callable[[Bid], Any]) -> None:
    """The property above would hold as well if everything were declined."""
    elements = [Bid(price, price / 3, url, price > 2, None) for price in range(-3, 9) for url in ("a/b", "x/y/z")]
    column = computed(expression_of(function, KIND, "it"), elements, KIND)
    assert python_values(column) == [function(element) for element in elements]


DECLINED: list[tuple[Callable[[Bid], Any], str]] = [
    (lambda b: b.channel.lower(), "may meet None"),  # type: ignore[union-attr]  # what is tested
    (lambda b: b.price if b.url else 0, "asks whether a str is true"),
    (lambda b: b.price if b.is_open else 2**70, "uses 1180591620717411303424, an int of more than 64 bits"),
    (lambda b: b.price**2, r"price \*\* 2 is computed in Python$"),
    (lambda b: b.price / b.price, "price / .price is computed in Python: a division may fail"),
    (lambda b: b.price // -2, "a division may fail"),
    (lambda b: b.url.split()[0], "split.*is computed in Python"),
    (lambda b: b.url.split("/")[-1], "it counts from the end"),
    (lambda b: b.url.strip("/"), r"strip\('/'\) is computed in Python"),
    (lambda b: b.url.lstrip(), "lstrip.. is computed in Python"),
    (lambda b: b.url.count(""), "is not about a constant text"),
    (lambda b: b.price in {1, 2.5}, "looks for a int among other values"),
    (lambda b: b.price in {1_180_591_620_717_411_303_424, 1}, "has an int of more than 64 bits"),
    (lambda b: b.price if b.is_open else b.share, "gives values of several types"),
    (lambda b: datetime.fromtimestamp(b.price, UTC).strftime("%j"), "has other directives"),
    (lambda b: NAMES.get(b.url, b.url.split("/")[1]), "has a default that is computed in Python for some elements"),
    (lambda b: b.url < b.price, "compares str with int"),  # type: ignore[operator]  # what is tested
]


def test_a_record_within_an_element_is_read_as_its_columns() -> None:
    elements = [Envelope("far", Bid(price, 0.5, "a/b", True, None)) for price in range(3)]
    found = expression_of(lambda e: e.bid.price * 2 if e.bid.is_open else e.bid.price, ENVELOPE, "it")
    assert found.columns == {"bid"}
    assert python_values(computed(found, elements, ENVELOPE)) == [0, 2, 4]
    for function, reason in ((lambda e: e.other.price, "may meet None"), (lambda e: e.price.real, "is a str")):
        with pytest.raises(DeclinedError, match=reason):
            expression_of(function, ENVELOPE, "it")


@pytest.mark.parametrize(("function", "reason"), DECLINED, ids=[reason for _, reason in DECLINED])
def test_declined(function: Callable[[Bid], Any], reason: str) -> None:
    found = recognise(function)
    assert not isinstance(found, Opaque)
    with pytest.raises(DeclinedError, match=reason):
        column_expression(found, KIND)


def test_ints_that_may_outgrow_64_bits_are_known() -> None:
    growing: list[Callable[[Bid], Any]] = [lambda b: b.price * 4 // 3, lambda b: -b.price, lambda b: (-b.price, b.url)]
    for function in growing:
        assert expression_of(function, KIND, "it").may_outgrow
    assert not expression_of(lambda b: b.price * 4 % 3, KIND, "it").may_outgrow


class Two(NamedTuple):
    x: float
    y: float
    n: int


NAN = float("nan")
SAME: list[Callable[[Two], Any]] = [
    lambda r: (r.n, r.x in (r.x,)),  # noqa: FURB171  what is tested
    lambda r: (r.n, r.x not in (1.0, r.x)),
    lambda r: (r.n, (r.x, 1) == (r.x, 1)),
    lambda r: (r.n, r.x == r.x),
    lambda r: (r.n, r.x in (1.5, 2.5)),
    lambda r: (r.n, r.n in (r.n + 1, 2)),
    lambda r: (r.n, 1 if (r.x, r.n) < (r.x, 2) else 2),
]
UNKNOWN: list[Callable[[Two], Any]] = [
    lambda r: (r.n, r.x in (r.y, 1.0)),
    lambda r: (r.n, r.x in (NAN, 1.0)),
    lambda r: (r.n, (r.x, 1) == (r.y, 1)),
    lambda r: (r.n, (r.x, r.n) < (r.y, r.n)),
    lambda r: (r.n, r.x + 1.0 in (r.x + 1.0,)),  # noqa: FURB171  as above
    lambda r: (r.n, [r.x, r.y].count(r.y) == 1),
    lambda r: (r.n, min((r.x, 1), (r.y, 2))[1]),
    lambda r: (r.n, pair_of(r) == pair_of(r)),
    lambda r: (r.n, among(r.x, r.y)),
]


def pair_of(two: Two) -> tuple[float, float]:
    return (two.x + 0.0, two.y)


def among(value: float, *others: float) -> bool:
    return value in others


TWOS = [Two(x, y, n) for n, (x, y) in enumerate([(NAN, NAN), (1.0, NAN), (NAN, 1.0), (1.5, 1.5), (0.0, -0.0)])]


@pytest.mark.parametrize("function", [*SAME, *UNKNOWN], ids=map(str, range(len(SAME) + len(UNKNOWN))))
def test_one_nan_is_equal_to_itself_in_tuples_alone(function: Callable[[Two], Any]) -> None:
    """Where two values may be one object on objects, and are none on columns, the function is called."""
    kind = record_type(Two)
    try:
        found = expression_of(function, kind, "it")
    except DeclinedError:
        assert function in UNKNOWN
        return
    assert function in SAME
    assert python_values(computed(found, TWOS, kind)) == list(map(function, TWOS))


class Row(NamedTuple):
    """What a map makes."""

    price: int
    path: str
    label: str | None = None


def row(bid: Bid) -> Row:
    return Row(bid.price * 2, bid.url.split("/")[1], label="open" if bid.is_open else None)


def ways(function: Callable[[Bid], Any]) -> Any:
    """The route from bids to a sink behind a map."""
    stream = from_collection([Bid(1, 0.5, "a/b", True, None)], name="bids", element_type=Bid).map(function)
    if stream.element_type is None:
        stream = stream.returns(Text)
    topology = Topology(Pipeline("p", stream.sink_to(CollectSink())).steps)
    (route,) = sink_routes(topology)
    return route


def batch_of(*elements: Bid) -> pa.RecordBatch:
    return encode_batch(elements, KIND)


def test_a_record_is_made_of_columns() -> None:
    rows, _, _ = ways(row).run(batch_of(Bid(1, 0.5, "a/b", True, None), Bid(2, 0.5, "c/d", False, None)), None)
    assert rows.to_pydict() == {"price": [2, 4], "path": ["b", "d"], "label": ["open", None]}


class Number(NamedTuple):
    number: int


class Stamped(NamedTuple):
    at: datetime


class Text(NamedTuple):
    text: str


DEFAULTS: list[Callable[[Bid], Any]] = [
    lambda b: Number(NUMBERS.get(b.price, 0) // 60),
    lambda b: Number(NUMBERS.get(b.price, 5) % 2),
    lambda b: Number(len(TABLE.get(b.price, "none"))),
    lambda b: Text(minute(NUMBERS.get(b.price, 0))),
    lambda b: Text(TABLE.get(b.price, "ÄB").lower()),
    lambda b: Text(NAMES[TABLE.get(b.price, "x")]),
    lambda b: Text(TABLE.get(b.price, "a/b").split("/")[1]),
    lambda b: Text("one" if b.price > 100 else "other"),
]


@pytest.mark.parametrize("function", DEFAULTS, ids=map(str, range(len(DEFAULTS))))
def test_a_column_is_as_long_as_its_batch_where_no_key_is_in_a_dict(function: Callable[[Bid], Any]) -> None:
    """All elements take the default then, which is a constant."""
    elements = [Bid(price, 0.5, "a", False, None) for price in (7, 8, 9)]
    rows, _, _ = ways(function).run(batch_of(*elements), None)
    assert rows.to_pylist() == [function(element)._asdict() for element in elements]


def test_a_key_that_is_a_tuple_is_computed_by_the_function_as_well() -> None:
    selector: Callable[[Bid], Any] = lambda b: (b.price, b.url.upper())  # noqa: E731  a function to be recognised
    stream = from_collection([Bid(1, 0.5, "a/b", True, None)], name="bids", element_type=Bid)
    topology = Topology(Pipeline("p", stream.sink_to(CollectSink())).steps)
    keys = keying_step(topology.sources[0], selector, KIND)
    for url in ("a", "ß"):
        found = keys.evaluate(batch_of(Bid(1, 0.5, url, True, None)))
        assert python_values(found) == [(1, url.upper())]
        assert found.type == pa.struct([("_1", pa.int64()), ("_2", pa.string())])


def test_values_that_are_tuples() -> None:
    pair = pa.struct([("_1", pa.int64()), ("_2", pa.timestamp("us", tz="UTC"))])
    at = datetime(2026, 1, 1, tzinfo=UTC)
    values = [{"_1": 1, "_2": at}, None]
    assert python_values(pa.array(values, pair)) == [(1, at), None]
    assert python_values(pa.array([values, None, []], pa.list_(pair))) == [[(1, at), None], None, []]


def test_texts_of_datetimes() -> None:
    kind = record_type(Stamped)
    stamps = [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2026, 3, 1, 6, 59, 1, tzinfo=UTC)]
    found = expression_of(lambda stamped: stamped.at.strftime("%Y-%m-%d %H:%M:%S"), kind, "it")
    texts = computed(found, [Stamped(each) for each in stamps], kind).to_pylist()
    assert texts == [f"{each:%Y-%m-%d %H:%M:%S}" for each in stamps]


def test_a_dict_counts_with_the_values_that_it_had_when_the_plan_was_lowered() -> None:
    """In a batch that is computed in Python as well: one run does not mix both."""
    rates = {1: 10, 2: 20}
    route = ways(lambda b: Text(b.url.lower() if rates.get(b.price, 0) > 5 else "low"))
    for url in ("A", "Ä"):
        rows, _, _ = route.run(batch_of(Bid(1, 0.5, url, True, None)), None)
        assert rows.column(0).to_pylist() == [url.lower()]


def test_equal_collections_have_one_digest_and_others_another() -> None:
    many = {number: number for number in range(10)}
    texts = [collection_digest(each) for each in (many, dict(reversed(many.items())), {**many, 9: 10})]
    assert texts[0] == texts[1] != texts[2]


def test_a_batch_that_columns_cannot_hold_is_computed_by_the_function() -> None:
    large = 2**62
    stream = ways(lambda b: Row(b.price * 2 // 4, b.url.lower()))
    rows, _, _ = stream.run(batch_of(Bid(large, 0.5, "Ä", True, None), Bid(2, 0.5, "X", False, None)), None)
    assert rows.to_pydict() == {"price": [2**61, 1], "path": ["ä", "x"], "label": [None, None]}


def test_an_error_is_that_of_the_function_with_its_element() -> None:
    with pytest.raises(UserFunctionError, match="list index out of range") as raised:
        ways(row).run(batch_of(Bid(1, 0.5, "a/b", True, None), Bid(2, 0.5, "none", False, None)), None)
    assert "url='none'" in str(raised.value)
    assert isinstance(raised.value.__cause__, IndexError)


@dataclass(frozen=True)
class Rounded:
    price: float


def test_a_record_of_other_columns_is_declined() -> None:
    with pytest.raises(DeclinedError, match=r"Rounded\.price is a float, and it gets a int"):
        ways(lambda b: Rounded(b.price))


SAMPLES: dict[Kind, list[Any]] = {
    Kind.BOOL: [True, False],
    Kind.INT: [0, -(2**40)],
    Kind.FLOAT: [0.5, float("inf")],
    Kind.STR: ["", "/", "a/B/c", "B", " B\t"],
    Kind.DATETIME: [datetime(2026, 3, 1, 6, 59, 1, 5, UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)],
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_gives_what_python_gives_and_its_type(name: str) -> None:
    row, texts = METHODS[name], ["/"] * METHODS[name].texts
    for kind in row.kinds:
        expected = [getattr(value, name)(*texts) for value in SAMPLES[kind]]
        array = pa.array(SAMPLES[kind])
        assert row.arrow(CALLS["utc"].arrow(array), *texts).to_pylist() == expected
        result = METHOD_TYPES[type(SAMPLES[kind][0]), name]
        assert {*map(type, expected)} == {get_origin(result) or result}


@pytest.mark.parametrize("name", BUILT_IN_CALLS)
def test_a_built_in_function_gives_what_python_gives_and_its_type(name: str) -> None:
    built_in = BUILT_IN_CALLS[name]
    for kind in CALLS[name].kinds:
        expected = [built_in.python(value) for value in SAMPLES[kind]]
        assert CALLS[name].arrow(pa.array(SAMPLES[kind])).to_pylist() == expected
        assert {*map(type, expected)} == {built_in.result}


def test_strip_takes_away_what_python_takes_for_white_space_and_nothing_else() -> None:
    surrogates = range(0xD800, 0xE000)  # not in a text that is UTF-8
    characters = [chr(number) for number in range(sys.maxunicode + 1) if number not in surrogates]
    around = [f"{each}a{each}b{each}" for each in characters]
    for texts in (characters, around):
        assert METHODS["strip"].arrow(pa.array(texts)).to_pylist() == [text.strip() for text in texts]
    white = "".join(filter(str.isspace, characters))
    assert METHODS["strip"].arrow(pa.array([white, f"{white}é{white}"])).to_pylist() == ["", "é"]
