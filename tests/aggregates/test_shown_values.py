"""Values of variables around functions are shown nowhere; their names are, and literals of the code, shortened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from tests.dsl.plans import IN_ORDER, SECONDS, plan
from tests.waiting_trigger import WaitingTrigger
from windrow import aggregates as agg
from windrow import from_collection, from_source
from windrow.aggregates import Opaque, recognise
from windrow.aggregates.selectors import selector_text
from windrow.sources import ParquetFileSource
from windrow.windows import GlobalWindows
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology
from windrow_spark.columnar.expressions.built_in_on_columns import NotInColumnsError
from windrow_spark.columnar.forms.route_step import expression_of
from windrow_spark.lowering import physical_plan

# Any in this module: functions of elements of every type.


class Event(NamedTuple):
    k: str
    n: int
    at: int


SECRET = "sk-live-9f8e7d6c5b4a"
PIN = 739_251
CONFIG = {"pepper": SECRET, "pin": PIN}
SECRETS = {SECRET, "another"}
LONG = "x" * 1_000_000
SHOWN = (SECRET, "9f8e", str(PIN), f"{PIN:x}", "another")


def enclosing() -> Callable[[Any], Any]:
    hidden = SECRET
    return lambda e: hidden + e.k


def helper(value: Any, pepper: str = SECRET, *, pin: int = PIN) -> Any:
    return (pepper + value, pin)[0]


FUNCTIONS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda e: SECRET + e.k, "SECRET + .k"),
    (lambda e: e.k == SECRET, ".k == SECRET"),
    (lambda e: e.n + PIN, ".n + PIN"),
    (lambda e: e.n + PIN * 2, ".n + <int>"),
    (lambda e: (SECRET + "!") + e.k, "<str> + .k"),
    (lambda e: CONFIG["pepper"] + e.k, "CONFIG['pepper'] + .k"),
    (lambda e: CONFIG.get("pin", 0) + e.n, "CONFIG['pin'] + .n"),
    (lambda e: CONFIG.get(e.k, PIN), "CONFIG.get(.k, PIN)"),
    (lambda e: CONFIG[e.k], "CONFIG[.k]"),
    (lambda e: e.k in SECRETS, ".k in SECRETS"),
    (lambda e: e.k in CONFIG, ".k in CONFIG"),
    (lambda e: e.k.startswith(SECRET), ".k.startswith(SECRET)"),
    (lambda e: e[SECRET], "[SECRET]"),
    (lambda e: e.k.split(SECRET)[0], ".k.split(SECRET)[0]"),
    (lambda e: helper(e.k), "pepper + .k"),
    (enclosing(), "hidden + .k"),
    (lambda e: e.k + "a literal", ".k + 'a literal'"),
    (lambda e: e.k + LONG, ".k + LONG"),
    (lambda e: e.n == 3, ".n == 3"),
]


@pytest.mark.parametrize(("function", "text"), FUNCTIONS, ids=[text for _, text in FUNCTIONS])
def test_names_stand_for_values(function: Callable[[Any], Any], text: str) -> None:
    found = recognise(function)
    assert not isinstance(found, Opaque), found.reason
    assert str(found) == text
    assert not any(secret in f"{found!r} {selector_text(function)}" for secret in SHOWN)


def test_long_literals_are_shortened() -> None:
    names: dict[str, Any] = {}
    exec(f"def text(e): return e.k + {'y' * 10_000!r}\ndef number(e): return e.n + {2**20_000:#x}", names)
    assert all(len(str(recognise(names[name]))) < 100 for name in ("text", "number"))
    many = set(range(100_000))
    assert len(str(recognise(lambda e: e.n in many))) < 100


@pytest.mark.parametrize("function", [function for function, _ in FUNCTIONS], ids=[text for _, text in FUNCTIONS])
def test_neither_reasons_nor_errors_show_them(function: Callable[[Any], Any]) -> None:
    kind = record_type(Event)
    said = ""
    try:
        column = expression_of(function, kind, "the key")
        said = f"{column} {column.expression} {column.stored_text}"
        column.evaluate({"k": pa.array(["a"]), "n": pa.array([2**63 - 1]), "at": pa.array([0])})
    except (DeclinedError, NotInColumnsError) as error:
        said += str(error)
    assert said
    assert not any(secret in said for secret in SHOWN)
    assert len(said) < 3_000


def test_neither_a_plan_nor_its_forms_show_them() -> None:
    stream = from_source(ParquetFileSource("none", Event)).assign_timestamps_and_watermarks(
        IN_ORDER, timestamp=lambda e: e.at + PIN
    )
    window = stream.filter(lambda e: e.k != SECRET).key_by(lambda e: SECRET + e.k).window(SECONDS)
    results = window.aggregate(agg.into(Made, agg.max(lambda e: e.n == PIN), agg.max(partial(with_pepper, SECRET))))
    pipeline = plan(results)
    forms = physical_plan(Topology(pipeline.steps)).forms()
    text = pipeline.explain() + repr(pipeline) + "".join(map(str, forms.values()))
    assert not any(secret in text for secret in SHOWN)


class Made(NamedTuple):
    a: Any
    b: Any


def with_pepper(pepper: str, event: Event) -> str:
    return pepper + event.k


def test_what_differs_by_a_value_alone_is_told_apart_in_checkpoints() -> None:
    kind = record_type(Event)
    texts = [expression_of(function, kind, "it").stored_text for function in (differing(1), differing(2), differing(2))]
    assert texts[0] != texts[1] == texts[2]
    assert expression_of(lambda e: e.n, kind, "it").stored_text == ".n"


def differing(number: int) -> Callable[[Any], Any]:
    return lambda e: e.n == number


def test_a_stored_digest_is_of_the_contents_and_not_of_names() -> None:
    def looked_up(table: dict[str, int]) -> str:
        found = recognise(lambda e: table[e.k])
        assert not isinstance(found, Opaque)
        return found.stored_digest()

    assert looked_up({"a": 1, "b": 2}) == looked_up({"b": 2, "a": 1}) != looked_up({"a": 1, "b": 3})


class Alerting(WaitingTrigger[int]):
    """Holds what no log should show."""

    def __init__(self, limit: int, token: str, levels: list[str]) -> None:
        self.limit, self.token, self.levels = limit, token, levels


def test_texts_within_triggers_of_users_are_not_shown() -> None:
    trigger = Alerting(3, "secret", ["secret"])
    stream = from_collection([1]).key_by(lambda n: n).window(GlobalWindows.create()).trigger(trigger)
    text = plan(stream.aggregate(agg.count())).explain()
    assert "Alerting(limit=3, token=..., levels=...)" in text
    assert "secret" not in text + repr(trigger)
