"""What the language of patterns refuses, how plans show patterns, and what comes of matches, parts and times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from tests.dsl.plans import cases, fault_of, in_time, refusal
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_collection
from windrow.errors import UnsupportedOperationError, UserFunctionError
from windrow.patterns import AfterMatchSkipStrategy, Pattern
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner


class Payment(NamedTuple):
    card: str
    at: int
    amount: float


class Probe(NamedTuple):
    small: Payment
    large: Payment


class Series(NamedTuple):
    first: Payment
    rest: list[Payment]
    last: Payment | None


class Narrow(NamedTuple):
    first: Payment
    rest: Payment
    last: Payment


class Misspelt(NamedTuple):
    smaller: Payment


def card(payment: Payment) -> str:
    return payment.card


def at(payment: Payment) -> int:
    return payment.at


def is_small(payment: Payment) -> bool:
    return payment.amount < 1


def is_large(payment: Payment) -> bool:
    return payment.amount > 500


PROBE = Pattern[Payment].begin("small", is_small).followed_by("large", is_large).within(timedelta(seconds=10))
SERIES = (
    Pattern[Payment]
    .begin("first", is_small)
    .followed_by("rest", lambda payment: 1 <= payment.amount <= 500)
    .one_or_more()
    .optional()
    .followed_by("last", is_large)
    .optional()
)
PAYMENTS = [
    Payment("a", 1_000, 0.5),
    Payment("b", 2_000, 0.1),
    Payment("a", 4_000, 100.0),
    Payment("a", 5_000, 900.0),
    Payment("b", 20_000, 700.0),
]


def keyed(payments: list[Payment] = PAYMENTS) -> Any:
    return in_time(payments, at).key_by(card)


def test_a_match_is_a_record_with_fields_by_part() -> None:
    assert keyed().pattern(PROBE).select(Probe).collect() == [Probe(PAYMENTS[0], PAYMENTS[3])]


def test_parts_are_elements_lists_and_none() -> None:
    a1, b1, a2, a3, b2 = PAYMENTS
    found = keyed().pattern(SERIES).select(Series).collect()
    assert sorted(found, key=str) == sorted(
        [
            *(Series(a1, [], None), Series(b1, [], None), Series(a1, [a2], None)),
            *(Series(a1, [], a3), Series(a1, [a2], a3), Series(b1, [], b2)),
        ],
        key=str,
    )


def test_a_function_takes_the_parts_that_it_names() -> None:
    stream = keyed().pattern(SERIES).select(lambda last, first: (first.at, last and last.at))
    assert (1_000, 5_000) in stream.collect()
    with_all = keyed().pattern(PROBE).select(lambda **parts: sorted(parts))
    assert with_all.collect() == [["large", "small"]]


def test_apply_takes_a_dict_without_the_parts_that_have_no_element() -> None:
    def names(match: dict[str, list[Payment]]) -> list[str]:
        return list(match)

    found = keyed().pattern(SERIES).apply(names).collect()
    assert sorted(map(tuple, found)) == [
        *(("first",), ("first",), ("first", "last"), ("first", "last")),
        *(("first", "rest"), ("first", "rest", "last")),
    ]


def test_late_elements_and_partial_matches_have_side_outputs() -> None:
    late, timed_out = OutputTag("late", Payment), OutputTag("timed out", dict[str, list[Payment]])
    payments = [*PAYMENTS[:2], Payment("b", 20_000, 5.0), Payment("a", 3_000, 0.2)]
    matches = keyed(payments).pattern(PROBE, late=late, timed_out=timed_out).select(Probe)
    sinks = [CollectSink[Any](), CollectSink[Any]()]
    streams = (matches.get_side_output(late), matches.get_side_output(timed_out))
    plan = Pipeline("p", *[stream.sink_to(sink) for stream, sink in zip(streams, sinks, strict=True)])
    result = LocalRunner().run(plan)
    # One batch has them all, and nothing was late in it: the twin below reads one by one.
    assert result.collected(sinks[0]) == []
    partial = sorted(match["small"][0] for match in result.collected(sinks[1]))
    assert partial == sorted([payments[0], payments[1], payments[3]])


def test_an_element_that_comes_behind_the_watermark_is_late() -> None:
    late = OutputTag("late", Payment)
    stream = from_collection([*PAYMENTS, Payment("a", 3_000, 0.2)], batch_size=1)
    stamped = stream.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), at)
    matches = stamped.key_by(card).pattern(PROBE, late=late).select(Probe)
    sink, sink_late = CollectSink[Probe](), CollectSink[Payment]()
    plan = Pipeline("p", matches.sink_to(sink), matches.get_side_output(late).sink_to(sink_late))
    result = LocalRunner().run(plan)
    assert result.collected(sink_late) == [Payment("a", 3_000, 0.2)]
    assert result.collected(sink) == [Probe(PAYMENTS[0], PAYMENTS[3])]


def test_a_condition_sees_what_was_matched() -> None:
    rising = (
        Pattern[Payment]
        .begin("first")
        .followed_by("rest", lambda payment, matched: payment.amount > max(p.amount for p in matched["first"]))
    )
    found = keyed().pattern(rising).select(lambda first, rest: (first.at, rest.at)).collect()
    assert sorted(found) == [(1_000, 4_000), (2_000, 20_000), (4_000, 5_000)]


@pytest.mark.parametrize(
    ("call", "text"),
    cases(
        {
            "two parts of a pattern have the same name": [
                lambda: PROBE.next("small"),
                lambda: PROBE.next(Pattern.begin("small")),
            ],
            "a part of a pattern has a name": [lambda: Pattern.begin(""), lambda: PROBE.next(3)],  # type: ignore[call-overload]
            "a group has no condition": [lambda: PROBE.next(Pattern.begin("x"), is_small)],  # type: ignore[call-overload]
            "must be a function": [lambda: PROBE.next("x", 3)],  # type: ignore[call-overload]
            "must return its result": [lambda: PROBE.next("x", yields)],
            "a part has one number": [lambda: PROBE.times(2).one_or_more()],
            "is a number of elements|has a number of elements": [
                lambda: PROBE.times(0),
                lambda: PROBE.times(3, 2),
                lambda: PROBE.times(-1, 2),
                lambda: PROBE.times_or_more(0),
                lambda: PROBE.times(0, 0),
            ],
            "the part is optional already": [lambda: PROBE.optional().optional(), lambda: PROBE.times(0, 2).optional()],
            "cannot stand behind a greedy one": [lambda: PROBE.one_or_more().greedy().next("x").optional()],
            "greedy needs": [PROBE.greedy],
            "greedy does not go with": [
                lambda: PROBE.one_or_more().greedy().allow_combinations(),
                lambda: PROBE.one_or_more().allow_combinations().greedy(),
            ],
            "a group cannot be greedy": [lambda: Pattern.begin(PROBE).one_or_more().greedy()],
            "one of consecutive and": [lambda: PROBE.times(2).consecutive().allow_combinations()],
            "consecutive needs": [PROBE.consecutive],
            "until is for": [lambda: PROBE.until(is_small), lambda: PROBE.times(2).until(is_small)],
            "a loop has one until": [lambda: PROBE.one_or_more().until(is_small).until(is_large)],
            "must not come has no number": [lambda: PROBE.not_next("x").times(2)],
            "must not come cannot be optional": [lambda: PROBE.not_followed_by("x").optional()],
            "must be positive": [
                lambda: PROBE.within(timedelta(0)),
                lambda: PROBE.within_previous(timedelta(-1)),
                lambda: PROBE.one_or_more(gap=timedelta(0)),
            ],
            "the first part has none before it": [lambda: Pattern.begin("x").within_previous(timedelta(1))],
            "looks at one element": [lambda: PROBE.not_next("x").within_previous(timedelta(1))],
            "names a part that no match has": [
                lambda: keyed().pattern(PROBE, skip=AfterMatchSkipStrategy.skip_to_first("smaller")),
                lambda: keyed().pattern(
                    PROBE.not_next("no"), skip=AfterMatchSkipStrategy.skip_to_last("no").throw_exception_on_miss()
                ),
            ],
            "only a strategy that names a part": [lambda: AfterMatchSkipStrategy.no_skip().throw_exception_on_miss()],
            "nothing says within what time": [
                lambda: keyed().pattern(Pattern.begin("x").not_followed_by("y", is_large)),
                lambda: keyed().pattern(
                    Pattern.begin("x").next(Pattern[Payment].begin("z").not_followed_by("y", is_large))
                ),
            ],
            "longer than that of the whole match": [
                lambda: keyed().pattern(PROBE.within_previous(timedelta(seconds=11))),
                lambda: keyed().pattern(PROBE.times(2, gap=timedelta(seconds=11))),
                lambda: keyed().pattern(Pattern.begin(PROBE.next("x").within_previous(timedelta(minutes=1)))),
            ],
            "counts at the end of a pattern alone": [
                lambda: keyed().pattern(
                    Pattern.begin("x").not_followed_by("y", is_large).within_previous(timedelta(1)).next("z")
                )
            ],
            "pattern looks for a pattern": [lambda: keyed().pattern("small")],
            "skip says what": [lambda: keyed().pattern(PROBE, skip="skip_to_next")],
            "tie_break needs a function": [lambda: keyed().pattern(PROBE, tie_break=3)],
            "go to the side output of a tag": [
                lambda: keyed().pattern(PROBE, late="late"),
                lambda: keyed().pattern(PROBE, timed_out="late"),
                lambda: keyed().in_event_time_order(late="late"),
            ],
            "go to one side output": [
                lambda: keyed().pattern(PROBE, late=OutputTag("x", Payment), timed_out=OutputTag("x"))
            ],
            "the pattern has no such part": [lambda: keyed().pattern(PROBE).select(Misspelt)],
            "takes small by its place": [lambda: keyed().pattern(PROBE).select(lambda small, /, large: small)],
            "takes no part": [lambda: keyed().pattern(PROBE).select(lambda: 1)],
            "select needs a function": [lambda: keyed().pattern(PROBE).select(3)],
            "field rest of Narrow cannot take": [
                lambda: (
                    keyed().pattern(Pattern[Payment].begin("first").next("rest").times(2).next("last")).select(Narrow)
                )
            ],
            "field last of Narrow cannot take": [
                lambda: (
                    keyed().pattern(Pattern[Payment].begin("first").next("rest").next("last").optional()).select(Narrow)
                )
            ],
            "max_buffered is a number": [
                lambda: keyed().in_event_time_order(max_buffered=0),
                lambda: keyed().in_event_time_order(max_buffered=True),
            ],
        }
    ),
)
def test_refused(call: Callable[[], object], text: str) -> None:
    assert any(part in str(refusal(call)) for part in text.split("|"))


def yields(payment: Payment) -> Any:
    yield payment


def test_what_must_not_come_is_refused_behind_an_optional_part() -> None:
    for pattern in (PROBE.optional(), PROBE.times(0, 2)):
        with pytest.raises(UnsupportedOperationError, match="not_followed_by cannot stand behind an optional part"):
            pattern.not_followed_by("x", is_small)
        with pytest.raises(UnsupportedOperationError, match="not_next cannot stand behind an optional part"):
            pattern.not_next("x", is_small)


def test_names_of_flink_are_told() -> None:
    with pytest.raises(AttributeError, match=r"followed_by\(\.\.\.\)"):
        PROBE.followedBy("x")  # type: ignore[attr-defined]


def probes(keys: Any) -> DataStream[Any]:
    stream: DataStream[Any] = keys.pattern(PROBE).select(Probe)
    return stream


def ordered(keys: Any) -> DataStream[Any]:
    stream: DataStream[Any] = keys.in_event_time_order().map(at)
    return stream


@pytest.mark.parametrize("build", [probes, ordered])
def test_streams_without_timestamps_are_refused(build: Callable[[Any], DataStream[Any]]) -> None:
    assert (
        "needs timestamps, and the stream has none" in fault_of(build(from_collection(PAYMENTS).key_by(card))).message
    )


def test_the_plan_shows_patterns() -> None:
    pattern = SERIES.next("end").times_or_more(2, gap=timedelta(seconds=3)).consecutive().greedy()
    skip = AfterMatchSkipStrategy.skip_to_first("rest").throw_exception_on_miss()
    late, timed_out = OutputTag("late", Payment), OutputTag("slow", dict[str, list[Payment]])
    stage = keyed().pattern(
        pattern.within(timedelta(minutes=1)), skip=skip, tie_break=at, late=late, timed_out=timed_out
    )
    text = Pipeline("p", stage.apply(len).sink_to(CollectSink())).explain()
    assert (
        "begin(first).followed_by(rest).one_or_more().optional().followed_by(last).optional()"
        ".next(end).times_or_more(2, gap=3 s).consecutive().greedy(), within 1 min, skip_to_first 'rest' or fail, "
        "ties by at, late to 'late', timed out to 'slow', len"
    ) in text
    assert repr(PROBE) == "Pattern(begin(small).followed_by(large))"


def test_a_condition_that_raises_is_told_with_its_element() -> None:
    pattern = Pattern[Payment].begin("x", lambda payment: payment.amount / 0 > 1)
    with pytest.raises(UserFunctionError, match=r"ZeroDivisionError(.|\n)*Payment\(card='a', at=1000"):
        keyed().pattern(pattern).select(lambda x: x).collect()


def test_types_of_results_are_known() -> None:
    assert keyed().pattern(PROBE).select(Probe).element_type is Probe
    timed_out: OutputTag[dict[str, list[Payment]]] = OutputTag("slow")
    matches = keyed().pattern(PROBE, timed_out=timed_out).select(Probe)
    assert matches.get_side_output(timed_out).element_type == dict[str, list[Payment]]
