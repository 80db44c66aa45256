"""The types that the plan derives of functions: those of type checkers, and of the values that come out."""

from __future__ import annotations

import dataclasses
import math
import operator
import re
import sys
import typing
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import FrameType, NoneType
from typing import Any, Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.budget import examples
from tests.dsl import typed_rows
from tests.dsl.plans import IN_ORDER, SECOND, SECONDS, fault_of, in_time, plan
from tests.dsl.typed_rows import Box, Color, Envelope, Holder, IntBox, Options, Order, Row, Struct
from windrow import DataStream, from_collection
from windrow import aggregates as agg
from windrow.expressions.derived import derived_type, unread_part
from windrow.functions import with_pane
from windrow.kafka import KafkaRecord
from windrow.panes import WindowResult
from windrow.plan.keys import key_type
from windrow.plan.types import made_type
from windrow.sinks import JsonFileSink
from windrow.windows import TimeWindow
from windrow_runtime.local import LocalRunner

# Any in this module: functions of elements of every type, and types themselves.

ROOT = Path(__file__).parents[2]
KNOWN = {"UTC": UTC, "Literal": Literal, "dataclasses": dataclasses, "math": math, "date": date, "datetime": datetime}
NAMES: dict[str, Any] = {**vars(typed_rows), **KNOWN, "timedelta": timedelta, "Decimal": Decimal}
OF_TYPE: dict[str, list[str]] = {
    "Row": ["r"],
    "int": [
        *("r.n * 2", "r.flag if r.n > 1 else r.n", "r.y or 0", "r.y * 2 if r.y else 0", "r.n // 2", "r.n % 2"),
        *("r.n**2", "-r.flag", "r.flag + r.flag", "r.span // r.span", "r.at.year", "len(r.s)", "int(r.s)"),
        *("int(r.s, 16)", "min(r.n, 3)", "r.items[0]", "r[0]", "r.twice", "same(r.n)", "r.n * FACTOR"),
        "Envelope(r.s, r.n).value",
    ],
    "str": [
        *("r.s.upper()", "r.at.isoformat()", 'r.s + "!"', "r.s * 2", "str(r.n)", "repr(r)", 'r.s.split(",")[0]'),
        *("r.s[0]", "NAMES[r.n]", 'NAMES.get(r.n, "many")', "r.pair[1]", "r.color.name", "clean(r.s)"),
        *("Order(r.s, number=r.n).key", "r.kind.upper()"),
    ],
    "tuple[int, str]": ["(r.n, r.s)", "(r.n, clean(r.s))"],
    "int | str": ["r.n if r.flag else r.s", "r[-2]", "r.either"],
    "int | float": ["r.n if r.flag else r.x"],
    "str | None": ["r.s if r.flag else None", "NAMES.get(r.n)"],
    "int | None": ["r.y"],
    "None | int": ["r.y and r.y * 2"],
    "float": [
        *("r.n / 2", "r.n // r.x", "r.n**-1", "r.x**2", "abs(r.x)", "r.n + r.x", "r.span / r.span"),
        *("abs(r.span).total_seconds()", "r.at.timestamp()", "float(r.n)", "math.sqrt(r.x)", 'r.tags["a"]', "1.5"),
    ],
    "Decimal": ["r.d * 2 + r.n", "-r.d", "abs(r.d)", "Decimal(r.s)"],
    "bool": [
        *("r.d > 1", "bool(r.n)", "math.isnan(r.x)", "r.n > 3", "1 < r.n < 5", "not r.n", "r.n > 1 and r.flag"),
        *('r.s in ("a", "b")', '"a" in r.s', "r.n in NAMES"),
    ],
    "timedelta": ["r.at - r.at", "r.day - r.day", "r.span / 2", "2 * r.span"],
    "datetime": ["r.at - r.span", "r.span + r.at", "datetime.fromtimestamp(r.n, UTC)"],
    "date": ["r.day + r.span", "r.at.date()"],
    "list[str]": ['r.s.split(",")'],
    "tuple[str, str, str]": ['r.s.partition(",")'],
    "bytes": ["r.s.encode()"],
    "Color": ["r.color"],
    "Order": ["Order(r.s, r.n)"],
    "Order | None": ["Order(r.s, r.n) if r.flag else None"],
    "Checked": ["Checked(r.n)"],
    "Envelope[int]": ["Envelope(r.s, r.n)"],
    "Envelope[tuple[int, float]]": ["Envelope(r.s, (r.n, r.x))"],
    "Box[int]": ["Box(r.n, [r.n])"],
    "list[int]": ["[r.n, r.n + 1]"],
    "list[int | None]": ["[r.n, None]"],
    "None": ["None"],
    'Literal["a", "b"]': ["r.kind"],
}
"""What a lambda of a row gives, by its type, to the plan as to mypy."""
CHECKED = [(text, kind) for kind, texts in OF_TYPE.items() for text in texts]


