"""The shape of a program, on the page about windows: the calls exist, none is missing, and their order is free."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.dsl.plans import in_time, plan
from windrow import AllWindowedStream, DataStream, KeyedStream, OutputTag, WindowedStream
from windrow.evictors import CountEvictor
from windrow.panes import ClosingBehavior, OnTimeBehavior, TimestampCombiner
from windrow.triggers import EventTimeTrigger
from windrow.windows import TumblingEventTimeWindows

# Any in this module: stages whose type depends on the order of calls.

PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "windows.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```text\n(stream\n.*?)```", PAGE, re.DOTALL)
FUNCTIONS = {"reduce", "aggregate", "apply", "process", "sum", "count", "min", "max"}
PARTS = {"pipe", "apply_transform"}  # each stage has them
SETTINGS: dict[str, Callable[[Any], Any]] = {
    "trigger": lambda stage: stage.trigger(EventTimeTrigger.create()),
    "evictor": lambda stage: stage.evictor(CountEvictor.of(3)),
    "allowed_lateness": lambda stage: stage.allowed_lateness(timedelta(seconds=1)),
    "side_output_late_data": lambda stage: stage.side_output_late_data(OutputTag("late", int)),
    "accumulating": lambda stage: stage.accumulating(),
    "on_time_behavior": lambda stage: stage.on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY),
    "closing_behavior": lambda stage: stage.closing_behavior(ClosingBehavior.FIRE_ALWAYS),
    "timestamp_combiner": lambda stage: stage.timestamp_combiner(TimestampCombiner.EARLIEST),
}
FIVE = TumblingEventTimeWindows.of(timedelta(seconds=5))


def named(block: str) -> set[str]:
    return set(re.findall(r"\.(\w+)\(", block))


def test_calls_are_those_of_the_stages() -> None:
    keyed, without = BLOCKS
    public = {name for name in dir(WindowedStream) if not name.startswith("_")}
    assert public == {name for name in dir(AllWindowedStream) if not name.startswith("_")}
    assert named(keyed) - public == {"assign_timestamps_and_watermarks", "key_by", "window", "sink_to"}
    assert public - named(keyed) <= FUNCTIONS | {"min_by", "max_by"} | PARTS
    assert named(without) - public == {"assign_timestamps_and_watermarks", "window_all", "sink_to"}
    assert hasattr(DataStream, "window_all")
    assert hasattr(KeyedStream, "window")
    modes = {"accumulating", "discarding", "retracting"}
    optional = set(re.findall(r"\.(\w+)\(", "\n".join(re.findall(r"^   \[.*", keyed, re.MULTILINE))))
    assert optional == {*SETTINGS, *modes}


@pytest.mark.parametrize("without_keys", [False, True])
def test_the_order_of_the_calls_between_is_free(without_keys: bool) -> None:
    chance = random.Random(5)
    for _ in range(60):
        names = chance.sample(sorted(SETTINGS), len(SETTINGS))
        stream = in_time([1, 2], lambda number: number)
        stage: Any = stream.window_all(FIVE) if without_keys else stream.key_by(lambda number: "all").window(FIVE)
        for name in names:
            stage = SETTINGS[name](stage)
        assert plan(stage.reduce(lambda a, b: a + b)).steps, names
