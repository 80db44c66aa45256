"""Functions of many lines, helpers or ways are recognised in little time, or declined with a reason."""

from __future__ import annotations

import dataclasses
import gc
import pickle
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from windrow import from_collection
from windrow.aggregates import Expression, Opaque, recognise
from windrow.aggregates.selectors import selector_text
from windrow.expressions.tracing import TRACER
from windrow.expressions.tree import Binary, Constant, Element, Field
from windrow.plan.types import made_type
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.forms.route_step import expression_of

# Any in this module: functions of elements of every type.


class Reading(NamedTuple):
    x: float


def function_of(text: str, name: str = "function") -> Callable[[Any], Any]:
    names: dict[str, Any] = {}
    exec(text, names)
    made: Callable[[Any], Any] = names[name]
    return made


def logistic(lines: int) -> Callable[[Any], Any]:
    """Each line uses the value of the one before twice."""
    return function_of("def function(e):\n    x = e.x\n" + "    x = 3.7 * x * (1.0 - x)\n" * lines + "    return x\n")


def helpers(count: int, line: str, first: str = "x + 1.0") -> Callable[[Any], Any]:
    """Each function names the one before as often as its line does."""
    text = f"def h0(x): return {first}\n"
    for number in range(1, count):
        text += f"def h{number}(x): return {line.replace('before', f'h{number - 1}')}\n"
    return function_of(f"{text}def function(e): return h{count - 1}(e.x)\n")


def recognised(function: Callable[[Any], Any]) -> Expression:
    found = recognise(function)
    assert not isinstance(found, Opaque), found.reason
    return found


@pytest.mark.parametrize("lines", [20, 150])
def test_a_value_that_is_used_twice_is_one_node(lines: int) -> None:
    function = logistic(lines)
    found = recognised(function)
    assert len(found.parts()) == 3 * lines + 4
    assert found.evaluate(Reading(0.3)) == function(Reading(0.3))
    assert made_type(function, Reading) is float
    assert len(str(found)) <= 200
    assert found == recognised(logistic(lines)) != recognised(logistic(lines + 1))
    copy = pickle.loads(pickle.dumps(found))
    assert copy == found
    assert copy.evaluate(Reading(0.3)) == function(Reading(0.3))


def test_columns_compute_each_node_once() -> None:
    function = logistic(150)
    column = pickle.loads(pickle.dumps(expression_of(function, record_type(Reading), "it")))
    assert column.columns == {"x"}
    found = column.evaluate({"x": pa.array([0.3, 0.7])}).to_pylist()
    assert found == [function(Reading(0.3)), function(Reading(0.7))]


@pytest.mark.parametrize(
    ("lines", "reason"), [(350, "computes more than 1000 values"), (10_000, "has more than 200000 bytes of code")]
)
def test_a_function_beyond_the_bound_is_declined_with_a_reason(lines: int, reason: str) -> None:
    function = logistic(lines)
    found = recognise(function)
    assert isinstance(found, Opaque)
    assert reason in found.reason
    with pytest.raises(DeclinedError, match=f"it {reason}"):
        expression_of(function, record_type(Reading), "it")
    assert selector_text(function) == "function"
    assert made_type(function, Reading) is None


DECISION = "    if x > 1.0: x = x + 1.0\n"
WAYS = " + ".join(f"(1 if e.x > {place} else 0)" for place in range(12))
DECLINED: list[tuple[Callable[[Any], Any], str]] = [
    (helpers(40, "before(x) if x > 0.0 else before(x * 2.0)"), "decides more than 16 things"),
    (helpers(40, "before(x) + before(x * 2.0)"), "computes more than 10000 values when it is tried"),
    # Calls alone take time as well.
    (helpers(40, "before(before(x))", first="x"), "computes more than 10000 values when it is tried"),
    (helpers(3000, "before(x)"), "raises RecursionError when it is tried"),
    (function_of(f"def function(e):\n    x = e.x\n{DECISION * 40}    return x\n"), "decides more than 16 things"),
    (function_of(f"def function(e):\n    return {WAYS}"), "has more than 64 ways through its decisions"),
]


