"""What a batch of a join costs, in calls: these are the same on each machine, however busy it is."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

import windrow_spark
from tests.columnar.engine import Engine, Times, millis
from tests.columnar.joined import Build, NumberedLeft, NumberedRight, TwoBatches, engine_of
from windrow import DataStream, joins
from windrow.time import MIN_TIMESTAMP
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.codecs.record_type import record_type
from windrow_spark.columnar.joins.pair_results import batch_of_pairs

# Any in this module: elements of every type, and what a profiler gets.

BATCHES_BEFORE = 2
BATCHES = 12
SPAN_MS = 250
ENGINE = str(Path(windrow_spark.__file__).parent)


class Joined(NamedTuple):
    key: int
    text: str | None
    level: float


def joined() -> Any:
    return joins.into(Joined, key=joins.key(), text=joins.left(lambda e: e.text), level=joins.right(lambda e: e.level))


def between(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
    keyed = left.key_by(lambda e: e.key).interval_join(right.key_by(lambda e: e.code))
    return keyed.between(millis(-200), millis(200)).apply(joined())


def in_windows(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
    two = left.join(right).where(lambda e: e.key).equal_to(lambda e: e.code)
    return two.window(TumblingEventTimeWindows.of(millis(100))).apply(joined())


def batch_of(chance: random.Random, number: int, size: int) -> TwoBatches:
    def time() -> int:
        return number * SPAN_MS + chance.randrange(SPAN_MS)

    return (
        [NumberedLeft(chance.randrange(size), time(), 1, "a text") for _ in range(size)],
        [NumberedRight(chance.randrange(size), time(), 0.5, 2) for _ in range(size)],
    )


def run_groups(engine: Engine, before: Times, after: Times, arrived: Mapping[int, Sequence[Any]]) -> None:
    for group in engine.records:
        engine.run_group(group, before, after, arrived[group])


def calls_of(work: Callable[[], object]) -> int:
    """Counts the calls of the runtime's functions, and those of others that these make."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"} and frame.f_code.co_filename.startswith(ENGINE)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


# The calls of a batch in both key groups, and a tenth of them to spare. A join that needs more makes each batch slower,
# of whatever size: most batches of a stream of few rows take no other time in Python.
@pytest.mark.parametrize(
    ("build", "budget"), [pytest.param(between, 1_700, id="between"), pytest.param(in_windows, 737, id="in windows")]
)
@pytest.mark.parametrize("size", [50, 2_000])
def test_a_batch_of_a_join_keeps_to_its_budget_of_calls_whatever_its_size(
    build: Build, budget: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, engine = engine_of(build, (NumberedLeft, NumberedRight))
    rows: list[int] = []

    def take(pairs: Any) -> list[Any]:
        columns = batch_of_pairs(engine.form, pairs, record_type(Joined))
        assert columns is not None, "nothing has to be made in Python"
        rows.append(columns.num_rows)
        return []

    # Results stay columns, as where a file sink takes them.
    monkeypatch.setattr(engine, "values_of", take)
    chance, time = random.Random(size), Times(MIN_TIMESTAMP, 0)
    calls: list[int] = []
    for number in range(BATCHES_BEFORE + BATCHES):  # the first ones make what is made once
        following = Times(number * SPAN_MS - 80, number)
        arrived = engine.scan(batch_of(chance, number, size), 1, following.watermark)
        calls.append(calls_of(partial(run_groups, engine, time, following, arrived)))
        time = following
    assert sum(rows) > size
    assert sum(calls[BATCHES_BEFORE:]) / BATCHES <= budget
