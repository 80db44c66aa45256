"""Hints of errors: what to write instead of what people who know other systems, or are in a hurry, write."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from datetime import UTC, timedelta
from functools import partial, wraps
from inspect import signature
from typing import Any
from unittest.mock import Mock

import pytest

from tests.dsl.plans import SECOND, SECONDS
from windrow import Pipeline, WatermarkStrategy, as_dict, as_singleton, from_collection
from windrow import aggregates as agg
from windrow.connectors import HybridSource
from windrow.errors import InvalidArgumentError, WindrowError
from windrow.failures import Retry
from windrow.functions import ExponentialBackoffDelayRetryStrategy, FixedDelayRetryStrategy
from windrow.kafka import KafkaSink
from windrow.patterns import Pattern
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import CollectionSource, TextFileSource
from windrow.state import ReducingStateDescriptor
from windrow.windows import CalendarWindows, CumulativeEventTimeWindows, SlidingEventTimeWindows
from windrow_runtime.local import LocalRunner

# Any: what a type checker would refuse.
numbers: Any = from_collection([1, 2])
keyed: Any = numbers.key_by(abs)
days: Any = CalendarWindows.days
weeks: Any = CalendarWindows.weeks
cumulative: Any = CumulativeEventTimeWindows.of
bounded: Any = WatermarkStrategy.for_bounded_out_of_orderness
retry: Any = Retry
pattern: Any = Pattern
texts: Any = numbers.map(str)
a_text: Any = str
windows: Any = keyed.window(SECONDS)

ARGUMENTS: dict[str, tuple[Callable[[], object], str]] = {
    "a number of seconds": (lambda: bounded(60), r"timedelta\(seconds=60\), or timedelta\(milliseconds=60\)"),
    "a number as within": (lambda: keyed.first(within=60), r"^within must be a duration(.|\n)*timedelta\(seconds=60\)"),
    "a negative within": (lambda: keyed.first(within=-SECOND), r"^within must be positive\n  given:    -1 s\n"),
    "a negative bound": (lambda: bounded(-60 * SECOND), r"must not be negative\n  given:    -1 min\n"),
    "a negative slide": (lambda: SlidingEventTimeWindows.of(SECOND, -SECOND), "given:    -1 s\n"),
    "a negative delay": (lambda: FixedDelayRetryStrategy(3, -SECOND), "must not be negative\n  given:    -1 s\n"),
    "delays that are swapped": (
        lambda: ExponentialBackoffDelayRetryStrategy(3, SECOND, SECOND / 1000),
        "given:    3 attempts, 1 s to 1 ms apart(.|\n)*max_attempts, initial_delay, max_delay",
    ),
    "the order of Flink's CUMULATE": (lambda: cumulative(SECOND, 60 * SECOND), "hint:     max_size comes first"),
    "a zone that is misspelt": (lambda: days("America/NewYork"), r"did you mean America/New_York\?"),
    "a zone in small letters": (lambda: days("europe/berlin"), r"did you mean Europe/Berlin\?"),
    "Beam's calendar": (lambda: days(1), r"days\(zone, size\)"),
    "a zone of datetime": (lambda: days(UTC), 'hint:     "UTC"'),
    "an offset": (lambda: days("UTC-5"), r"Etc/GMT\+5"),
    "a day in capitals": (lambda: weeks("UTC", first_day="Sunday"), r"did you mean sunday\?"),
    "windows that leave gaps": (lambda: days("UTC", 1, 7), "windows of 1 day follow"),
    "a policy that is misspelt": (lambda: numbers.map(abs, on_error="drp"), r"did you mean drop\?"),
    "a last policy that is misspelt": (lambda: retry(FixedDelayRetryStrategy(3), then="Fail"), r"did you mean fail\?"),
    "a class as a policy": (lambda: numbers.map(abs, on_error=Retry), "an instance, not the class"),
    "None as a policy": (lambda: numbers.map(abs, on_error=None), "\n  given:    None\n"),
    "a time as a time to live": (
        lambda: keyed.stateful_map(int, max, ttl=timedelta(1)),
        r"hint:     ttl=StateTtlConfig\(timedelta\(\.\.\.\)\)",
    ),
    "a text as a tag": (lambda: texts.get_side_output("late"), r"hint:     OutputTag\('late', Type\)"),
    "a function as a sink": (lambda: numbers.sink_to(print), r"FunctionSink\(function\) calls it"),
    "an aggregate that is not called": (lambda: windows.aggregate(agg.count), r"call it: agg.count\(\.\.\.\)"),
    "a function as an aggregate": (lambda: windows.aggregate(max), r"agg\.into"),
    "a lambda as an aggregate": (lambda: windows.aggregate(lambda a, b: a), r"reduce\(function\)"),
    "a sum of texts": (lambda: numbers.map(str).key_by(len).sum(lambda text: text), "given:    .*, of type str"),
    "an aggregate of texts": (lambda: texts.window_all(SECONDS).aggregate(agg.mean(a_text)), "mean adds numbers up"),
    "a value as a condition": (lambda: pattern.begin("x", "fail"), "lambda event: event.kind == 'fail'"),
    "a pattern that does not begin": (
        lambda: pattern.next("x", abs),
        r"given:    Pattern.next(.|\n)*where:    .*test_hints",
    ),
    "a call of the class": (pattern.one_or_more, r"hint:     Pattern.begin\(name, condition\).one_or_more"),
}


@pytest.mark.parametrize("mistake", ARGUMENTS)
def test_a_wrong_argument_leads_to_the_right_one(mistake: str) -> None:
    call, text = ARGUMENTS[mistake]
    with pytest.raises(WindrowError, match=text):
        call()


NEXT: dict[str, tuple[Any, str]] = {
    "distinct": (numbers, r"key_by\(\.\.\.\)\.distinct\(\.\.\.\)"),
    "latest": (numbers, r"key_by\(\.\.\.\)\.latest\(\)"),
    "allowed_lateness": (numbers, r"window_all\(\.\.\.\)\.allowed.*, or key_by\(\.\.\.\)\.window\(\.\.\.\)\.allowed"),
    "trigger": (keyed, r"window\(\.\.\.\)\.trigger"),
    "apply of an interval join": (keyed.interval_join(keyed), r"between\(\.\.\.\)\.apply\(\.\.\.\)"),
    "apply of a join": (numbers.join(numbers).where(abs).equal_to(abs), r"window\(\.\.\.\)\.apply"),
    "collect of a pattern": (keyed.pattern(pattern.begin("x")), r"select\(\.\.\.\)\.collect\(\)"),
    "collect of a join": (keyed.as_of_join(keyed), r"apply\(\.\.\.\)\.collect\(\)"),
    "join": (keyed, r"as_of_join\(other\).*interval_join\(other\).*connect\(other\).*with_side_input"),
    "filtered_map": (numbers, ""),
    "flatSelect": (keyed.pattern(pattern.begin("x")), r"apply\(.*flat_map"),
    "combinePerKey": (keyed, r"agg\.into"),
    "timesOrMore": (pattern.begin("x"), r"times_or_more\(\.\.\.\)"),
    "with_timestamp_assigner": (bounded(SECOND), "assign_timestamps_and_watermarks"),
    "withIdleness": (bounded(SECOND), r"with_idleness\(\.\.\.\)"),
}


@pytest.mark.parametrize("name", NEXT)
def test_a_call_that_comes_too_early_leads_to_the_calls_before_it(name: str) -> None:
    stage, hint = NEXT[name]
    with pytest.raises(AttributeError, match=f"\n  hint:     .*{hint}" if hint else "attribute 'filtered_map'$"):
        getattr(stage, name.partition(" ")[0])


IMPORTS: dict[str, str] = {
    "from windrow import KTable": r"latest\(\)",
    "from windrow import MapFunction": "from windrow.functions import MapFunction",
    "from windrow import AsDict": "from windrow import as_dict",
    "from windrow.windows import FixedWindows": "from windrow.windows import TumblingEventTimeWindows",
    "from windrow.triggers import AfterWatermark": "from windrow.triggers import after_watermark",
    "from windrow import SparkRunner": "from windrow_runtime.spark import SparkRunner",
    "from windrow import from_list": "from windrow import from_collection",
    "from windrow.sources import KafkaSource": "from windrow.kafka import KafkaSource",
    "from windrow.sinks import JdbcSink": "from windrow.sinks import DatabaseSink",
    "from windrow.aggregates import avg": r"mean\(selector\)",
    "from windrow.aggregates import countDistinct": "from windrow.aggregates import count_distinct",
}


@pytest.mark.parametrize("line", IMPORTS)
def test_an_import_of_a_name_of_elsewhere_leads_to_it(line: str) -> None:
    with pytest.raises(ImportError, match=f"\n  hint:     .*{IMPORTS[line]}"):
        exec(line)


def test_a_name_that_nobody_knows_is_a_plain_error() -> None:
    import windrow

    assert not hasattr(windrow, "nonsense")
    assert not hasattr(windrow, "Nonsense")
    assert getattr(agg, "avg", None) is None


def test_a_result_says_how_elements_are_had() -> None:
    result: Any = LocalRunner().run(Pipeline("p", numbers.sink_to(CollectSink())))
    with pytest.raises(AttributeError, match=r"\n  hint:     collected\(sink\)"):
        result.collect(0)
    assert copy(result).counters == result.counters


class Counted:
    def __call__(self, element: int) -> int:
        return element

    def no_argument(self) -> bool:
        return True


def pow_of(base: int, exponent: int) -> int:
    return int(base**exponent)


one: Any = lambda value: value  # noqa: E731
two: Any = pow_of
side: Any = as_singleton(numbers)
matches: Any = keyed.pattern(Pattern.begin("small", lambda number: number < 1))

ARITY: dict[str, tuple[Callable[[], object], str]] = {
    "no argument": (lambda: numbers.key_by(lambda: 1), r"key_by .* one argument\n  given:    lambda\(\)\n.*\n  where"),
    "too many": (lambda: numbers.map(lambda a, b: a), r"given:    lambda\(a, b\)(.|\n)*hint:     lambda element: "),
    "too few": (lambda: keyed.reduce(lambda a: a), r"reduce calls its function with 2 arguments"),
    "a method": (lambda: numbers.filter(Counted().no_argument), r"given:    no_argument\(\)"),
    "a partial function": (lambda: keyed.sum(partial(pow_of, 2, 3)), "sum calls its function with one argument"),
    "a selector of an aggregate": (lambda: agg.sum(two), r"the selector of sum.* is called with one argument"),
    "a condition": (lambda: pattern.begin("x", lambda a, b, c: True), "is called with 2 arguments"),
    "the beginning of a state": (lambda: keyed.stateful_map(lambda key: 0, two), "hint:     lambda: "),
    "a function with a side input": (
        lambda: numbers.with_side_input(side).map(lambda n: n),
        r"map calls its function with 2 arguments\n  given:    lambda\(n\)(.|\n)*hint:     lambda element, view: ",
    ),
    "a function with two side inputs": (
        lambda: numbers.with_side_input(side, side).filter(two),
        "hint:     lambda element, first, second: ",
    ),
    "a function with a side input and a context": (
        lambda: numbers.with_side_input(side).process(two),
        "hint:     lambda element, view, context: ",
    ),
    "the key of a mapping": (lambda: as_dict(numbers, two), "key of as_dict is called with one argument"),
    "the value of a mapping": (lambda: as_dict(numbers, abs, two), "value of as_dict is called with one argument"),
    "the first of two functions": (lambda: numbers.connect(numbers).map(two, abs), "map calls its function with one"),
    "the second of two functions": (lambda: numbers.connect(numbers).flat_map(abs, two), "flat_map calls its function"),
    "the record of a match": (
        lambda: matches.select(lambda large: large),
        "no such part(.|\\n)*expected: a name of small",
    ),
    "the function of a match": (lambda: matches.apply(two), "hint:     lambda elements: "),
    "the function of a sink": (lambda: FunctionSink(one), "hint:     lambda batch, elements: "),
    "the topic of a sink": (lambda: KafkaSink("host:1", two), "topic of a Kafka sink is called with one argument"),
    "the key of a sink": (lambda: KafkaSink("host:1", "t", key=two), "key of a Kafka sink is called with one argument"),
    "a reducing state": (lambda: ReducingStateDescriptor("most", one), "is called with 2 arguments"),
    "the order of files": (lambda: TextFileSource("/d", files_in_order=two), "order of files is called with one"),
    "a part of a source": (lambda: HybridSource(CollectionSource([1])).then(two), "hint:     lambda switch: "),
    "the function of a window": (lambda: windows.apply(two), "function of key, window, elements"),
}


@pytest.mark.parametrize("mistake", ARITY)
def test_a_function_with_another_number_of_arguments_is_refused(mistake: str) -> None:
    call, text = ARITY[mistake]
    with pytest.raises(InvalidArgumentError, match=text):
        call()


def test_a_function_that_may_take_the_arguments_passes() -> None:
    for function in (abs, lambda *each: each, lambda each, power=2: each**power, partial(pow_of, 2), Counted(), int):
        numbers.map(function)


def wrapped_text() -> Any:
    """A function that makes a number, with the annotations of one that makes a text."""

    def text(number: int) -> str:
        return str(number)

    @wraps(text)
    def doubled(number: int) -> int:
        return 2 * number

    return doubled


def signed(*values: Any) -> Any:
    return values[0]


signed.__signature__ = signature(lambda a, b: None)  # type: ignore[attr-defined]  # as decorators set it


def seen(event: int) -> bool:
    return event > 0


@wraps(seen)
def with_matched(event: int, matched: Any) -> bool:
    return seen(event)


RIGHT: dict[str, Callable[[], object]] = {
    "annotations of a wrapped function": lambda: numbers.key_by(lambda n: 0).sum(wrapped_text()).collect(),
    "a signature that was set": lambda: numbers.map(signed).collect(),
    "a mock": lambda: numbers.map(Mock(spec=lambda a, b: a, return_value=1)),
    "a condition with other arguments than it wraps": lambda: pattern.begin("x", with_matched),
    "a default with a long text": lambda: numbers.map(lambda n, text="x" * 100_000: n).collect(),
}


@pytest.mark.parametrize("program", RIGHT)
def test_right_functions_are_taken(program: str) -> None:
    assert RIGHT[program]() != []