def function_of(text: str) -> Callable[[Any], Any]:
    made: Callable[[Any], Any] = eval(f"lambda r: {text}", NAMES)
    return made


@pytest.mark.parametrize(("text", "kind"), CHECKED, ids=[text for text, _ in CHECKED])
def test_a_lambda_has_the_type_of_what_it_gives(text: str, kind: str) -> None:
    rows: DataStream[Row] = from_collection([], Row)
    expected = NoneType if kind == "None" else eval(kind, NAMES)
    assert rows.map(function_of(text)).element_type == expected


def test_mypy_finds_the_same_types(tmp_path: Path) -> None:
    lines = [f"assert_type(rows.map(lambda r: {text}), DataStream[{kind}])" for text, kind in CHECKED]
    head = """
import dataclasses, math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Literal, assert_type
from tests.dsl.typed_rows import *
from windrow import DataStream, from_collection
rows: DataStream[Row] = from_collection([], Row)
"""
    program = tmp_path / "program.py"
    program.write_text("\n".join([head, *lines]))
    api = pytest.importorskip("mypy.api", reason="mypy is a tool for work on windrow, which tests alone do not need")
    output, trouble, _ = api.run(["--config-file", str(ROOT / "mypy.ini"), "--no-error-summary", str(program)])
    assert (output, trouble) == ("", "")


# --- values ---------------------------------------------------------------------------------------------------------


def is_of(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, at every depth; an int is no float here."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, type(int | None)):
        return any(is_of(value, each) for each in arguments)
    if origin is Literal:
        return value in arguments
    if not isinstance(value, origin or kind):
        return False
    if origin is tuple:
        return len(value) == len(arguments) and all(map(is_of, value, arguments))
    if origin in (list, set):
        return all(is_of(each, arguments[0]) for each in value)
    if origin is dict:
        return all(is_of(key, arguments[0]) and is_of(each, arguments[1]) for key, each in value.items())
    if origin is Envelope:
        return is_of(value.value, arguments[0])
    return True


rows = st.builds(
    Row,
    n=st.integers(-9, 9),
    s=st.sampled_from(["", "a", "7", "a,b"]),
    x=st.floats(-9, 9),
    y=st.sampled_from([None, 0, 5]),
    d=st.decimals(-9, 9, places=2),
    at=st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1)),
    day=st.dates(date(2000, 1, 1), date(2030, 1, 1)),
    span=st.timedeltas(timedelta(-9), timedelta(9)),
    flag=st.booleans(),
    items=st.lists(st.integers(0, 3), max_size=2),
    tags=st.dictionaries(st.sampled_from(["a", "b"]), st.floats(0, 1)),
    pair=st.tuples(st.integers(0, 3), st.sampled_from(["x", ""])),
    color=st.sampled_from(Color),
    either=st.sampled_from([0, 3, "", "b"]),
    kind=st.sampled_from(["a", "b"]),
)

INTS = ["r.n", "3", "r.flag", "len(r.s)", "r.items[0]", "r.pair[0]", "r.twice", "r.at.year", "r.span.days", "FACTOR"]
FLOATS = ["r.x", "2.5", "r.tags['a']", "r.span.total_seconds()", "-1.5"]
TEXTS = ["r.s", "'b'", "r.pair[1]", "r.color.name", "r.kind", "clean(r.s)", "NAMES[r.n]"]
OPTIONAL = ["r.y", "None", "NAMES.get(r.n)", "r.either"]
MOMENTS = ["r.at"]
SPANS = ["r.span", "(r.at - r.at)", "(r.day - r.day)"]
DECIMALS = ["r.d"]


