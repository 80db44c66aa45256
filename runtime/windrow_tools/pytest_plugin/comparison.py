"""Compares what a pipeline gives on the interpreter and on Spark."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windrow import DataStream, Pipeline
from windrow.errors import UnsupportedOperationError
from windrow.plan.pipeline import PartialPipeline
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.errors import line_of_caller

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 10


def compare_engines(tested: Pipeline | DataStream[Any], spark: SparkSession, *, in_order: bool, drain: bool) -> str:
    """Run a pipeline on both engines; returns what differs, or an empty text.

    Raises:
        UnsupportedOperationError: If the pipeline has a sink that is no ``CollectSink``.
        WindrowError: If a run fails.
    """
    from windrow_spark import SparkRunner

    # Any: elements of every type.
    pipeline = (
        PartialPipeline("compared", tested.sink_to(CollectSink[Any]())) if isinstance(tested, DataStream) else tested
    )
    sinks = {step.id: step.node.writes for step in pipeline.steps if step.node.writes is not None}
    collecting = {step: sink for step, sink in sinks.items() if isinstance(sink, CollectSink)}
    if others := [sink.describe() for step, sink in sinks.items() if step not in collecting]:
        raise UnsupportedOperationError(
            "engines are compared by what collecting sinks take",
            given=f"a pipeline that writes to {', '.join(others)}",
            expected="a pipeline whose sinks are all CollectSink, or a stream",
            where=line_of_caller(),
            hint="write the stream as a function of its input, and test it with a CollectSink",
        )
    expected = LocalRunner().run(pipeline, drain=drain)
    actual = SparkRunner(spark).run(pipeline, drain=drain)
    texts = [
        f"{step}:\n{text}"
        for step, sink in collecting.items()
        if (text := difference_of(expected.collected(sink), actual.collected(sink), in_order=in_order))
    ]
    if text := _counters(expected.counters, actual.counters):
        texts.append(text)
    return "\n".join(["the interpreter and Spark differ", *texts, pipeline.explain()]) if texts else ""


def difference_of(expected: Sequence[object], actual: Sequence[object], *, in_order: bool) -> str:
    """Returns what one side alone has, a line each; an empty text if both are equal."""
    if in_order:
        for place, (left, right) in enumerate(zip(expected, actual, strict=False)):
            if not _equal(left, right):
                return f"  element {place} on the interpreter: {left!r}\n  element {place} on Spark: {right!r}"
        return _lines("the interpreter", expected[len(actual) :]) + _lines("Spark", actual[len(expected) :])
    # Elements may have no order and no hash, so those that look alike are matched one by one; and then those that do
    # not, as sets and dicts in another order.
    missing, surplus = _unmatched(*_unmatched(expected, actual, repr), type)
    return _lines("the interpreter", missing) + _lines("Spark", surplus)


def _unmatched(
    expected: Sequence[object], actual: Sequence[object], alike: Callable[[object], Hashable]
) -> tuple[list[object], list[object]]:
    """Returns the elements of each side without an equal one on the other side among those that are ``alike``."""
    rest: dict[Hashable, list[object]] = {}
    for element in actual:
        rest.setdefault(alike(element), []).append(element)
    missing: list[object] = []
    for element in expected:
        others = rest.get(alike(element), [])
        equal = next((place for place, other in enumerate(others) if _equal(element, other)), None)
        if equal is None:
            missing.append(element)
        else:
            del others[equal]
    return missing, [each for others in rest.values() for each in others]


def _equal(left: object, right: object) -> bool:
    # NaN equals nothing; two that look alike are the same result.
    return type(left) is type(right) and (left == right or repr(left) == repr(right))


def _lines(engine: str, elements: Sequence[object]) -> str:
    shown = "".join(f"  only {engine}: {element!r}\n" for element in elements[:_SHOWN])
    return shown + (f"  and {len(elements) - _SHOWN} more\n" if len(elements) > _SHOWN else "")


def _counters(expected: Mapping[str, Mapping[str, int]], actual: Mapping[str, Mapping[str, int]]) -> str:
    lines = []
    for step in sorted({*expected, *actual}):
        left, right = expected.get(step, {}), actual.get(step, {})
        lines += [
            f"  {step}, {name}: {left.get(name, 0)} on the interpreter, {right.get(name, 0)} on Spark"
            for name in sorted({*left, *right})
            if left.get(name, 0) != right.get(name, 0)
        ]
    return "\n".join(["counters:", *lines]) if lines else ""
