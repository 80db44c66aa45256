"""Values that neither engine takes: one value for many, keys without a hash, keys in a field of another type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.spark.comparison import millis
from windrow import Pipeline, WatermarkStrategy, from_collection
from windrow import aggregates as agg
from windrow.errors import InvalidArgumentError
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: streams as programs have them that are not type-checked.


class Counted(NamedTuple):
    key: int
    n: int


def refused(pipeline: Callable[[], Pipeline], run: Callable[[Pipeline], object]) -> InvalidArgumentError:
    with pytest.raises(InvalidArgumentError) as raised:
        run(pipeline())
    return raised.value


def windows(selector: Callable[[Any], Any]) -> Any:
    stamped: Any = from_collection(["a", "b"], str).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda text: 0
    )
    return stamped.key_by(selector).window(TumblingEventTimeWindows.of(millis(10)))


CASES: dict[str, Callable[[], Any]] = {
    "flat_map": lambda: from_collection(["ab"], str).flat_map(lambda text: text.upper()),
    "apply": lambda: windows(lambda text: text.upper()).apply(lambda key, window, elements: "".join(elements)),
    "a key without a hash": lambda: windows(lambda text: [each * 1 for each in (text,)]).aggregate(agg.count()),
    "a key in a field": lambda: windows(lambda text: text.upper()).aggregate(
        agg.into(Counted, key=agg.key(), n=agg.count())
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_both_engines_refuse_with_the_same_words(spark: SparkSession, case: str) -> None:
    def pipeline() -> Pipeline:
        return Pipeline("refused", CASES[case]().sink_to(CollectSink()))

    here = refused(pipeline, LocalRunner().run)
    there = refused(pipeline, SparkRunner(spark).run)
    assert (there.message, there.expected, there.hint) == (here.message, here.expected, here.hint)
    assert str(there.where) == str(here.where)
    assert str(there.given)[:8] == str(here.given)[:8]