def combined(leaves: list[str], *forms: str, most: int = 3) -> st.SearchStrategy[str]:
    """Expressions of one type, that hold others of the same type in place of ``{}``."""
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: st.one_of([st.builds(f"({form})".format, *[inner] * form.count("{}")) for form in forms]),
        max_leaves=most,
    )


ints = combined(
    INTS, "{} + {}", "{} - {}", "{} * {}", "{} // {}", "{} % {}", "-{}", "abs({})", "{} ** 2", "min({}, {})"
)
floats = combined(FLOATS, "{} + {}", "{} * {}", "{} / {}", "{} // {}", "{} % 2", "{} ** 3", "-{}", "max({}, {})")
texts = combined(TEXTS, "{} + {}", "{} * 2", "{}.upper()", "{}.split(',')[0]")
moments = combined(MOMENTS, "{} + r.span", "r.span + {}", "{} - r.span")
spans = combined(SPANS, "{} + {}", "{} - {}", "{} * 2", "{} / 2.5", "{} // 3", "{} % {}", "-{}", "abs({})")
decimals = combined(DECIMALS, "{} + {}", "{} - r.n", "2 * {}", "{} / {}", "{} ** 2", "-{}")
numbers = st.one_of(ints, floats, st.builds("({} / {})".format, ints, ints), st.builds("{} * {}".format, ints, floats))
values = st.one_of(numbers, texts, moments, spans, decimals, st.sampled_from(OPTIONAL))
tests = st.recursive(
    st.one_of(
        st.sampled_from(["r.flag", "r.y", "r.s in NAMES", "'a' in r.s"]),
        st.builds("({} < {})".format, numbers, numbers),
        st.builds("({} == {})".format, values, values),
        st.builds("({} != None)".format, values),
    ),
    lambda inner: st.one_of(st.builds("({} and {})".format, inner, inner), st.builds("(not {})".format, inner)),
    max_leaves=2,
)
narrowing = st.sampled_from(
    [
        *("(r.y + 1 if r.y else 0.5)", "(r.y or 'none')", "(r.y * 2 if r.y else r.y)", "(r.y and r.y - 1)"),
        *("(-r.y if r.y else None)", "(r.s or r.n)", "(r.n > 2 or r.s)"),
    ]
)
codes = st.recursive(
    st.one_of(values, tests, narrowing),
    lambda inner: st.one_of(
        st.builds("({} if {} else {})".format, inner, tests, inner),
        *[st.builds(form.format, inner, inner) for form in ("({} or {})", "({} and {})", "({}, {})")],
        *[st.builds(form.format, inner) for form in ("Envelope(r.s, {}).value", "[{0}, {0}]", "same({})")],
        st.builds("Envelope({}, {})".format, texts, inner),
    ),
    max_leaves=3,
)


@examples(300)
@given(text=codes, elements=st.lists(rows, min_size=1, max_size=4))
@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # such as "is" beside a literal in random code
def test_each_value_is_of_the_derived_type(text: str, elements: list[Row]) -> None:
    function = function_of(text)
    kind = derived_type(function, [Row])
    assume(kind is not None)
    for element in elements:
        try:
            value = function(element)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            continue
        assert is_of(value, kind), (value, kind)


# --- generic records ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "of", "kind"),
    [
        ("r.value", Envelope[int], int),
        ("r[1]", Envelope[int], int),
        ("(r.key, r.value + 1)", Envelope[int], tuple[str, int]),
        ("r.value.value", Envelope[Envelope[str]], str),
        ("r.value.n", Envelope[Row], int),
        ("r.value", Envelope, None),
        ("r.items", Box[str], list[str]),
        ("r.again.again.value", Box[str], str),
        ("r.value", IntBox, int),
        ("r.items[0]", IntBox, int),
        ("r.again", IntBox, Box[int]),
        ("r.value", Struct[Decimal], Decimal),
        ("r.other", Struct[Decimal], str),
        ("r['size']", Options, int),
        ("r['none']", Options, None),
        ("r.value", KafkaRecord[Row], Row),
        ("r.value.s.upper()", KafkaRecord[Row], str),
        ("(r.timestamp, r.key, r.headers[0][0])", KafkaRecord[int], tuple[datetime, bytes | None, str]),
        ("r.box.items[0]", Holder, int),
        ("r.loose == r.loose", Holder, None),
        ("r == r", Holder, bool),
        ("r.timestamp if r.value > 2 else None", KafkaRecord[int], datetime | None),
    ],
)
def test_generic_records(text: str, of: Any, kind: object) -> None:
    assert derived_type(function_of(text), [of]) == kind


