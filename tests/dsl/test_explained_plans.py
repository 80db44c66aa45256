"""What ``explain()`` shows in each of its formats."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pytest

from tests.dsl.plan_formats import check_json, check_mermaid, check_svg
from tests.dsl.plans import IN_ORDER, SECOND, SECONDS, in_time, plan, refusal
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_collection
from windrow.functions import with_pane
from windrow.panes import WindowResult
from windrow.plan import Form
from windrow.plan.explained.document import PlanDocument
from windrow.plan.explained.labels import function_text, pair_text, short_type
from windrow.plan.types import made_type
from windrow.sinks import CollectSink
from windrow.windows import EventTimeSessionWindows, GlobalWindows, TimeWindow, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner

# Any in this module: functions of elements of every type.


@dataclass(frozen=True)
class Order:
    id: int
    item: str
    at: int


class Payment(NamedTuple):
    order: int
    amount: float | None
    at: int


LATE = OutputTag("late orders", Order)
JOIN = (
    "join by .id and .order, TumblingEventTimeWindows(size=1 d), trigger EventTimeTrigger, late of the left to "
    "'late orders', (order.item, payment.amount)"
)
SCHEMA = Path(__file__).parents[2] / "docs" / "_static" / "plan-1.schema.json"


ORDERS = in_time([Order(1, "tea", 0)], lambda order: order.at)
PAYMENTS = in_time([Payment(1, 2.5, 0)], lambda payment: payment.at)


def shop() -> Pipeline:
    """A join, a side output, a union, and a stream that two steps read."""
    orders = from_collection([Order(1, "tea", 0)]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(90 * SECOND).with_idleness(60 * SECOND),
        timestamp=lambda order: order.at,
    )
    payments = from_collection([Payment(1, 2.5, 0)], name="payments").assign_timestamps_and_watermarks(
        IN_ORDER, timestamp=lambda payment: payment.at
    )
    paid = (
        orders.join(payments)
        .where(lambda order: order.id)
        .equal_to(lambda payment: payment.order)
        .window(TumblingEventTimeWindows.of(timedelta(days=1)))
        .side_output_left_late_data(LATE)
        .apply(lambda order, payment: (order.item, payment.amount), name="paid")
    )
    return Pipeline(
        "shop",
        paid.sink_to(CollectSink()),
        paid.get_side_output(LATE).union(orders.filter(lambda order: order.id > 9)).sink_to(CollectSink("late")),
    )


def test_text() -> None:
    assert shop().explain(LocalRunner()).splitlines() == [
        "pipeline shop",
        "  1 source                    collection of 1  : Order",
        "  2 timestamps       <- 1     bounded out-of-orderness, 1 min 30 s, idle after 1 min, timestamp .at  : Order",
        "  4 source payments           collection of 1  : Payment",
        "  5 timestamps       <- 4     monotonous timestamps, timestamp .at  : Payment",
        f"  9 window paid      <- 2, 5  {JOIN}  : tuple[str, float | None]",
        "                              runs as Python, general operator: the function takes all elements of a window",
        "  10 sink            <- 9     collect",
        "  11 side_output     <- 9     'late orders'  : Order",
        "  12 filter          <- 2     .id > 9  : Order",
        "  13 union           <- 11, 12   : Order",
        "  14 sink            <- 13    collect late",
    ]


def test_mermaid() -> None:
    assert shop().explain(format="mermaid").splitlines() == [
        "---",
        'title: "pipeline shop"',
        "---",
        "flowchart TD",
        '    s1(["1 source<br/>collection of 1<br/>: Order"])',
        '    s2["2 timestamps<br/>bounded out-of-orderness, 1 min 30 s, idle after 1 min, timestamp .at<br/>: Order"]',
        '    s4(["4 source payments<br/>collection of 1<br/>: Payment"])',
        '    s5["5 timestamps<br/>monotonous timestamps, timestamp .at<br/>: Payment"]',
        f'    s9["9 window paid<br/>{JOIN}<br/>: tuple[str, float | None]"]',
        '    s10[/"10 sink<br/>collect"/]',
        "    s11(\"11 side_output<br/>'late orders'<br/>: Order\")",
        '    s12["12 filter<br/>.id #gt; 9<br/>: Order"]',
        '    s13["13 union<br/>: Order"]',
        '    s14[/"14 sink<br/>collect late"/]',
        "    s1 --> s2",
        "    s4 --> s5",
        "    s2 -->|left| s9",
        "    s5 -->|right| s9",
        "    s9 --> s10",
        "    s9 -.-> s11",
        "    s2 --> s12",
        "    s11 --> s13",
        "    s12 --> s13",
        "    s13 --> s14",
    ]


def test_json() -> None:
    document = check_json(shop().explain(LocalRunner(), format="json"))
    (join,) = [step for step in document["steps"] if step["kind"] == "join"]
    line = shop.__code__.co_firstlineno
    assert join["where"] is not None
    assert join["where"]["file"] == __file__
    assert line < join["where"]["line"] < line + 30
    assert join == {
        "id": "shop.9.paid",
        "number": 9,
        "kind": "join",
        "name": "paid",
        "text": JOIN,
        "inputs": ["shop.2.timestamps", "shop.5.timestamps"],
        "type": "tuple[str, float | None]",
        "where": join["where"],
        "windows": {
            "assigner": "TumblingEventTimeWindows",
            "text": "TumblingEventTimeWindows(size=1 d)",
            "time": "event",
            "size_ms": 86_400_000,
            "slide_ms": None,
            "gap_ms": None,
            "offset_ms": 0,
            "trigger": "EventTimeTrigger",
            "default_trigger": True,
            "evictor": None,
            "allowed_lateness_ms": 0,
            "accumulation": None,
            "late_outputs": ["late orders"],
        },
        "notes": [],
        "form": "Python, general operator: the function takes all elements of a window",
        "reasons": [],
        "members": ["shop.3.map", "shop.6.map", "shop.7.union", "shop.8.key_by"],
    }
    assert document["runner"] == "LocalRunner"
    assert check_json(shop().explain(format="json"))["runner"] is None


def test_the_schema_that_the_pages_have_is_that_of_the_json() -> None:
    """``python -m tests.dsl.plan_formats`` writes it anew."""
    assert json.loads(SCHEMA.read_text()) == msgspec.json.schema(PlanDocument)


def test_svg() -> None:
    shown = check_svg(shop().explain(LocalRunner(), format="svg"))
    assert shown[:2] == ["pipeline shop", "1 source"]
    assert "reads left 2, right 5" in shown
    assert "9 window paid" in shown


def test_reasons_are_apart_from_the_form_in_json() -> None:
    class Engine:
        def forms(self, pipeline: Pipeline) -> dict[str, Form]:
            reasons = "not on columns: it says; so", "elements cross the exchange one by one: so"
            return {"shop.9.paid": Form("Python, a loop", reasons)}

    document = check_json(shop().explain(Engine(), format="json"))
    (join,) = [step for step in document["steps"] if step["kind"] == "join"]
    assert join["form"] == "Python, a loop"
    assert join["reasons"] == ["not on columns: it says; so", "elements cross the exchange one by one: so"]
    line = "runs as Python, a loop; not on columns: it says; so; elements cross the exchange one by one: so"
    assert line in shop().explain(Engine())


def test_an_unknown_format_is_refused() -> None:
    unknown: Any = "dot"
    assert str(refusal(lambda: shop().explain(format=unknown))) == (
        "a plan has no such format\n  given:    'dot'\n  expected: 'text' or 'mermaid' or 'json' or 'svg'"
    )


def test_what_stands_in_names_and_texts_is_escaped() -> None:
    name = 'a <b> & "c" # --- ]) |x|'
    stream = from_collection([1]).filter(lambda n: n != 3, name=name)
    pipeline = plan(stream.sink_to(CollectSink(f"{name}\x07\n")), name=name)
    check_mermaid(pipeline.explain(format="mermaid"))
    shown = " ".join(check_svg(pipeline.explain(format="svg")))
    assert 'filter a <b> & "c" # --- ]) |x|' in shown
    assert 'collect a <b> & "c" # --- ]) |x|\ufffd' in shown
    assert "<b>" not in pipeline._repr_html_()
    assert check_json(pipeline.explain(format="json"))["pipeline"] == name


def test_long_words_are_cut_in_a_picture() -> None:
    stream = from_collection([1]).map(lambda n: n, name="x" * 300)
    shown = check_svg(plan(stream.sink_to(CollectSink("漢" * 100)), name="p" * 200).explain(format="svg"))
    assert "".join(shown).count("x") == 300
    assert "".join(shown).count("漢") == 100


def test_many_steps_one_after_the_other_and_side_by_side() -> None:
    stream = from_collection([1])
    for _ in range(2_000):
        stream = stream.map(lambda n: n + 1)
    others = [from_collection([number]) for number in range(60)]
    pipeline = plan(stream.union(*others))
    check_mermaid(pipeline.explain(format="mermaid"))
    check_svg(pipeline.explain(format="svg"))


def test_two_joins_of_the_same_keys_are_two_steps() -> None:
    both = (
        ORDERS.left_join(PAYMENTS).where(lambda order: order.id).equal_to(lambda payment: payment.order).window(SECONDS)
    )
    one = both.apply(lambda order, payment: order.item)
    other = both.apply(lambda order, payment: (order.id, payment))
    lines = plan(one, other).explain().splitlines()
    joins = [line.split(",")[-1] for line in lines if "left_join by" in line]
    assert len(lines) == 1 + 4 + 2 + 2
    assert joins == [" order.item  : str", " Payment | None]"]  # the payment may be missing


KEYED = ORDERS.key_by(lambda order: order.id)


def test_windows_in_json() -> None:
    def windows(stream: Any) -> Any:
        document = check_json(plan(stream).explain(format="json"))
        (found,) = [step["windows"] for step in document["steps"] if step["windows"] is not None]
        return found

    sessions = KEYED.window(EventTimeSessionWindows.with_gap(5 * SECOND)).allowed_lateness(2 * SECOND)
    found = windows(sessions.reduce(lambda a, b: a))
    assert (found["gap_ms"], found["size_ms"], found["allowed_lateness_ms"]) == (5_000, None, 2_000)
    found = windows(KEYED.count_window(3).reduce(lambda a, b: a))
    assert (found["time"], found["assigner"], found["default_trigger"]) == (None, GlobalWindows.__name__, False)


def named(order: Order) -> int:
    return order.id


SHOWN: list[tuple[Callable[[Any], Any], str]] = [
    (lambda order: order.id, ".id"),
    (lambda o: o.at / 1000 > 30 and o.id == 1, "(.id == 1) if (.at / 1000) > 30 else ((.at / 1000) > 30)"),
    (lambda order: [order], "lambda"),
    (named, "named"),
    (partial(named), "partial of named"),
    (operator.attrgetter("id"), ".id"),
    (operator.itemgetter(0), "[0]"),
    (str.upper, "str.upper"),
]


@pytest.mark.parametrize(("function", "text"), SHOWN, ids=map(str, range(len(SHOWN))))
def test_lambdas_show_what_they_compute(function: Callable[[Any], Any], text: str) -> None:
    assert function_text(function) == text


def test_a_long_expression_is_shortened() -> None:
    text = function_text(
        lambda o: (o.at + 1) * (o.at + 2) * (o.at + 3) * (o.at + 4) * (o.at + 5) * (o.at + 6) * (o.at + 7) * o.at
    )
    assert len(text) == 80
    assert text.endswith("…")


PAIRS: list[tuple[Callable[[Any, Any], Any], str, str]] = [
    (lambda order, payment: (order.item, payment.amount), "(order.item, payment.amount)", "tuple[str, float | None]"),
    (lambda left, right: right.order, "right.order", "int"),
    (lambda right, left: right.at + left.at, "right.at + left.at", "int"),
    (lambda a, b: Order(a.id, a.item, b.at), "Order(id=a.id, item=a.item, at=b.at)", "Order"),
    (lambda a, b: a.item + " .left of" + str(b), "lambda", "?"),
    (lambda a, b: (a.item == "x .left", b.order), "(a.item == 'x .left', b.order)", "tuple[bool, int]"),
    (lambda a, b: a.left.right + b.right, "a.left.right + b.right", "?"),
    (lambda a, b: a == b, "a == b", "bool"),
    (lambda a, b: (a.id, [b]), "lambda", "tuple[int, list[Payment]]"),
    (lambda *pair: pair[0], "lambda", "?"),
    (max, "max", "?"),
]


@pytest.mark.parametrize(("function", "text", "kind"), PAIRS, ids=map(str, range(len(PAIRS))))
def test_functions_of_pairs(function: Callable[[Any, Any], Any], text: str, kind: str) -> None:
    assert (pair_text(function), short_type(made_type(function, Order, Payment))) == (text, kind)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (WindowResult[str, TimeWindow, int], "WindowResult[str, TimeWindow, int]"),
        (dict[str, list[Order]] | None, "dict[str, list[Order]] | None"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Callable[[int, Order], str], "Callable[[int, Order], str]"),
        (Annotated[Order, "note"], "Order"),
        (Literal["a.b"], "Literal['a.b']"),
        (Any, "Any"),
        (None, "?"),
    ],
)
def test_types_are_short(kind: object, text: str) -> None:
    assert short_type(kind) == text


def test_results_with_their_pane_have_a_short_type() -> None:
    results = KEYED.window(SECONDS).reduce(lambda a, b: a if a.at > b.at else b, with_pane())
    line = plan(results).explain().splitlines()[4]
    assert line.endswith("reduce a if a.at > b.at else b, with_pane()  : WindowResult[int, TimeWindow, Order]")
