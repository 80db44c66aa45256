"""Functions that change what they are given and emit: the same on Spark as in the interpreter, wherever batches end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.operators.mutating import STREAMS, in_order, items_in_batches
from windrow import Pipeline
from windrow.sinks import CollectSink
from windrow_runtime.local import PipelineResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Any: results of every kind.
def _differences(size: int, run: Callable[[Pipeline], PipelineResult]) -> dict[str, list[Any]]:
    """What the streams give, where it is something else than expected."""
    items = items_in_batches(size)
    sinks = {name: CollectSink[Any](name) for name in STREAMS}
    ends = [build(items).sink_to(sinks[name]) for name, (build, _) in STREAMS.items()]
    result = run(Pipeline("emitted values", *ends))
    found = {name: result.collected(sink) for name, sink in sinks.items()}
    return {
        name: found[name]
        for name, (_, expected) in STREAMS.items()
        if in_order(name, found[name]) != in_order(name, expected)
    }


@pytest.mark.thorough(reason="tests/differential draws such functions in streams; a job below has all of them")
def test_values_are_fixed_when_they_are_emitted(spark: SparkSession) -> None:
    from windrow_runtime.spark import SparkRunner

    assert _differences(1, SparkRunner(spark).run) == {}


def test_values_are_fixed_when_they_are_emitted_in_a_batch_job(spark: SparkSession) -> None:
    from windrow_runtime.spark import SparkRunner

    assert _differences(4, SparkRunner(spark).run_batch) == {}
