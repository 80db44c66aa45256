"""Records that become one value on their way, on columns, against the general operator."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.columnar.engine import Element, batches, by_key, millis, run
from tests.columnar.planning import column_form
from tests.columnar.window_steps import sessions, sliding, tumbling
from windrow import DataStream
from windrow import aggregates as agg

# Any in this module: windows of streams with and without keys, and results of every type.


@dataclass(frozen=True)
class Way:
    """How records get to a step.

    Attributes:
        of: Makes a keyed stream, or one without keys, of records.
        ordered: Aggregates of its elements in their order.
        unordered: Others.
    """

    of: Callable[[DataStream[Element]], Any]
    ordered: tuple[Any, ...]
    unordered: tuple[Any, ...]


NUMBERS: tuple[Any, ...] = (
    agg.count(),
    agg.count(lambda n: n),
    agg.sum(lambda n: n),
    agg.mean(lambda n: n),
    agg.max(lambda n: n),
    agg.count_distinct(lambda n: n),
)
LAST_NUMBERS: tuple[Any, ...] = (
    agg.first(),
    agg.last(ignore_nulls=True),
    agg.collect_list(),
    agg.min_by(lambda n: n),
    agg.top_k(3, lambda n: n),
)
FLAGS: tuple[Any, ...] = (agg.count(), agg.sum(lambda flag: flag), agg.min(lambda flag: flag))

WAYS: dict[str, Way] = {
    "numbers": Way(lambda records: records.map(lambda e: e.number), LAST_NUMBERS, NUMBERS),
    "numbers by themselves": Way(
        lambda records: records.map(lambda e: e.number).key_by(lambda n: n), LAST_NUMBERS, NUMBERS
    ),
    "flags": Way(
        lambda records: records.map(lambda e: e.text > "c").key_by(lambda flag: flag),
        (agg.last(), agg.collect_list()),
        FLAGS,
    ),
    "flags of texts": Way(
        lambda records: records.map(lambda e: e.text).filter(lambda t: t != "b").key_by(lambda t: t >= "c"),
        (agg.first(), agg.collect_list()),
        (agg.count(), agg.count_distinct(lambda t: t), agg.max(lambda t: t)),
    ),
}
WINDOWS: dict[str, Any] = {"tumbling": tumbling(60, -7), "sliding": sliding(90, 30), "sessions": sessions(3)}


def windowed(stream: Any, windows: Any, lateness: int) -> Any:
    found = stream.window_all(windows) if type(stream) is DataStream else stream.window(windows)
    return found.allowed_lateness(millis(lateness)) if lateness else found


@pytest.mark.parametrize("lateness", [0, 90])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("name", WAYS)
def test_columns_give_what_the_general_operator_gives(name: str, windows: str, lateness: int) -> None:
    way = WAYS[name]
    members = way.unordered + (() if windows == "sessions" and lateness else way.ordered)

    def build(stream: Any) -> Any:
        return windowed(stream, WINDOWS[windows], lateness).aggregate(
            agg.combine(agg.key(), agg.window_start(), *members)
        )

    inputs = [*batches(random.Random(5)), []][::4]
    engine, (expected,), dropped = run(build, inputs, column_form, crash_at=1, way=way.of)
    assert len(expected) > 10
    assert by_key(engine.results) == by_key(expected)
    assert engine.counted["late_records_dropped"] == dropped
