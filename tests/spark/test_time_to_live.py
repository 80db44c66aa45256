"""State that expires on Spark as in the interpreter, with and without what users do not hand in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support.thorough import thorough
from windrow import Pipeline, from_source
from windrow.errors import UnsupportedOperationError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, TimeDomain
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from windrow.watermarks import WatermarkStrategy
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = timedelta(seconds=60)


class Row(NamedTuple):
    key: str
    id: str
    time: int


ROWS = [Row("a", f"n{number}", number * 40_000) for number in range(3)]


class Keep(KeyedProcessFunction[str, Row, tuple[str, list[str], list[str]]]):
    """Emits what its state holds, which the plan sees here."""

    def __init__(self, domain: TimeDomain) -> None:
        ttl = StateTtlConfig(MINUTE, time_domain=domain)
        self.map = MapStateDescriptor("m", str, int, ttl=ttl)
        self.list = ListStateDescriptor("l", str, ttl=ttl)

    def process_element(
        self, value: Row, context: KeyedProcessContext[str]
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        names, ids = context.get_state(self.map), context.get_state(self.list)
        names.put(value.id, 1)
        ids.add(value.id)
        yield value.id, list(names.keys()), ids.get()


EXPECTED = [
    (f"n{number}", last, last) for number in range(3) for last in [[f"n{n}" for n in (number - 1, number) if n >= 0]]
]


def collected(runner: Any, size: int | None, *functions: KeyedProcessFunction[str, Row, Any]) -> list[list[Any]]:
    """What each function gives."""
    sinks = [CollectSink[Any]() for _ in functions]
    source = CollectionSource(ROWS, Row) if size is None else CollectionSource(ROWS, Row, batch_size=size)
    stream = from_source(source).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda row: row.time
    )
    keyed = stream.key_by(lambda row: row.key)
    ends = [keyed.process(function).sink_to(sink) for function, sink in zip(functions, sinks, strict=True)]
    result = runner.run(Pipeline("p", *ends))
    return [result.collected(sink) for sink in sinks]


@pytest.mark.classic(reason="a clock over a generator cannot be sent to the server")
@pytest.mark.parametrize("make", [LocalRunner, SparkRunner])
def test_entries_expire_by_the_clock(spark: SparkSession, make: Callable[..., Any]) -> None:
    ticks = count(0, 40_000)
    assert collected(make(clock=lambda: next(ticks)), 1, Keep(TimeDomain.PROCESSING_TIME)) == [EXPECTED]


@pytest.mark.parametrize("size", [1, thorough(None, reason="entries expire in batches of one element")])
def test_entries_expire_by_timestamps_and_by_the_clock_of_the_machine(spark: SparkSession, size: int | None) -> None:
    by_timestamps, by_clock = collected(
        SparkRunner(), size, Keep(TimeDomain.EVENT_TIME), Keep(TimeDomain.PROCESSING_TIME)
    )
    assert by_timestamps == EXPECTED
    assert by_clock[-1][2] == [row.id for row in ROWS], "nothing expires within a minute"


class Undeclared(KeyedProcessFunction[str, Row, Any]):
    """Sets a timer in processing time, or makes a descriptor where the plan cannot see it."""

    def __init__(self, *, sets_timer: bool) -> None:
        self.sets_timer = sets_timer

    def process_element(self, value: Row, context: KeyedProcessContext[str]) -> None:
        if self.sets_timer:
            context.timer_service.register_processing_time_timer(1)
        make: Any = getattr(__import__("windrow.state").state, "StateTtl" + "Config")
        context.get_state(ValueStateDescriptor("hidden", int, ttl=make(MINUTE))).update(1)


@pytest.mark.parametrize("sets_timer", [thorough(True, reason="test_runner_faults.py has such a timer"), False])
def test_the_same_error_on_both_engines(spark: SparkSession, sets_timer: bool) -> None:
    told = []
    for runner in (LocalRunner(), SparkRunner()):
        with pytest.raises(UnsupportedOperationError, match="waits for the clock, and nothing in the plan") as caught:
            collected(runner, None, Undeclared(sets_timer=sets_timer))
        told.append(str(caught.value).splitlines()[:3])
    assert told[0] == told[1]