def test_functions_that_are_no_lambdas() -> None:
    rows: DataStream[Any] = from_collection([], Row)
    pair, both, text = operator.attrgetter("pair"), operator.attrgetter("n", "s"), operator.itemgetter(1)
    functions: list[Callable[..., Any]] = [typed_rows.helper, pair, both, text, Row.total, partial(typed_rows.clean)]
    kinds = [int, tuple[int, str], tuple[int, str], str, float, str]
    assert [rows.map(function).element_type for function in functions] == kinds
    texts: DataStream[str] = from_collection([], str)
    assert [texts.map(each).element_type for each in (str.upper, len, repr, str.split)] == [str, int, str, list[str]]
    limit = 3
    assert rows.map(lambda r: r.n * limit).element_type is int


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("clean(str(r.n))", str),
        ("typed_rows.clean(r.s[:3])", str),
        ("same(r.n)", int),
        ("same(r.s[:3])", None),
        ("Order(*r.s.split(','))", Order),
        ("Checked(r.n)", typed_rows.Checked),
        ("Settings.of(r.s[:3])", typed_rows.Settings),
        ("Settings.limit(r.s[:3])", float),
        ("Settings.limit", None),
        ("Struct(r.s[:3])", None),
        ("math.sqrt(r.n)", float),
        ("datetime.fromisoformat(r.s[:10])", datetime),
        ("list(r.s)", None),
    ],
)
def test_what_is_called_last_says_the_type(text: str, kind: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_rows, "typed_rows", typed_rows, raising=False)
    monkeypatch.setattr(typed_rows, "math", math, raising=False)
    assert made_type(eval(f"lambda r: {text}", vars(typed_rows)), Row) == kind


# --- what cannot be read --------------------------------------------------------------------------------------------


def repeats(row: Any) -> Any:
    total = 0
    for item in row.items:
        total += item
    return total