@pytest.fixture
def usual_recursion() -> Iterator[None]:
    """Sets Python's own limit of recursion, which mypy raises for its process, that of other tests."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("usual_recursion")
@pytest.mark.parametrize(("function", "reason"), DECLINED, ids=map(str, range(len(DECLINED))))
def test_time_is_bounded(function: Callable[[Any], Any], reason: str) -> None:
    begin = time.process_time()
    assert recognise(function) == Opaque(reason)
    assert time.process_time() - begin < 5


def test_a_helper_that_is_named_twice_is_copied_once() -> None:
    """Forty of them would be copied 2**40 times."""
    function = helpers(40, "(before, before)[0](x)")
    assert recognised(function) == Binary("+", Field(Element(), "x"), Constant(1.0))


def test_a_plan_of_a_long_function_runs() -> None:
    function = logistic(350)
    assert from_collection([Reading(0.3)]).map(function).collect() == [function(Reading(0.3))]


factor = 3
TABLE = {"a": 1}


def test_a_function_is_traced_once() -> None:
    selector: Callable[[Any], Any] = lambda r: r.x * factor + TABLE["a"]  # noqa: E731  a function to be recognised
    before = TRACER.traced
    assert recognise(selector) is recognise(selector)
    assert selector_text(selector)
    assert TRACER.traced == before + 1


def test_it_is_tried_again_when_a_variable_around_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    enclosed = 1
    selector: Callable[[Any], Any] = lambda r: (r.x * factor, TABLE["a"], enclosed)  # noqa: E731  as above
    element = Reading(2.0)
    assert recognised(selector).evaluate(element) == selector(element)
    monkeypatch.setitem(globals(), "factor", 7)
    assert recognised(selector).evaluate(element) == selector(element) == (14.0, 1, 1)
    monkeypatch.setitem(TABLE, "a", 5)
    assert recognised(selector).evaluate(element) == selector(element) == (14.0, 5, 1)
    enclosed = 9
    assert recognised(selector).evaluate(element) == selector(element) == (14.0, 5, 9)


def tripled(value: float, factor: int = 3, *, more: int = 0) -> float:
    return value * factor + more


@dataclasses.dataclass(frozen=True)
class Doubled:
    x: float


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (tripled, "__defaults__", (4,)),
        (tripled, "__kwdefaults__", {"more": 5}),
        (tripled, "__code__", (lambda value, factor=3, *, more=0: value - factor - more).__code__),
        (Doubled, "__init__", lambda self, x: object.__setattr__(self, "x", 2 * x)),
    ],
)
def test_it_is_traced_again_when_what_it_calls_has_changed(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, value: Any
) -> None:
    selector: Callable[[Any], Any] = lambda r: tripled(r.x) + Doubled(r.x).x  # noqa: E731  as above
    before = recognised(selector)
    assert before.evaluate(Reading(2.0)) == selector(Reading(2.0)) == 8.0
    monkeypatch.setattr(owner, name, value)
    assert recognise(selector) != before
    assert selector(Reading(2.0)) != 8.0


def test_functions_of_one_code_share_an_answer_if_what_they_read_is_the_same() -> None:
    def scaled(factor: float) -> Callable[[Any], Any]:
        return lambda r: r.x * factor

    before = TRACER.traced
    selectors = [scaled(factor) for factor in (2, 2, 2.0, True)]
    trees = [recognised(selector) for selector in selectors]
    assert trees[0] is trees[1]
    assert [repr(tree.evaluate(Reading(3))) for tree in trees] == ["6", "6", "6.0", "3"]
    assert TRACER.traced - before == 3


def test_what_is_known_of_a_function_does_not_keep_it() -> None:
    named = function_of("def function(e): return function(e) if e.x else 0")
    recognise(named)
    left = weakref.ref(named)
    del named
    gc.collect()
    assert left() is None
