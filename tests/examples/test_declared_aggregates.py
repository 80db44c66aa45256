"""The example of declared aggregates: what it prints in process, and the same on Spark, on columns."""

from __future__ import annotations

import pytest

from examples import declared_aggregates

RESULTS = [
    "Quarter(station='harbour', start=1777622400000, trips=3, bikes=2, mean=3.0, longest=4.5)",
    "Quarter(station='market', start=1777622400000, trips=1, bikes=1, mean=0.5, longest=0.5)",
    "Quarter(station='harbour', start=1777623300000, trips=1, bikes=1, mean=6.0, longest=6.0)",
    "Quarter(station='market', start=1777623300000, trips=2, bikes=1, mean=3.0, longest=3.0)",
]


def test_in_process(capsys: pytest.CaptureFixture[str]) -> None:
    declared_aggregates.main(["--local"])
    assert capsys.readouterr().out.splitlines() == RESULTS


@pytest.mark.spark
def test_on_spark(capsys: pytest.CaptureFixture[str]) -> None:
    declared_aggregates.main([])
    plan, results = capsys.readouterr().out.split("collect quarters\n")
    assert "runs as columns, partially aggregated before the exchange\n" in plan
    assert results.splitlines() == RESULTS
