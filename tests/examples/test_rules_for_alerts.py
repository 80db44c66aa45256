"""The example with broadcast rules, in process and on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from examples import rules_for_alerts
from examples.rules_for_alerts import STEPS, Limit, Reading
from windrow import Pipeline, from_collection
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_says_which_rooms_are_too_warm(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["rules_for_alerts.py"])
    rules_for_alerts.main()
    assert capsys.readouterr().out.splitlines() == ["cellar: 27.0 is above 18.0", "3.14: 27.5 is above 26.0"]


def test_on_spark(spark: SparkSession) -> None:
    # All rules come before all readings: there is no limit for offices any more.
    sink = CollectSink[str]()
    readings = from_collection([step for step in STEPS if isinstance(step, Reading)])
    limits = from_collection([step for step in STEPS if isinstance(step, Limit)])
    pipeline = Pipeline("alerts", rules_for_alerts.build(readings, limits).sink_to(sink))
    for result in (LocalRunner().run(pipeline), SparkRunner(spark).run(pipeline)):
        assert result.collected(sink) == ["cellar: 27.0 is above 18.0"]