def guarded(row: Any) -> Any:
    try:
        return row.n
    except AttributeError:
        return 0


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (function_of("r.s.frob()"), "the function calls frob, which may change something"),
        (function_of("(r.n, r.absent.s)"), "the type of .absent is not known"),
        (function_of("r.untold()"), "the function calls untold, which may change something"),
        (function_of("r._replace(n=3)"), "the function calls a value, or a method with arguments by name"),
        (function_of("0 if r.y is None else r.y"), "the function asks `is`"),
        (function_of("f'{r.n}'"), "the function makes a text"),
        (function_of("sorted(r.items)[0]"), "the function uses sorted"),
        (function_of("r.n ** r.n"), "the type of .n ** .n is not known"),
        (function_of("r.y + 1"), "the type of .y + 1 is not known"),
        (function_of("r.x * r.d"), "the type of .x * .d is not known"),
        (function_of("(lambda: r.n)()"), "the function has a function within, such as a comprehension"),
        (function_of("{r.n: 1, **r.tags}"), "the function makes a collection"),
        (function_of("print(r.n)"), "the function uses print"),
        (function_of("(*r.items,)"), "the function goes through a value"),
        (function_of("r.items.append(1)"), "the function calls append, which may change something"),
        (repeats, "the function repeats something"),
        (guarded, "the function handles errors"),
        (print, "the function is not a plain function"),
        (typed_rows.Row.untold, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_read_is_said(function: Callable[[Any], Any], reason: str | None) -> None:
    assert unread_part(function, [Row]) == reason
    if reason is not None:
        assert derived_type(function, [Row]) is None
        rows: DataStream[Any] = from_collection([], Row)
        lost = rf"the type is lost at map, .*\.py:\d+, because {re.escape(reason)}: annotate"
        assert re.search(lost, str(fault_of(rows.map(function).sink_to(JsonFileSink("out")))))


def test_a_comprehension_is_not_read() -> None:
    """Versions of Python differ in whether it is a function within."""
    reason = unread_part(function_of("[x * 2 for x in r.items]"), [Row])
    assert reason in {"the function has a function within, such as a comprehension", "the function repeats something"}


class Labels(dict[str, int]):
    def __getitem__(self, key: str) -> str:  # type: ignore[override]  # what users do all the same
        return str(super().__getitem__(key))

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()


class Letters(list[int]):
    def __getitem__(self, place: Any) -> Any:
        return chr(super().__getitem__(place))

    def __iter__(self) -> Generator[str, None, None]:  # type: ignore[override]  # as above
        return (chr(each) for each in super().__iter__())


class Squares(Sequence[int]):
    def __getitem__(self, place: Any) -> int:  # type: ignore[override]  # as above
        return int(place) ** 2

    def __len__(self) -> int:
        return 5


@pytest.mark.parametrize(("text", "of"), [("r['a']", Labels), ("r[0]", Letters), ("r[0]", Squares)])
def test_a_collection_may_give_other_items_than_its_base(text: str, of: type) -> None:
    assert derived_type(function_of(text), [of]) is None


def test_what_traces_lines_sees_none_of_a_function_that_is_tried() -> None:
    def described(row: Row) -> str:
        return row.s if row.flag else helped(row)

    def helped(row: Row) -> str:
        return row.s

    traced: list[str] = []

    def trace(frame: FrameType, _event: str, _argument: object) -> None:
        if frame.f_code.co_filename == __file__:
            traced.append(frame.f_code.co_name)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        kind = derived_type(described, [Row])
        helped(Row(*[None] * len(Row._fields)))  # type: ignore[arg-type]  # nothing is computed of it
    finally:
        sys.settrace(before)
    assert kind is str
    assert traced == ["helped"]


def test_nothing_is_called() -> None:
    called: list[object] = []

    def noted(value: Any) -> int:
        called.append(value)
        return 1

    class Noting:
        def __eq__(self, other: object) -> bool:
            called.append(other)
            return True

        def __hash__(self) -> int:
            called.append(self)
            return 1

        def __call__(self, row: Row) -> Any:
            return called.append(row)

        @property
        def limit(self) -> int:
            called.append(self)
            return 1

    noting = Noting()
    functions: list[Callable[[Row], Any]] = [
        lambda r: noted(r.n),
        lambda r: noting.limit + r.n,
        lambda r: called.append(r.n),
        noting,
    ]
    rows: DataStream[Row] = from_collection([], Row)
    assert [rows.map(function).element_type for function in functions] == [int, None, None, None]
    assert called == []


def test_a_stated_type_that_contradicts_the_derived_one_is_refused() -> None:
    rows: DataStream[Any] = from_collection([], Row)
    for wrong, kind in (
        (from_collection([1], int).returns(str), "int"),
        (rows.map(lambda r: r.s).returns(int), "str"),
        (rows.map(lambda r: (r.n, r.s)).returns(tuple[str, int]), "tuple[int, str]"),
    ):
        assert re.match(rf"returns\(.*\) is said of elements of type {re.escape(kind)}", fault_of(wrong).message)
    plan(rows.map(lambda r: r.s if r.n else None).returns(str).sink_to(JsonFileSink("out")))
    plan(rows.map(lambda r: r.n).returns(object))
    wider = rows.map(lambda r: r.n).returns(int | None)
    assert wider.element_type == int | None
    plan(wider.sink_to(JsonFileSink("out")))


# --- steps ----------------------------------------------------------------------------------------------------------

TIMES = (datetime(2024, 1, 1, tzinfo=UTC), date(2024, 1, 1), timedelta(1))
ROW = Row(3, "a", 1.5, None, Decimal(1), *TIMES, False, [1], {}, (1, "x"), Color.RED, either=1, kind="a")
stamped = in_time([ROW], lambda r: r.n)
keyed = stamped.key_by(lambda r: r.s)
windows = keyed.window(SECONDS)
orders = stamped.map(lambda r: Order(r.s, r.n)).assign_timestamps_and_watermarks(IN_ORDER, timestamp=lambda o: o.number)
keyed_orders = orders.key_by(lambda o: o.key)
joined = stamped.join(orders).where(lambda r: r.s).equal_to(lambda o: o.key).window(SECONDS)
outer = stamped.left_join(orders).where(lambda r: r.s).equal_to(lambda o: o.key).window(SECONDS)
grouped = stamped.co_group(orders).where(lambda r: r.s).equal_to(lambda o: o.key).window(SECONDS)
between = keyed.interval_join(keyed_orders).between(timedelta(0), SECOND)
twice: agg.DeclaredAggregate[Row, Any, Decimal] = agg.first(lambda r: r.d * 2)
both: agg.DeclaredAggregate[Row, Any, tuple[int, float]] = agg.combine(agg.count(), agg.mean(lambda r: r.n / 2))

STEPS: dict[str, tuple[DataStream[Any], object]] = {
    "map": (keyed.map(lambda r: r.n), int),
    "flat_map": (stamped.flat_map(lambda r: [r.pair, (r.n, r.s)]), tuple[int, str]),
    "flat_map of some": (stamped.flat_map(lambda r: [r.s] if r.flag else []), str),
    "flat_map of none": (stamped.flat_map(lambda r: r.items if r.flag else None), int),
    "filter": (stamped.map(lambda r: r.n).filter(lambda n: n > 1), int),
    "union": (stamped.map(lambda r: r.n).union(stamped.map(lambda r: r.pair[0])), int),
    "union of others": (stamped.map(lambda r: r.n).union(stamped.map(lambda r: r.s)), int | str),
    "map_batches": (stamped.map_batches(lambda rows: [rows[0].n], size=3), int),
    "changelog": (stamped.changelog(lambda kind, r: (kind.name, r.n)), tuple[str, int]),
    "sum so far": (keyed.sum(lambda r: r.n * 2), tuple[str, int]),
    "highest so far": (keyed.max(lambda r: r.x), tuple[str, float]),
    "reduce": (windows.reduce(lambda a, b: a), Row),
    "min": (windows.aggregate(agg.min(lambda r: r.y or 0)), int),
    "combine": (windows.aggregate(both), tuple[int, float]),
    "key": (windows.aggregate(agg.combine(agg.key(), agg.max(lambda r: r.s.upper()))), tuple[str, str]),
    "with pane": (windows.aggregate(agg.count(), with_pane()), WindowResult[str, TimeWindow, int]),
    "with pane of": (windows.aggregate(twice, with_pane()), WindowResult[str, TimeWindow, Decimal]),
    "apply": (windows.apply(lambda key, window, rows: [(key, window.end, len(rows))]), tuple[str, int, int]),
    "join": (joined.apply(lambda r, o: (r.n, o.key)), tuple[int, str]),
    "record of a join": (joined.apply(lambda r, o: Envelope(o.key, r)), Envelope[Row]),
    "left join": (outer.apply(lambda r, o: (r.n, o.number if o else None)), tuple[int, int | None]),
    "left join without care": (outer.apply(lambda r, o: (r.n, o.number)), None),  # type: ignore[union-attr]  # so it is
    "co_group": (grouped.apply(lambda rows, orders: [(len(rows), orders[0].key)]), tuple[int, str]),
    "interval join": (between.apply(lambda r, o: r.n + o.number), int),
    "as-of join": (keyed.as_of_join(keyed_orders).apply(lambda r, o: (r.x, o.number)), tuple[float, int]),
    "left as-of join": (keyed.left_as_of_join(keyed_orders).apply(lambda r, o: o.number if o else None), int | None),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(name: str) -> None:
    stream, kind = STEPS[name]
    found = stream.element_type
    # Two ways to write WindowResult[...] are not equal.
    assert found == kind or (str(found), typing.get_args(found)) == (str(kind), typing.get_args(kind))


def test_keys() -> None:
    assert key_type(keyed.node) is str
    assert key_type(stamped.key_by(lambda r: (r.n % 3, r.s.lower())).node) == tuple[int, str]
    assert key_type(stamped.key_by(lambda r: r.y).node) == int | None
    assert key_type(stamped.key_by(operator.attrgetter("color")).node) is Color


def test_a_lambda_writes_a_file_of_columns(tmp_path: Path) -> None:
    stream = stamped.map(lambda r: (r.n, r.s if r.flag else None, r.d * 2, r.s + "-a"))
    LocalRunner().run(plan(stream.sink_to(JsonFileSink(str(tmp_path)))))
    (written,) = [file.read_text() for file in tmp_path.rglob("*.json*") if file.is_file()]
    assert '"a-a"' in written
