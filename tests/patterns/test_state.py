"""The state of patterns: flat over a day, pruned in the middle of matches, and gone when nothing is open."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.conformance.local_engine import LocalEngine
from tests.patterns import drawn
from windrow import OutputTag, Pipeline, from_source
from windrow.errors import UserFunctionError
from windrow.patterns import AfterMatchSkipStrategy, Pattern
from windrow.plan import PatternNode
from windrow.sinks import CollectSink
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.operators.ordered import matcher
from windrow_runtime.operators.ordered.pattern_operator import PatternOperator
from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.testing import PushSource, StreamHarness

DAY = 86_400_000
MINUTE = 60_000


class Reading(NamedTuple):
    sensor: int
    at: int
    value: int


class Collected:
    """Counts what an operator emits."""

    def __init__(self) -> None:
        self.matches = 0

    def collect(self, value: object, timestamp: int | None) -> None:
        self.matches += 1

    def side_output(self, tag: str, value: object, timestamp: int | None) -> None:
        raise AssertionError("there is no side output")


def operator_of(pattern: Pattern[Reading], skip: AfterMatchSkipStrategy) -> tuple[PatternOperator, OperatorState]:
    stream = from_source(PushSource(Reading)).key_by(lambda reading: reading.sensor).pattern(pattern, skip=skip)
    steps = Pipeline("p", stream.apply(len).sink_to(CollectSink())).steps
    (step,) = [step for step in steps if isinstance(step.node, PatternNode)]
    assert isinstance(step.node, PatternNode)
    return PatternOperator(step, step.node), OperatorState()


LOOP = (
    Pattern[Reading]
    .begin("low", lambda reading: reading.value < 20)
    .followed_by("middle", lambda reading: 20 <= reading.value < 80)
    .one_or_more()
    .followed_by("high", lambda reading: reading.value >= 80)
    .within(timedelta(minutes=20))
)
SILENT = (
    Pattern[Reading]
    .begin("high", lambda reading: reading.value >= 80)
    .not_followed_by("low", lambda reading: reading.value < 20)
    .within(timedelta(minutes=15))
)
REST = (
    Pattern[Reading]
    .begin("low", lambda reading: reading.value < 20)
    .followed_by_any("high", lambda reading: reading.value >= 80)
    .within_previous(timedelta(minutes=12))
)


@pytest.mark.parametrize("pattern", [LOOP, SILENT, REST], ids=["loop", "silent", "previous"])
@pytest.mark.parametrize(
    "skip", [AfterMatchSkipStrategy.no_skip(), AfterMatchSkipStrategy.skip_to_next()], ids=["all", "skipping"]
)
def test_state_stays_flat_over_a_day(pattern: Pattern[Reading], skip: AfterMatchSkipStrategy) -> None:
    operator, state = operator_of(pattern, skip)
    output = Collected()
    operator.bind(state, output)
    chance, sizes = Random(1), list[int]()
    for time in range(0, DAY, MINUTE // 2):
        reading = Reading(chance.randrange(3), time, chance.randrange(100))
        operator.process_batch([reading.sensor], [reading], [time])
        operator.advance_watermark(time - MINUTE)
        if time % (10 * MINUTE) == 0:
            sizes.append(len(state.dump()))
    hours = 6  # of sizes, six an hour
    first, later = sizes[hours : 12 * hours], sizes[12 * hours :]
    assert max(later) <= 1.3 * max(first)
    assert output.matches > 50
    operator.advance_watermark(DAY + 60 * MINUTE)
    assert state.keys == {}
    assert len(state.event_timers) == 0


def test_partial_matches_outlive_what_is_removed_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are numbered anew at each turn, as they are seldom in small cases."""
    monkeypatch.setattr(matcher, "_SLACK", -(10**9))
    outcomes, matches, _ = drawn.run(60, 21, LocalEngine())
    assert [(outcome.name, outcome.differences) for outcome in outcomes if not outcome.passed] == []
    assert matches > 80


@pytest.mark.parametrize("end", [70 * MINUTE, MAX_TIMESTAMP])
def test_what_has_no_limit_of_time_does_not_time_out_at_the_end_of_the_stream(end: int) -> None:
    timed_out = OutputTag[dict[str, list[Reading]]]("timed out")
    without = Pattern[Reading].begin("a").followed_by("b", lambda reading: reading.value < 0)
    found = {}
    for name, pattern in {"without": without, "within": without.within(timedelta(hours=1))}.items():
        source = PushSource(Reading)
        stream = from_source(source).key_by(lambda reading: reading.sensor).pattern(pattern, timed_out=timed_out)
        aside = stream.apply(len).get_side_output(timed_out)
        with StreamHarness(aside, source) as harness:
            harness.process_element(Reading(1, 0, 5), 1)
            harness.process_watermark(end)
            found[name] = [record.timestamp for record in harness.take(aside)]
    assert found == {"without": [], "within": [60 * MINUTE + 1]}


# Any in what follows: elements of a class of the test's.
def test_a_function_may_change_what_it_is_handed() -> None:
    class Box:
        def __init__(self, value: int) -> None:
            self.value = value

    def spoil(match: dict[str, list[Box]]) -> list[int]:
        values = [box.value for boxes in match.values() for box in boxes]
        for box in match["b"]:
            box.value = -1
        match.clear()
        return values

    pattern: Pattern[Any] = Pattern.begin("a", lambda box: box.value < 3).followed_by_any(
        "b", lambda box: box.value > 2
    )
    source: PushSource[Any] = PushSource(Box)
    stream = from_source(source).key_by(lambda box: 0).pattern(pattern).apply(spoil)
    assert matches_of(stream, source, [Box(1), Box(2), Box(3)]) == [[1, 3], [2, 3]]


def test_an_error_of_tie_break_names_no_other_element() -> None:
    def order(element: int) -> int:
        if element > 1:
            raise ValueError("no order")
        return element

    source = PushSource(int)
    keyed = from_source(source).key_by(lambda element: "k")
    stream = keyed.pattern(Pattern[int].begin("a").next("b"), tie_break=order).apply(len)
    with StreamHarness(stream, source) as harness:
        for element, time in ((1, 1), (2, 2), (3, 2)):
            harness.process_element(element, time)
        with pytest.raises(UserFunctionError, match="no order") as caught:
            harness.process_watermark(2)
    assert caught.value.given == "key 'k'"


def matches_of(stream: Any, source: Any, elements: list[Any]) -> list[Any]:
    with StreamHarness(stream, source) as harness:
        for time, element in enumerate(elements):
            harness.process_element(element, time)
        harness.process_watermark(100)
        return list(harness.take_values())


def test_a_group_that_nothing_matches_asks_for_what_its_parts_ask_for() -> None:
    begin = Pattern[str].begin
    loop = begin("c", lambda letter: letter == "c").one_or_more().optional().greedy()
    single = begin("c", lambda letter: letter == "x").optional()
    barred = begin(single).not_next("no", lambda letter: letter == "c")
    found = {}
    for name, pattern in {
        "loop": begin("a").followed_by(loop).followed_by("z"),
        "barred": begin("a").next(barred),
    }.items():
        source = PushSource(str)
        stream = from_source(source).key_by(lambda letter: 0).pattern(pattern)
        found[name] = sorted(matches_of(stream.apply(lambda match: "".join(chain(*match.values()))), source, [*"acd"]))
    assert found == {"loop": ["acd", "cd"], "barred": ["c"]}
