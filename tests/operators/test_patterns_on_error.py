"""A pattern passes over an element for which a condition raises, and loses no match but one whose function raises."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from tests.support.failing import Number, UnluckyError, checked, is_bad
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.errors import UserFunctionError
from windrow.failures import Failed, Retry
from windrow.functions import FixedDelayRetryStrategy
from windrow.patterns import AfterMatchSkipStrategy, Pattern
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow_runtime.local import LocalRunner, PipelineResult
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: matches and results of every type.

FAILED = OutputTag[Failed[list[Number]]]("failed")
TIMED_OUT = OutputTag[dict[str, list[Number]]]("timed out")


def drawn(seed: int) -> list[Number]:
    chance = random.Random(seed)
    return [Number(chance.choice("ab"), at // 2, chance.randrange(100)) for at in range(120)]


def stamped(numbers: Sequence[Number]) -> DataStream[Number]:
    strategy = WatermarkStrategy[Number].for_bounded_out_of_orderness(timedelta(milliseconds=5))
    source = from_source(CollectionSource(numbers, batch_size=7)).returns(Number)
    return source.assign_timestamps_and_watermarks(strategy, lambda number: number.at)


def run(*streams: DataStream[Any]) -> tuple[list[list[Any]], PipelineResult]:
    sinks = [CollectSink[Any]() for _ in streams]
    ends = [stream.sink_to(sink) for stream, sink in zip(streams, sinks, strict=True)]
    result = LocalRunner().run(Pipeline("patterns", *ends))
    return [result.collected(sink) for sink in sinks], result


def low(number: Number) -> bool:
    return checked(number).value < 60


def high(number: Number, matched: Mapping[str, list[Number]]) -> bool:
    return checked(number).value > sum(each.value for each in matched["low"]) / 2


def key_of_match(parts: dict[str, list[Number]]) -> str:
    return parts["low"][0].key


PATTERNS: dict[str, Pattern[Number]] = {
    "next": Pattern[Number].begin("low", low).next("high", high),
    "within": Pattern[Number].begin("low", low).followed_by("high", high).within(timedelta(milliseconds=9)),
    "many": Pattern[Number]
    .begin("low", low)
    .one_or_more()
    .followed_by_any("high", high)
    .within(timedelta(milliseconds=6)),
}
SKIPS = [AfterMatchSkipStrategy.no_skip(), AfterMatchSkipStrategy.skip_past_last_event()]


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("skip", SKIPS, ids=["no skip", "past last"])
def test_an_element_whose_condition_raises_is_passed_over(name: str, skip: AfterMatchSkipStrategy) -> None:
    for seed in range(3):
        numbers = drawn(seed)
        good, failing = (
            each.key_by(lambda n: n.key).pattern(
                PATTERNS[name], skip=skip, tie_break=lambda n: n.value, timed_out=TIMED_OUT
            )
            for each in (stamped(numbers).filter(lambda number: not is_bad(number)), stamped(numbers))
        )
        quiet = good.apply(lambda parts: parts)
        guarded = failing.apply(lambda parts: parts, on_error=FAILED)
        (matches, timed_out), _ = run(quiet, quiet.get_side_output(TIMED_OUT))
        (matches_too, timed_out_too, failed), _ = run(
            guarded, guarded.get_side_output(TIMED_OUT), guarded.get_side_output(FAILED)
        )
        assert matches
        # The keys of one watermark take turns by their earliest elements, bad ones among them.
        for one, other in ((matches_too, matches), (timed_out_too, timed_out)):
            assert sorted(one, key=key_of_match) == sorted(other, key=key_of_match)
        assert sorted(each.element[0] for each in failed) == sorted(filter(is_bad, numbers))


def test_a_match_whose_function_raises_fails_alone() -> None:
    numbers = [Number("a", at, value) for at, value in enumerate([1, 2, 3, 4])]

    def ratio(first: Number, second: Number) -> int:
        return 12 // (first.value - 2)

    pairs = stamped(numbers).key_by(lambda n: n.key).pattern(Pattern[Number].begin("first").next("second"))
    step = pairs.select(ratio, on_error=FAILED)
    (good, failed), _ = run(step, step.get_side_output(FAILED))
    assert good == [-12, 12]
    assert [each.element for each in failed] == [numbers[1:3]]
    assert failed[0].error.endswith("(key 'a', a match)")
    (good,), result = run(pairs.select(ratio, on_error="drop"))
    assert (good, result.counter("failed_records_dropped")) == ([-12, 12], 1)
    type_form = step.get_side_output(OutputTag("failed")).element_type
    assert str(type_form) == "windrow.failures.Failed[list[tests.support.failing.Number]]"


def test_a_condition_is_tried_again_with_the_matches_as_they_were() -> None:
    tries: list[int] = []

    def flaky(number: Number) -> bool:
        tries.append(number.value)
        if tries.count(number.value) < 3:
            raise OSError("not yet")
        return True

    numbers = [Number("a", at, at) for at in range(3)]
    pairs = stamped(numbers).key_by(lambda n: n.key).pattern(Pattern[Number].begin("a", flaky).next("b"))
    (good,), _ = run(pairs.apply(lambda parts: parts, on_error=Retry(FixedDelayRetryStrategy(3, timedelta(0)))))
    assert good == [{"a": [numbers[at]], "b": [numbers[at + 1]]} for at in range(2)]
    tries.clear()
    with pytest.raises(UserFunctionError, match="2 tries"):
        run(pairs.apply(lambda parts: parts, on_error=Retry(FixedDelayRetryStrategy(2, timedelta(0)))))


def test_an_order_that_raises_is_for_its_element() -> None:
    numbers = [Number("a", 1, 0), Number("a", 1, 2), Number("a", 1, 1)]
    keyed = stamped(numbers).key_by(lambda n: n.key)
    pairs = keyed.pattern(Pattern[Number].begin("a").next("b"), tie_break=lambda n: -1 // n.value)
    step = pairs.apply(lambda parts: [each[0].value for each in parts.values()], on_error=FAILED)
    (good, failed), _ = run(step, step.get_side_output(FAILED))
    assert (good, [each.element for each in failed]) == ([[2, 1]], [[numbers[0]]])


def test_orders_that_cannot_be_compared_fail_the_run() -> None:
    numbers = [Number("a", 1, 0), Number("a", 1, 2)]
    keyed = stamped(numbers).key_by(lambda n: n.key)

    def order(number: Number) -> Any:
        return number.value or "first"

    pairs = keyed.pattern(Pattern[Number].begin("a").next("b"), tie_break=order)
    for on_error in ("fail", "drop"):
        with pytest.raises(UserFunctionError, match=r"TypeError.*\n.*key 'a'\n(.*\n)*.*where: .*pattern"):
            run(pairs.apply(lambda parts: parts, on_error=on_error))


def test_a_condition_is_called_once_for_an_element() -> None:
    asked: list[int] = []

    def condition(number: Number) -> bool:
        asked.append(number.value)
        return checked(number).value > 1

    numbers = [Number("a", at, at) for at in range(8)]
    pattern = stamped(numbers).key_by(lambda n: n.key).pattern(Pattern[Number].begin("a", condition))
    (good,), result = run(pattern.apply(lambda parts: parts["a"][0].value, on_error="drop"))
    assert (asked, good) == ([*range(8)], [2, 3, 4, 6, 7])
    assert result.counter("failed_records_dropped") == 1


@dataclass
class Noted:
    at: int
    notes: list[int]


def test_a_condition_that_fails_changes_no_matched_element() -> None:
    tries: list[int] = []

    def second(each: Noted, matched: Mapping[str, list[Noted]]) -> bool:
        matched["first"][0].notes.append(each.at)
        tries.append(each.at)
        if each.at == 2 or len(tries) == 3:
            raise UnluckyError("too soon")
        return len(matched["first"][0].notes) == 1

    strategy = WatermarkStrategy[Noted].for_monotonous_timestamps()
    for on_error in ("drop", Retry(FixedDelayRetryStrategy(2, timedelta(0)), then="drop")):
        tries.clear()
        source = from_source(CollectionSource([Noted(at, []) for at in range(1, 5)])).returns(Noted)
        keyed = source.assign_timestamps_and_watermarks(strategy, lambda each: each.at).key_by(lambda each: 0)
        pattern = Pattern[Noted].begin("first", lambda each: each.at == 1).followed_by("second", second)
        (good,), _ = run(
            keyed.pattern(pattern).apply(lambda m: (m["first"][0].notes, m["second"][0].at), on_error=on_error)
        )
        assert good == [([], 3)]


def test_an_order_gets_a_copy_at_each_try() -> None:
    seen: list[int] = []

    def order(each: Noted) -> int:
        each.notes.append(1)
        seen.append(len(each.notes))
        if len(seen) < 3:
            raise OSError("not yet")
        return each.at

    strategy = WatermarkStrategy[Noted].for_monotonous_timestamps()
    source = from_source(CollectionSource([Noted(1, [])])).returns(Noted)
    keyed = source.assign_timestamps_and_watermarks(strategy, lambda each: each.at).key_by(lambda each: 0)
    found = keyed.pattern(Pattern[Noted].begin("a"), tie_break=order)
    again = Retry(FixedDelayRetryStrategy(3, timedelta(0)))
    (good,), _ = run(found.apply(lambda parts: parts["a"][0].notes, on_error=again))
    assert (good, seen) == ([[]], [1, 1, 1])


def test_matches_go_on_from_a_checkpoint() -> None:
    source = PushSource(Number)
    keyed = from_source(source).key_by(lambda n: n.key)
    pairs = keyed.pattern(Pattern[Number].begin("low", low).next("high", lambda n: n.value > 60))
    harness = StreamHarness(pairs.apply(lambda parts: [*parts], on_error="drop"), source)
    for at, value in enumerate((1, 5, 70)):
        harness.process_element(Number("a", at, value), at)
        harness.process_watermark(at)
        harness.snapshot_restore()
    assert harness.take_values() == [["low", "high"]]
    assert harness.counter("failed_records_dropped") == 1
